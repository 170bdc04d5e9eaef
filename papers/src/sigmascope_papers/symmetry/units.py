"""Figures 3, 18 and 19: how many units stay interpretable when the basis of a layer is rotated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import spearmanr

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import COLORS, PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.rules import at_least, at_most
from sigmascope_papers.symmetry.dissections import (
    CATEGORIES,
    CONVNEXT,
    INSIDE,
    NONE,
    RELU,
    STREAM,
    Dissected,
    Found,
    Subject,
    dissections_of,
)

Part: TypeAlias = Mapping[str, Sequence[Dissected]]
"""Label of a subject -> one dissection for each network, for one quantile."""
FALLS, STAYS, RISES = (0.7, 0.85), (0.85, 0.7), (1.15, 1.0)
APART = (0.3, 0.1)
RANKS = (-0.8, -0.5)
NAMES = {RELU: "ResNet-20", CONVNEXT: "ConvNeXt"}
HATCHES = ("////", "....", "")


class Change(NamedTuple):
    """The share of interpretable units in a layer's own basis and in rotated ones, on average.

    Attributes:
        own: at the first power.
        rotated: at the last.
        spread: of the rotated ones, over networks and rotations.
        units: of a network.
    """

    own: float
    rotated: float
    spread: float
    units: int

    @property
    def left(self) -> float:
        """The rotated share over the own; NaN if there is none."""
        return self.rotated / self.own if self.own > 0 else np.nan

    def __str__(self) -> str:
        own, rotated, spread = (self.units * share for share in self[:3])
        change = f"from {own:.1f} to {rotated:.1f} ± {spread:.1f}"
        return f"{self.left:.2f}: {change} of {self.units} units"


def _shares(found: Sequence[Dissected]) -> Matrix:
    """(networks · rotations, powers), the share of interpretable units."""
    return np.concatenate([one.fraction for one in found])


def _changed(found: Sequence[Dissected]) -> Change:
    own, rotated = _shares(found)[:, [0, -1]].T
    return Change(own.mean(), rotated.mean(), rotated.std(), found[0].units)


def _judge_stream(found: Part, of: str) -> list[Check]:
    relu, none = _changed(found[RELU]), _changed(found[NONE])
    fewer = [_changed([one]).left < 1 for one in found[RELU]]
    apart = none.left - relu.left
    shares = _shares(found[RELU]).mean(axis=0)
    known = np.isfinite(shares).all() and np.ptp(shares) > 0
    rank = float(spearmanr(found[RELU][0].powers, shares).statistic) if known else np.nan
    fewest = f"{RELU}, fewer units are interpretable away from its basis{of}"
    rising = f"{CONVNEXT}, which has none there, more units are interpretable away from its basis"
    more = f"{NONE} more of the share is left than with it{of}"
    falling = f"rank correlation of power and share of {RANKS[0]:g} or less"
    staying = f"at least {STAYS[0]:g} of the share are left"
    return [
        relation(
            fewest,
            f"at most {FALLS[0]:g} of the share are left; clear if fewer in every network",
            f"{relu}; fewer in {sum(fewer)} of {len(fewer)} networks",
            true=relu.left <= FALLS[1],
            clear=relu.left <= FALLS[0] and all(fewer),
        ),
        at_most(f"{RELU}, the farther the fewer{of}", falling, f"{rank:.2f}", rank, RANKS),
        at_least(f"{NONE}, as many are{of}", staying, str(none), none.left, STAYS),
        at_least(more, f"by {APART[0]:g} or more", f"{apart:.2f}", apart, APART),
        _rises(f"{rising}{of}", found[CONVNEXT]),
    ]


def _rises(claim: str, found: Sequence[Dissected]) -> Check:
    """Judge whether the share grows from the own basis to the rotated one; clear if by `RISES`."""
    one, (clear, least) = _changed(found), RISES
    expected = f"{clear:g} of the share or more"
    return relation(claim, expected, str(one), true=one.left > least, clear=one.left >= clear)


def _judge_inside(found: Part, of: str) -> list[Check]:
    words = "more units are interpretable away from its basis"
    return [_rises(f"inside a block, {label}: {words}{of}", one) for label, one in found.items()]


def _judge_categories(found: Part, of: str) -> list[Check]:
    checks = []
    for label, name in NAMES.items():
        units = dict(zip(CATEGORIES, _counted(found[label], "detectors").mean(axis=1), strict=True))
        total = sum(units.values())
        share = units["class"] / total if total > 0 else np.nan
        listed = ", ".join(f"{category} {count:.1f}" for category, count in units.items())
        claim = "interpretable units are dominated by objects and scenes, here classes"
        expected = "more than half of them, over all bases"
        obtained = f"{share:.2f} of them; units on average: {listed}"
        true = units["class"] > max(units["color"], units["edge"])
        checks.append(
            relation(f"{name}: {claim}{of}", expected, obtained, true=true, clear=share > 0.5)
        )
    return checks


def _counted(found: Sequence[Dissected], field: str) -> Matrix:
    """(categories, powers), detectors or concepts, on average over networks and rotations."""
    mean: Matrix = np.concatenate([one.table(field) for one in found], axis=1).mean(axis=1)
    return mean


def _network(found: Sequence[Dissected]) -> str:
    return found[0].network.partition(":")[0].removeprefix("sigmascope/")


@styled()
def draw_shares(found: Part) -> Drawn:
    """Draw the share of interpretable units, and the mean of their best IoU, by power.

    Bands are the population standard deviation over networks and rotations.
    """
    figure = new_figure(PAGE, 2.6)
    panels = figure.subplots(1, 2).tolist()
    table: list[dict[str, Any]] = []
    for number, (label, some) in enumerate(found.items()):
        (color, marker, line), powers = look(number), some[0].powers
        count = {"networks": len(some), "rotations": len(some[0].seeds)}
        shown = f"{_network(some)}, {len(some)} network{'s' * (len(some) > 1)}"
        drawn = {
            "interpretable": _shares(some),
            "best IoU": np.concatenate([np.array(one.best_iou) for one in some]),
        }
        for panel, (value, values) in zip(panels, drawn.items(), strict=True):
            mean, deviation = values.mean(axis=0), values.std(axis=0)
            band = mean - deviation, mean + deviation
            panel.fill_between(powers, *band, color=color, alpha=0.18, linewidth=0)
            style: dict[str, Any] = {"marker": marker, "linestyle": line, "markersize": 4.5}
            panel.plot(powers, mean, label=shown, color=color, markeredgewidth=0, **style)
            table += [
                {"curve": label, "value": value, **count, "power": p, "mean": m, "std": d}
                for p, m, d in zip(powers, mean.tolist(), deviation.tolist(), strict=True)
            ]
    panels[0].set(ylabel="share of interpretable units")
    panels[1].set(ylabel="best IoU, mean over units")
    least = next(iter(found.values()))[0].least_iou
    panels[1].axhline(least, color="0.3", linewidth=0.7, linestyle=":", label="interpretable above")
    for panel in panels:  # after the line, since from here on the axis no longer grows
        panel.set(xlabel="power of the rotation", ylim=(0, None))
    add_panel_legend(figure, panels)
    return Drawn(figure, tuple(panels), table)


@styled()
def _draw_categories(found: Part) -> Drawn:
    """Draw interpretable units, as shares of all, and distinct concepts, by category and power."""
    figure = new_figure(PAGE, 4.0)
    panels = figure.subplots(2, len(found), sharex=True, sharey="row", squeeze=False)
    table: list[dict[str, Any]] = []
    for column, (label, some) in enumerate(found.items()):
        powers = np.array(some[0].powers)
        width = 0.8 * float(np.diff(powers).min())
        panels[0, column].set_title(_network(some))
        fields = {"detectors": some[0].units, "concepts": 1}
        for panel, (field, per) in zip(panels[:, column], fields.items(), strict=True):
            values = _counted(some, field) / per
            below = np.cumsum(values, axis=0) - values
            for place, name in enumerate(CATEGORIES):
                style: dict[str, Any] = {"color": COLORS[1 + place], "hatch": HATCHES[place]}
                style |= {"edgecolor": "white", "linewidth": 0, "label": name}
                panel.bar(powers, values[place], width, below[place], **style)
                table += [
                    {"curve": label, "value": field, "category": name, "power": p, "mean": m}
                    for p, m in zip(powers.tolist(), values[place].tolist(), strict=True)
                ]
        panels[1, column].set(xlabel="power of the rotation")
    panels[0, 0].set(ylabel="share of all units")
    panels[1, 0].set(ylabel="distinct concepts")
    add_panel_legend(figure, panels.ravel().tolist())
    return Drawn(figure, tuple(panels.ravel().tolist()), table)


def _item(
    subjects: Mapping[str, Subject],
    judge: Callable[[Part, str], list[Check]],
    draw: Callable[[Part], Drawn],
) -> Item:
    """Return an item that judges and draws each quantile; claims name ours."""

    def judge_all(found: Found) -> list[Check]:
        """Judge each quantile."""
        parts = ((part, f" ({name})" if name else "") for name, part in found.items())
        return [check for part, of in parts for check in judge(part, of)]

    def draw_all(found: Found) -> dict[str, Drawn]:
        suffixes = {name: name.removesuffix(" %").replace(" ", "-") for name in found}
        return {suffixes[name]: draw(part) for name, part in found.items()}

    return Item(lambda setting: dissections_of(setting, subjects), judge_all, draw_all)


ITEMS: Mapping[str, Item] = {
    "sym-fig3": _item(STREAM, _judge_stream, draw_shares),
    "sym-fig18": _item(STREAM, _judge_categories, _draw_categories),
    "sym-fig19": _item(INSIDE, _judge_inside, draw_shares),
}
