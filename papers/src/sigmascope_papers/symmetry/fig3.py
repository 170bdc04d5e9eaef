"""Figure 3: how many units of a layer stay interpretable when its basis is rotated, with and
without ReLU behind it.

Units of the last block are compared with concepts, in the layer's own basis and in those of powers
of random rotations. The paper's subjects are a ResNet-50, one that was trained without ReLU after
its additions, and a ConvNeXt, on Broden; ours are ResNet-20, the same without those ReLU, and a
small ConvNeXt, on what `dissections` describes.

The paper prints no numbers. "Falls" is read as: of the share of interpretable units at most 0.7 are
left in the rotated basis, in direction 0.85; "does not fall": at least 0.85, in direction 0.7;
"rises": at least 1.15, in direction any. The same rule is applied twice: to the paper's quantile,
by which few of our units are interpretable, and to our second one; see `QUANTILES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.dissections import (
    CONVNEXT,
    NONE,
    RELU,
    STREAM,
    Dissected,
    Found,
    dissections_of,
)

__all__ = ["ITEM", "KNOWN", "Change", "changed", "draw_parts", "draw_shares", "rises", "told"]

FALLS, STAYS, RISES = (0.7, 0.85), (0.85, 0.7), (1.15, 1.0)
APART = (0.3, 0.1)
RANKS = (-0.8, -0.5)
KNOWN = (
    "written before the run with the paper's quantile; a pilot had shown that behind ReLU "
    "the share of interpretable units "
    "falls with rotation, and that in a network with LeakyReLU of slope 1, which is linear, "
    "it is flat. That run, on ResNet-20 "
    "and ConvNeXt, left few units: 4 to 7 of 64, 1 of 192, inside blocks at most 1 of 64. "
    "So the same rule is applied a "
    "second time, to units that are active at their top 1 %, chosen among 0.5, 1, 2 and 5 % "
    "by the shares in the own basis of "
    "one network of each kind, before rotations at that quantile were looked at"
)


@dataclass(frozen=True)
class Change:
    """The share of interpretable units in the own basis and in the rotated one, on average over
    networks and rotations.

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
        """The rotated share over the own; NaN where there is none."""
        return self.rotated / self.own if self.own > 0 else np.nan

    def __str__(self) -> str:
        own, rotated, spread = (
            self.units * share for share in (self.own, self.rotated, self.spread)
        )
        return (
            f"{self.left:.2f}: from {own:.1f} to {rotated:.1f} ± {spread:.1f} of {self.units} units"
        )


def shares(found: Sequence[Dissected]) -> Matrix:
    """(networks · rotations, powers), the share of interpretable units."""
    return np.concatenate([one.fraction for one in found])


def changed(found: Sequence[Dissected]) -> Change:
    """Compare the ends of the path from the own basis to the rotated one."""
    table = shares(found)
    return Change(
        float(table[:, 0].mean()),
        float(table[:, -1].mean()),
        float(table[:, -1].std()),
        found[0].units,
    )


def told(name: str) -> str:
    """Return what a claim says of a quantile: nothing of the paper's."""
    return f" ({name})" if name else ""


def measure(setting: Setting) -> Found:
    """Read or make the dissections of the last blocks."""
    return dissections_of(setting, STREAM)


def judge(found: Found) -> list[Check]:
    """With ReLU the share falls, power by power; without it does not, and stays higher; in ConvNeXt
    it rises.
    """
    return [check for name, some in found.items() for check in _judged(some, told(name))]


