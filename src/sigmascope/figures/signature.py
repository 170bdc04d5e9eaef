"""Signatures over depth: one, several below each other, or several on top of each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sigmascope.checks import check_choice
from sigmascope.compare.networks import Networks, checked_networks
from sigmascope.errors import InputError
from sigmascope.figures.drawn import Drawn, finished
from sigmascope.figures.kinds import check_kind
from sigmascope.figures.style import (
    PAGE,
    SMALL,
    add_legend,
    add_panel_legend,
    figure_of,
    look,
    mark_missing,
    new_figure,
    panel_in,
    short_names,
    shown,
    styled,
)
from sigmascope.measure.places import OTHER, places_of
from sigmascope.measure.signature import Signature

__all__ = ["LAYOUTS", "draw_signature", "draw_signatures", "groups_of"]

CALLS = "activation call, in order of execution"
SCORE = "affinity score"
LAYOUTS = ("stacked", "overlaid")
# More places than this are no longer told apart in a legend.
MOST_PLACES = 16
# Up to so many networks, one per row, two, four; beyond, five.
COLUMNS = {4: 1, 10: 2, 24: 4}


def groups_of(signature: Signature, groups: Sequence[str] | None) -> list[str]:
    """Return the group of each site; by default its place in the block.

    Raises:
        InputTypeError: another thing than a signature.
        InputError: not one group per site.
    """
    check_kind("signature", signature, Signature, "sigmascope.signature or sigmascope.load")
    labels = places_of(signature.sites) if groups is None else list(groups)
    if len(labels) != len(signature):
        raise InputError(
            f"There are {len(labels)} groups and {len(signature)} sites in {signature.name}. "
            "Give one per site."
        )
    return labels


@styled()
def draw_signature(
    signature: Signature,
    axes: Axes | None = None,
    *,
    groups: Sequence[str] | None = None,
    order: Sequence[str] = (),
) -> Drawn:
    """Draw the scores in order of execution, with their standard deviation over the batches.

    Each group of sites has its color and marker. A call without a score leaves a gap, and a cross
    below it.

    Args:
        signature: to draw.
        axes: to draw in, without a legend; by default a new figure with one.
        groups: the group of each site; by default its place in the block.
        order: the groups in the order of their looks; by default as they come.

    Raises:
        InputTypeError: another thing than a signature.
        InputError: not one group per site.
    """
    labels = groups_of(signature, groups)
    panel = panel_in(axes, PAGE, 2.1)
    looks = {label: number for number, label in enumerate(dict.fromkeys([*order, *labels]))}
    _draw_sites(panel, signature, labels, looks)
    panel.set(xlabel=CALLS, ylabel=_score_label([signature]))
    panel.set_title(shown(signature.name, 90 if axes is None else 48))
    if axes is None:
        add_legend(figure_of(panel), *panel.get_legend_handles_labels())
    return finished([panel], _rows(signature.name, signature, labels))


@styled()
def draw_signatures(signatures: Sequence[Signature], *, layout: str = "stacked") -> Drawn:
    """Draw several signatures on one scale.

    Args:
        signatures: of one network or more.
        layout: "stacked", a panel for each, with one look for each place in a block; or "overlaid",
            one look for each network, with the standard deviation over the batches as a band.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: another layout.
    """
    check_choice("layout", layout, LAYOUTS)
    networks = checked_networks(signatures)
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
    figure = new_figure(PAGE, 0.4 + rows * {1: 1.5, 2: 1.2}.get(columns, 0.78))
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    looks = {
        label: number
        for number, label in enumerate(
            dict.fromkeys(label for labels in places for label in labels)
        )
    }
    names = short_names(networks.names, {1: 90, 2: 44, 4: 28}.get(columns, 22))
    for panel, name, signature, labels in zip(
        panels, names, networks.signatures, places, strict=False
    ):
        _draw_sites(panel, signature, labels, looks, 1.0 if columns == 1 else 0.6)
        panel.set_title(name, fontsize=8 if columns < 4 else SMALL, pad=3)
        panel.xaxis.set_major_locator(MaxNLocator(8 if columns == 1 else 4, integer=True))
        panel.tick_params(labelsize=SMALL)
    for panel in panels[count:]:
        panel.set_axis_off()
    figure.supxlabel(CALLS, fontsize=8)
    figure.supylabel(_score_label(networks.signatures), fontsize=8)
    add_panel_legend(figure, panels)
    return list(panels[:count])


def _overlaid(networks: Networks) -> list[Axes]:
    panel = new_figure(PAGE, 2.5).subplots()
    longest = max(map(len, networks.signatures))
    size = 0.8 * _size(longest)
    _limit(panel, longest)
    for number, (name, signature) in enumerate(
        zip(short_names(networks.names), networks.signatures, strict=True)
    ):
        color, marker, line = look(number)
        calls, scores = _calls(signature), signature.scores
        spread = _spread(signature)
        panel.fill_between(
            calls, scores - spread, scores + spread, color=color, alpha=0.2, linewidth=0
        )
        style: dict[str, Any] = {
            "color": color,
            "marker": marker,
            "linestyle": line,
            "markersize": size,
            "linewidth": 0.9,
        }
        panel.plot(calls, scores, label=name, **style)
    panel.set(xlabel=CALLS, ylabel=_score_label(networks.signatures))
    add_legend(figure_of(panel), *panel.get_legend_handles_labels())
    return [panel]


def _draw_sites(
    axes: Axes,
    signature: Signature,
    labels: Sequence[str],
    looks: Mapping[str, int],
    scale: float = 1.0,
) -> None:
    calls, scores, spread = _calls(signature), signature.scores, _spread(signature)
    size = scale * _size(len(scores))
    _limit(axes, len(scores))
    axes.plot(calls, scores, color="0.75", linewidth=0.8 * scale, zorder=1)
    for label, number in looks.items():
        chosen = np.array([one == label for one in labels], dtype=bool)
        if not (chosen & np.isfinite(scores)).any():
            continue
        color, marker, _ = look(number)
        bars = chosen & (spread > 0)
        axes.vlines(
            calls[bars],
            (scores - spread)[bars],
            (scores + spread)[bars],
            color=color,
            linewidth=0.25 * size,
        )
        axes.plot(
            calls[chosen],
            scores[chosen],
            marker,
            color=color,
            markersize=size,
            markeredgewidth=0,
            label=shown(label),
        )
    mark_missing(axes, calls[~np.isfinite(scores)].tolist())


def _limit(axes: Axes, count: int) -> None:
    """Show all calls, also where the axes share their limits with others, and a line at 1, where
    the score is affine.
    """
    axes.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    axes.set_xlim(0.3, max(axes.get_xlim()[1], count + 0.7))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _score_label(signatures: Sequence[Signature]) -> str:
    spread = any(site.std > 0 for signature in signatures for site in signature.sites)
    return SCORE + (" ± std" if spread else "")


def _calls(signature: Signature) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(1, len(signature) + 1)


def _spread(signature: Signature) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the standard deviations; 0 for a single batch."""
    return np.nan_to_num(np.array([site.std for site in signature.sites], dtype=np.float64))


def _size(count: int) -> float:
    """Return a size of markers, in points, at which so many still can be told apart."""
    return min(4.5, max(1.8, 4.5 * math.sqrt(40 / max(count, 1))))


def _common_places(networks: Networks) -> list[list[str]]:
    """Name the place of every site; the places that are rare among all networks become one."""
    places = [places_of(signature.sites) for signature in networks.signatures]
    counts = Counter(place for labels in places for place in labels)
    if len(counts) <= MOST_PLACES:
        return places
    kept = {place for place, _ in counts.most_common(MOST_PLACES - 1)}
    return [[place if place in kept else OTHER for place in labels] for labels in places]


def _rows(name: str, signature: Signature, labels: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "network": name,
            "call": number,
            "site": site.name,
            "activation": site.kind,
            "group": label,
            "score": site.score,
            "std": site.std,
            "batches": site.batches,
            "reason": site.reason,
        }
        for number, (site, label) in enumerate(zip(signature.sites, labels, strict=True), 1)
    ]
