"""Figures 3, 18 and 19: how many units stay interpretable when the basis of a layer is rotated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import spearmanr

from sigmascope.figures import Drawn, styled
from sigmascope.figures.style import COLORS, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Finding, Item, judge_by
from sigmascope_papers.rules import at_least, at_most
from sigmascope_papers.symmetry.curves import page, rows_of, with_legend
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
    """The mean share of interpretable units in the own basis and in rotated ones, which spread."""

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


def _find_stream(found: Part, of: str) -> dict[str, Finding]:
    relu, none = _changed(found[RELU]), _changed(found[NONE])
    fewer = [_changed([one]).left < 1 for one in found[RELU]]
    apart, shares = none.left - relu.left, _shares(found[RELU]).mean(axis=0)
    known = np.isfinite(shares).all() and np.ptp(shares) > 0
    rank = float(spearmanr(found[RELU][0].powers, shares).statistic) if known else np.nan
    told = f"{relu}; fewer in {sum(fewer)} of {len(fewer)} networks"
    return {
        "fewer": (told, relu.left <= FALLS[1], relu.left <= FALLS[0] and all(fewer)),
        "farther": at_most(f"{rank:.2f}", rank, RANKS),
        "stays": at_least(str(none), none.left, STAYS),
        "apart": at_least(f"{apart:.2f}", apart, APART),
        "rises": _more(found, of, CONVNEXT),
    }


def _more(found: Part, of: str, label: str) -> Finding:
    one = _changed(found[label])
    return str(one), one.left > RISES[1], one.left >= RISES[0]


def _dominated(found: Part, of: str, label: str, network: str) -> Finding:
    means = _counted(found[label], "detectors").mean(axis=1)
    units, total = dict(zip(CATEGORIES, means, strict=True)), sum(means)
    share = units["class"] / total if total > 0 else np.nan
    listed = ", ".join(f"{category} {count:.1f}" for category, count in units.items())
    obtained = f"{share:.2f} of them; units on average: {listed}"
    return obtained, units["class"] > max(units["color"], units["edge"]), share > 0.5


def _counted(found: Sequence[Dissected], field: str) -> Matrix:
    """(categories, powers), detectors or concepts, on average over networks and rotations."""
    mean: Matrix = np.concatenate([one.table(field) for one in found], axis=1).mean(axis=1)
    return mean


def _network(found: Sequence[Dissected]) -> str:
    return found[0].network.partition(":")[0].removeprefix("sigmascope/")


@styled()
def draw_shares(found: Part) -> Drawn:
    """Draw the share of interpretable units and their mean best IoU by power, with deviations."""
    panels = page(2.6, 2)
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
            own = {"curve": label, "value": value, **count}
            table += rows_of(**own, power=powers, mean=mean, std=deviation)
    panels[0].set(ylabel="share of interpretable units")
    panels[1].set(ylabel="best IoU, mean over units")
    least = next(iter(found.values()))[0].least_iou
    panels[1].axhline(least, color="0.3", linewidth=0.7, linestyle=":", label="interpretable above")
    for panel in panels:  # after the line, since from here on the axis no longer grows
        panel.set(xlabel="power of the rotation", ylim=(0, None))
    return with_legend(panels, table)


@styled()
def _draw_categories(found: Part) -> Drawn:
    """Draw interpretable units, as shares of all, and distinct concepts, by category and power."""
    panels, count = page(4.0, len(found), nrows=2, sharex=True, sharey="row"), len(found)
    table: list[dict[str, Any]] = []
    for column, (label, some) in enumerate(found.items()):
        powers = np.array(some[0].powers)
        width = 0.8 * float(np.diff(powers).min())
        upper, lower = panels[column::count]
        upper.set_title(_network(some))
        fields = {"detectors": some[0].units, "concepts": 1}
        for panel, (field, per) in zip((upper, lower), fields.items(), strict=True):
            values = _counted(some, field) / per
            below = np.cumsum(values, axis=0) - values
            for place, name in enumerate(CATEGORIES):
                style: dict[str, Any] = {"color": COLORS[1 + place], "hatch": HATCHES[place]}
                style |= {"edgecolor": "white", "linewidth": 0, "label": name}
                panel.bar(powers, values[place], width, below[place], **style)
                own = {"curve": label, "value": field, "category": name}
                table += rows_of(**own, power=powers, mean=values[place])
        lower.set(xlabel="power of the rotation")
    panels[0].set(ylabel="share of all units")
    panels[count].set(ylabel="distinct concepts")
    return with_legend(panels, table)


def _item(
    file: str, subjects: Mapping[str, Subject], draw: Callable[[Part], Drawn], *rules: Any
) -> Item:
    """Return an item that judges and draws each quantile; claims name ours."""

    def judge(found: Found) -> list[Check]:
        """Judge each quantile."""
        checks = []
        for name, part in found.items():
            of = f" ({name})" if name else ""
            checks += judge_by(f"symmetry.{file}", *(partial(rule, of=of) for rule in rules))(part)
        return checks

    def draw_all(found: Found) -> dict[str, Drawn]:
        return {name.removesuffix(" %").replace(" ", "-"): draw(found[name]) for name in found}

    return Item(lambda setting: dissections_of(setting, subjects), judge, draw_all)


DOMINATED = [partial(_dominated, label=label, network=name) for label, name in NAMES.items()]
MORE = [partial(_more, label=label) for label in INSIDE]
ITEMS: Mapping[str, Item] = {
    "sym-fig3": _item("fig3", STREAM, draw_shares, _find_stream),
    "sym-fig18": _item("fig18", STREAM, _draw_categories, *DOMINATED),
    "sym-fig19": _item("fig19", INSIDE, draw_shares, *MORE),
}