def _judged(found: Mapping[str, Sequence[Dissected]], of: str) -> list[Check]:
    relu, none = changed(found[RELU]), changed(found[NONE])
    falls = [changed([one]).left < 1 for one in found[RELU]]
    rank = _rank(found[RELU][0].powers, shares(found[RELU]).mean(axis=0))
    apart = none.left - relu.left
    return [
        relation(
            f"{RELU}, fewer units are interpretable away from its basis{of}",
            f"at most {FALLS[0]:g} of the share are left; clear if fewer in every network",
            f"{relu}; fewer in {sum(falls)} of {len(falls)} networks",
            true=relu.left <= FALLS[1],
            clear=relu.left <= FALLS[0] and all(falls),
        ),
        relation(
            f"{RELU}, the farther the fewer{of}",
            f"rank correlation of power and share of {RANKS[0]:g} or less",
            f"{rank:.2f}",
            true=rank <= RANKS[1],
            clear=rank <= RANKS[0],
        ),
        relation(
            f"{NONE}, as many are{of}",
            f"at least {STAYS[0]:g} of the share are left",
            str(none),
            true=none.left >= STAYS[1],
            clear=none.left >= STAYS[0],
        ),
        relation(
            f"{NONE} more of the share is left than with it{of}",
            f"by {APART[0]:g} or more",
            f"{apart:.2f}",
            true=apart >= APART[1],
            clear=apart >= APART[0],
        ),
        rises(
            f"{CONVNEXT}, which has none there, more units are interpretable away from its "
            f"basis{of}",
            found[CONVNEXT],
        ),
    ]


def rises(claim: str, found: Sequence[Dissected]) -> Check:
    """The share grows from the own basis to the rotated one; clearly if by `RISES`."""
    one = changed(found)
    clear, least = RISES
    return relation(
        claim,
        f"{clear:g} of the share or more",
        str(one),
        true=one.left > least,
        clear=one.left >= clear,
    )


def _rank(powers: Sequence[float], values: Matrix) -> float:
    """Return the rank correlation of both; NaN where all values are equal."""
    if not np.isfinite(values).all() or np.ptp(values) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(powers), rankdata(values))[0, 1])


@styled()
def draw_shares(found: Mapping[str, Sequence[Dissected]]) -> Drawn:
    """Draw the share of interpretable units, and the mean of their best IoU, by the power of the
    rotation.

    Bands are the population standard deviation over networks and rotations.
    """
    figure = new_figure(PAGE, 2.6)
    panels = figure.subplots(1, 2).tolist()
    table: list[dict[str, Any]] = []
    for number, (label, some) in enumerate(found.items()):
        color, marker, line = look(number)
        powers = some[0].powers
        for panel, what, values in (
            (panels[0], "interpretable", shares(some)),
            (panels[1], "best IoU", np.concatenate([np.array(one.best_iou) for one in some])),
        ):
            mean, deviation = values.mean(axis=0), values.std(axis=0)
            panel.fill_between(
                powers, mean - deviation, mean + deviation, color=color, alpha=0.18, linewidth=0
            )
            style: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "linestyle": line,
                "markersize": 4.5,
            }
            panel.plot(powers, mean, label=_shown(label, some), markeredgewidth=0, **style)
            rows = zip(powers, mean.tolist(), deviation.tolist(), strict=True)
            own = {
                "curve": label,
                "value": what,
                "networks": len(some),
                "rotations": len(some[0].seeds),
            }
            table += [{**own, "power": p, "mean": m, "std": d} for p, m, d in rows]
    panels[0].set(ylabel="share of interpretable units")
    panels[1].set(ylabel="best IoU, mean over units")
    least = found[next(iter(found))][0].least_iou
    panels[1].axhline(least, color="0.3", linewidth=0.7, linestyle=":", label="interpretable above")
    for panel in panels:  # behind the line: from here on the axis no longer grows
        panel.set(xlabel="power of the rotation", ylim=(0, None))
    add_panel_legend(figure, panels)
    return Drawn(figure, tuple(panels), table)


def _shown(label: str, some: Sequence[Dissected]) -> str:
    return (
        f"{some[0].network.partition(':')[0].removeprefix('sigmascope/')}, {len(some)} "
        f"network{'s' * (len(some) > 1)}"
    )


def draw_parts(
    found: Found, draw_one: Callable[[Mapping[str, Sequence[Dissected]]], Drawn]
) -> dict[str, Drawn]:
    """Draw a figure for each quantile, by endings of file names."""
    return {
        name.removesuffix(" %").replace(" ", "-"): draw_one(some) for name, some in found.items()
    }


def draw(found: Found) -> dict[str, Drawn]:
    """Draw all subjects."""
    return draw_parts(found, draw_shares)


ITEM = Item(measure=measure, judge=judge, draw=draw)
