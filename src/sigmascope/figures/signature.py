"""Signatures over depth: one, several in panels, or several in one panel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import offset_copy

from sigmascope.checks import check_choice, check_kind
from sigmascope.choices import Layout, ScoreKind
from sigmascope.compare.block_places import OTHER, places_of
from sigmascope.compare.networks import (
    SCORE_NAMES,
    Networks,
    checked_networks,
    estimator_of,
    has_scores,
)
from sigmascope.errors import InputError
from sigmascope.figures import style
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.maths.warping import Curve
from sigmascope.measure.result import Signature

CALLS = "activation call, in order of execution"
POPULATION = "population score ± 95 %"
MOST_PLACES = 16  # more places than this are not told apart in a legend
COLUMNS = {4: 1, 10: 2, 24: 4}  # up to so many networks -> columns of panels; beyond, 5


def groups_of(signature: Signature, groups: Sequence[str] | None) -> list[str]:
    """Return the group of each site; by default its place in the block."""
    check_kind("signature", signature, Signature, "sigmascope.signature or sigmascope.load")
    labels = places_of(signature.sites) if groups is None else list(groups)
    if len(labels) != len(signature):
        raise InputError(
            f"There are {len(labels)} groups and {len(signature)} sites in {signature.name}. "
            "Pass one per site."
        )
    return labels


@style.styled()
def draw_signature(
    signature: Signature,
    axes: Axes | None = None,
    *,
    groups: Sequence[str] | None = None,
    order: Sequence[str] = (),
    by: ScoreKind | None = None,
) -> Drawn:
    """Draw the scores in order of execution.

    Population scores have their 95 % intervals. Published scores have their standard deviation over
    the batches and, where they were measured too, the population scores in gray beside them. Each
    group of sites has a color and a marker. A call without a score leaves a gap, with a cross below
    it.

    Args:
        signature: to draw.
        axes: to draw in, without a legend; by default a new figure with one.
        groups: the group of each site; by default its place in the block.
        order: the groups in the order of their looks; by default in order of appearance.
        by: "published" or "population"; by default published scores if there are any.

    Raises:
        InputTypeError: something other than a signature.
        InputError: not one group per site.
        OptionError: another `by`, or one that was not measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = signature(network, torch.randn(256, 4), name="small")
    >>> [(row["site"], row["activation"]) for row in draw_signature(measured).table]
    [('1', 'relu'), ('2', 'tanh')]
    """
    labels = groups_of(signature, groups)
    chosen = estimator_of([signature], by)
    panel = style.panel_in(axes, style.PAGE, 2.1)
    _draw_sites(panel, _shown(signature, chosen), labels, _numbered([*order, *labels]))
    panel.set(xlabel=CALLS, ylabel=_score_label([signature], chosen))
    panel.set_title(style.shown(signature.name, 90 if axes is None else 48))
    if axes is None:
        style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], _rows(signature.name, signature, labels))


@style.styled()
def draw_signatures(
    signatures: Sequence[Signature], *, layout: Layout = "stacked", by: ScoreKind | None = None
) -> Drawn:
    """Draw several signatures on one scale.

    Args:
        signatures: one per network, at least one.
        layout: "stacked", a panel for each, with one look for each place in a block; or "overlaid",
            one look for each network, with a band: the 95 % interval of population scores, the
            standard deviation over the batches of published ones.
        by: "published" or "population"; by default published scores if all have them.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: another layout; another `by`, or one that was not measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = signature(network, torch.randn(256, 4), name="small")
    >>> len(draw_signatures([measured, measured]).table)
    4
    """
    check_choice("layout", layout, Layout)
    networks = checked_networks(signatures, by)
    places = _common_places(networks)
    axes = _stacked(networks, places) if layout == "stacked" else _overlaid(networks)
    named = zip(networks.names, networks.signatures, places, strict=True)
    return finished(
        axes, [row for name, signature, labels in named for row in _rows(name, signature, labels)]
    )


def _stacked(networks: Networks, places: Sequence[Sequence[str]]) -> list[Axes]:
    count = len(networks.names)
    columns = next((columns for most, columns in COLUMNS.items() if count <= most), 5)
    rows = math.ceil(count / columns)
    figure = style.new_figure(style.PAGE, 0.4 + rows * {1: 1.5, 2: 1.2}.get(columns, 0.78))
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    looks = _numbered(label for labels in places for label in labels)
    names = style.short_names(networks.names, {1: 90, 2: 44, 4: 28}.get(columns, 22))
    of_each = zip(panels, names, networks.signatures, places, strict=False)
    for panel, name, signature, labels in of_each:
        shown = _shown(signature, networks.by)
        _draw_sites(panel, shown, labels, looks, 1.0 if columns == 1 else 0.6)
        panel.set_title(name, fontsize=8 if columns < 4 else style.SMALL, pad=3)
        panel.xaxis.set_major_locator(MaxNLocator(8 if columns == 1 else 4, integer=True))
        panel.tick_params(labelsize=style.SMALL)
    for panel in panels[count:]:
        panel.set_axis_off()
    figure.supxlabel(CALLS, fontsize=8)
    figure.supylabel(_score_label(networks.signatures, networks.by), fontsize=8)
    style.add_panel_legend(figure, panels)
    return list(panels[:count])


def _overlaid(networks: Networks) -> list[Axes]:
    panel = style.new_figure(style.PAGE, 2.5).subplots()
    longest = max(map(len, networks.signatures))
    _limit(panel, longest)
    names = style.short_names(networks.names)
    for number, (name, signature) in enumerate(zip(names, networks.signatures, strict=True)):
        look, shown = style.look(number), _shown(signature, networks.by)
        band: dict[str, Any] = {"color": look.color, "alpha": 0.2, "linewidth": 0}
        panel.fill_between(shown.calls, shown.low, shown.high, **band)
        how = look.points(0.8 * _size(longest)) | {"linestyle": look.line, "linewidth": 0.9}
        panel.plot(shown.calls, shown.scores, label=name, **how)
    panel.set(xlabel=CALLS, ylabel=_score_label(networks.signatures, networks.by))
    style.add_legend(style.figure_of(panel), *panel.get_legend_handles_labels())
    return [panel]


class Shown(NamedTuple):
    """The scores (k,) of a signature at its calls (k,), with the ends of their bars.

    Intervals are often smaller than a marker: `capped` bars have caps, and their markers are small.
    `other` is what is drawn beside the scores in gray.
    """

    calls: np.ndarray[Any, np.dtype[np.int64]]
    scores: Curve
    low: Curve
    high: Curve
    capped: bool = False
    other: Shown | None = None


def _shown(signature: Signature, by: ScoreKind) -> Shown:
    calls, scores = np.arange(1, len(signature) + 1), signature.scores_by(by)
    if by == "population":
        ends = np.array([(site.low, site.high) for site in signature.sites]).reshape(-1, 2).T
        low, high = np.where(np.isfinite(ends), ends, scores)
        return Shown(calls, scores, low, high, True)
    spread = np.array([site.scatter.std for site in signature.sites], dtype=np.float64)
    spread = np.nan_to_num(spread)  # NaN for a single batch
    other = _shown(signature, "population") if has_scores(signature, "population") else None
    return Shown(calls, scores, scores - spread, scores + spread, False, other)


def _draw_sites(
    axes: Axes, shown: Shown, labels: Sequence[str], looks: Mapping[str, int], scale: float = 1.0
) -> None:
    calls, scores, low, high, capped, other = shown
    size = scale * _size(len(scores))
    _limit(axes, len(scores))
    axes.plot(calls, scores, color="0.75", linewidth=0.8 * scale, zorder=1)
    for label, number in looks.items():
        chosen = np.array([one == label for one in labels], dtype=bool)
        if not (chosen & np.isfinite(scores)).any():
            continue
        look, bars = style.look(number), chosen & (high > low)
        axes.vlines(calls[bars], low[bars], high[bars], color=look.color, linewidth=0.25 * size)
        if capped:
            cap: dict[str, Any] = {"color": look.color, "marker": "_", "linestyle": "none"}
            cap |= {"markersize": 1.2 * size, "markeredgewidth": 0.15 * size}
            axes.plot([calls[bars]] * 2, [low[bars], high[bars]], **cap)
        points = look.points(0.6 * size if capped else size)
        axes.plot(calls[chosen], scores[chosen], label=style.shown(label), **points)
    if other:
        _draw_beside(axes, other, size)
    style.mark_missing(axes, calls[~np.isfinite(scores)].tolist())


def _draw_beside(axes: Axes, other: Shown, size: float) -> None:
    """Draw scores in gray, shifted to the right, so that they and the others are both seen."""
    how: dict[str, Any] = {"color": "0.3", "linewidth": 0.2 * size, "zorder": 3}
    bars = axes.vlines(other.calls, other.low, other.high, **how)
    how |= {"marker": "_", "markersize": 0.8 * size, "linestyle": "none", "label": POPULATION}
    points = axes.plot(other.calls, other.scores, markeredgewidth=0.2 * size, **how)
    beside = offset_copy(axes.transData, style.figure_of(axes), 0.7 * size, units="points")
    for artist in (bars, *points):
        artist.set_transform(beside)  # only now, since limits follow from data that are not shifted


def _numbered(labels: Iterable[str]) -> dict[str, int]:
    return {label: number for number, label in enumerate(dict.fromkeys(labels))}


def _limit(axes: Axes, count: int) -> None:
    """Show all calls, also in axes that share their limits, and a line at 1, which is affine."""
    axes.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    axes.set_xlim(0.3, max(axes.get_xlim()[1], count + 0.7))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _score_label(signatures: Sequence[Signature], by: ScoreKind) -> str:
    if by == "population":
        return POPULATION
    spread = any(site.scatter.std > 0 for signature in signatures for site in signature.sites)
    return SCORE_NAMES[by] + (" ± std" if spread else "")


def _size(count: int) -> float:
    """Return the size in points at which so many markers can still be told apart."""
    return min(4.5, max(1.8, 4.5 * math.sqrt(40 / max(count, 1))))


def _common_places(networks: Networks) -> list[list[str]]:
    """Return the place of every site, with the rarest places merged into one."""
    places = [places_of(signature.sites) for signature in networks.signatures]
    counts = Counter(place for labels in places for place in labels)
    if len(counts) <= MOST_PLACES:
        return places
    kept = {place for place, _ in counts.most_common(MOST_PLACES - 1)}
    return [[place if place in kept else OTHER for place in labels] for labels in places]


def _rows(name: str, signature: Signature, labels: Sequence[str]) -> list[dict[str, Any]]:
    more = ("population", "low", "high") if has_scores(signature, "population") else ()
    return [
        {
            "network": name,
            "call": number,
            "site": site.name,
            "activation": site.kind,
            "group": label,
            "score": site.score,
            "std": site.scatter.std,
            **{key: getattr(site, key) for key in more},
            "batches": site.batches,
            "reason": site.reason,
        }
        for number, (site, label) in enumerate(zip(signature.sites, labels, strict=True), 1)
    ]
