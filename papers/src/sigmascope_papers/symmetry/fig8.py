"""Figure 8: what it costs to stitch two ResNet-20 with LeakyReLU by elements of the group of ReLU,
by slope and layer.

One pair of our networks for each slope s, stitched at seven of the nineteen activations: before all
blocks, at the ends of four blocks, inside the last one (72*) and at its end (75). For s = 1 the
activation is the identity. The paper prints no numbers.

The claims are two sentences of appendix D.3. For small slopes the penalty is lowest at the final
two layers; small is read as up to 0.1, where LeakyReLU costs no accuracy; in direction, it is
lowest there on average over these slopes. The sentence can also be read as one about these layers,
that small slopes cost least there; the numbers for it are given and not judged. For s = 1, and less
so for 0.9, penalties are mostly constant over the layers: their range, largest minus least, is
compared with the smallest range among small slopes, half of which is clear. A network that is right
for 40 % of the images cannot lose more than 30 points, so that a check of ours does the same with
penalties as shares of what there is to lose, accuracy minus chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look, shown
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.plans import LEAKY, SLOPES
from sigmascope_papers.symmetry.stitches import Stitches, stitches_of

__all__ = ["ITEM", "SMALL_SLOPES", "slopes_of"]

BySlope = Mapping[str, Stitches]
Vector = np.ndarray[Any, np.dtype[np.float64]]
SMALL_SLOPES = SLOPES[:4]
SMOKE_SLOPES = ("0.0001", "0.9", "1")
LAST = ("72*", "75")
CHANCE = 10.0
CLEAR = 0.5
FAMILY, ANY = "relu-group", "full"


def measure(setting: Setting) -> dict[str, Stitches]:
    """Read or train the stitches of all slopes."""
    return {slope: stitches_of(setting, LEAKY[slope]) for slope in slopes_of(setting)}


def slopes_of(setting: Setting) -> tuple[str, ...]:
    """Return all slopes; to try the machinery, three of them."""
    return SMOKE_SLOPES if setting.smoke else SLOPES


def judge(found: BySlope) -> list[Check]:
    """Lowest at the last two layers for small slopes; a range over the layers that is small for 1
    and less so for 0.9.
    """
    means = {slope: one.penalties(FAMILY).mean(axis=0) for slope, one in found.items()}
    room = {
        slope: float(np.mean([pair.accuracies for pair in one.pairs])) - CHANCE
        for slope, one in found.items()
    }
    ranges = {slope: float(np.ptp(mean)) for slope, mean in means.items()}
    shares = {slope: ranges[slope] / room[slope] if room[slope] > 0 else np.nan for slope in found}
    least = _least([ranges[slope] for slope in SMALL_SLOPES if slope in found])
    at_one, near_one = (ranges.get(slope, np.nan) for slope in ("1", "0.9"))
    told = "penalties range over {:.1f} points; for small slopes over {:.1f} at least"
    return [
        _lowest_last(found),
        relation(
            "slope 1: penalties are mostly constant over the layers",
            "a range at most half of any small slope's",
            told.format(at_one, least),
            true=bool(at_one < least),
            clear=bool(at_one <= CLEAR * least),
        ),
        relation(
            "slope 0.9: penalties are constant to a lesser extent",
            "a range between those of slope 1 and of small slopes",
            told.format(near_one, least),
            true=bool(near_one < least),
            clear=bool(at_one <= near_one),
        ),
        _as_shares(shares),
    ]


def _lowest_last(found: BySlope) -> Check:
    """Both last layers are below all others for every small slope; in direction, on average over
    these slopes.
    """
    small = {slope: found[slope] for slope in SMALL_SLOPES if slope in found}
    last, others = [], []
    for one in small.values():
        mean = dict(zip(one.layers, one.penalties(FAMILY).mean(axis=0).tolist(), strict=True))
        last.append([mean.get(layer, np.nan) for layer in LAST])
        others.append([value for layer, value in mean.items() if layer not in LAST])
    rows = list(zip(last, others, strict=True))
    average, beside = np.mean(last, axis=0), np.mean(others, axis=0)
    at_one = [found["1"].penalty_at(FAMILY, layer) if "1" in found else np.nan for layer in LAST]
    both = [bool(max(pair) < _least(rest)) for pair, rest in rows if not np.isnan(pair).any()]
    return relation(
        "small slopes: the penalty is lowest at the final two layers, 72* and 75",
        f"both below all others, for every slope up to {SMALL_SLOPES[-1]}; in direction, on "
        "average over these slopes",
        f"for {sum(both)} of {len(rows)} slopes; {average[0]:.1f} and {average[1]:.1f} there "
        "on average, "
        f"{_least(beside):.1f} at the least of the others; slope 1: {at_one[0]:.1f} and "
        f"{at_one[1]:.1f}",
        true=bool(np.max(average) < _least(beside)),
        clear=len(both) == len(rows) and all(both),
    )


def _as_shares(shares: Mapping[str, float]) -> Check:
    """The same rule for slope 1, with penalties split_samples by accuracy minus chance."""
    at_one, least = (
        shares.get("1", np.nan),
        _least([shares[slope] for slope in SMALL_SLOPES if slope in shares]),
    )
    return relation(
        "ours: as shares of what there is to lose, they are constant too for slope 1",
        "a range at most half of any small slope's",
        f"{at_one:.0%} of accuracy minus chance; for small slopes {least:.0%} at least",
        true=bool(at_one < least),
        clear=bool(at_one <= CLEAR * least),
    )


def _least(values: Sequence[float]) -> float:
    """Return the least of several values, NaN if one is or if there is none."""
    return float(np.min(values)) if len(values) else float("nan")


@styled()
def draw(found: BySlope) -> dict[str, Drawn]:
    """Draw the penalties by layer, a curve for each slope; beside them those of any matrix, which
    are ours.
    """
    figure = new_figure(PAGE, 2.7)
    panels = figure.subplots(1, 2).tolist()
    layers = next(iter(found.values())).layers
    places = np.arange(len(layers))
    table: list[dict[str, Any]] = []
    for panel, family, title in zip(
        panels, (FAMILY, ANY), ("by the group of ReLU", "by any matrix (ours)"), strict=True
    ):
        for place in places[[layer.endswith("*") for layer in layers]]:
            panel.axvspan(place - 0.5, place + 0.5, color="0.5", alpha=0.1, linewidth=0)
        for slope, one in found.items():
            penalties = one.penalties(family)
            color, marker, line = look(SLOPES.index(slope))
            style = {
                "color": color,
                "marker": marker,
                "linestyle": line,
                "markersize": 4,
                "markeredgewidth": 0,
            }
            panel.plot(places, penalties.mean(axis=0), label=f"slope {slope}", **style)
            rows = zip(layers, penalties.mean(axis=0).tolist(), strict=True)
            table += [
                {"family": family, "slope": slope, "layer": layer, "penalty": value}
                for layer, value in rows
            ]
        panel.axhline(0, color="0.3", linewidth=0.6, zorder=0.5)
        panel.set(
            title=title,
            xlabel="activation, * inside a residual block",
            xlim=(-0.5, len(places) - 0.5),
        )
        panel.set_xticks(places, [shown(layer) for layer in layers])
    panels[0].set_ylabel("stitching penalty, percentage points")
    add_panel_legend(figure, panels)
    return {"": Drawn(figure, tuple(panels), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
