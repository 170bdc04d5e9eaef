"""Figure 7: residual connections split the activations of a network in two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from sigmascope.compare.density import Densities, densities
from sigmascope.compare.networks import is_constant
from sigmascope.figures import Drawn, draw_densities, draw_signature, new_figure, parts_of, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, add_legend
from sigmascope.measure.result import Signature
from sigmascope_papers.item import Check, Finding, conclude
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.leads import DEEP, modes
from sigmascope_papers.nonlinearity.lineup import known
from sigmascope_papers.nonlinearity.places import (
    END,
    INSIDE,
    ORDER,
    by_place,
    places_in,
    separation,
)
from sigmascope_papers.setting import Setting, signatures_of

RESIDUAL = ("resnet20:0", "resnet20:1", "resnet20:2", "resnet32:0", "resnet56:0")
PLAIN = ("plain20:0", "plain20:1", "plain20:2", "plain32:0", "plain56:0")
PAPERS = ("torchvision/resnet18", "torchvision/resnet34")
# Without a split the share has a standard deviation of about 0.14 for nine calls of each place.
CLEAR, NONE = 0.9, 0.75
ALL = "all calls"


@dataclass(frozen=True, eq=False)
class Twins:
    """Signatures by short name, with and without residual connections (perhaps none of these)."""

    residual: dict[str, Signature]
    plain: dict[str, Signature]

    def lacks(self, *kinds: str) -> str:
        """Say why networks of some kinds cannot be judged; empty if they can."""
        for found in (getattr(self, kind) for kind in kinds):
            if unscored := [name for name, one in found.items() if not _is_scored(one)]:
                return f"too few scores in {', '.join(unscored)}"
            if not found:
                return "there are no such networks"
        return ""


def measure(setting: Setting) -> Twins:
    """Read or measure all signatures."""
    if setting.ours:
        return Twins(signatures_of(setting.runs(RESIDUAL)), signatures_of(setting.runs(PLAIN)))
    here = setting.cast.names()
    return Twins(signatures_of(setting.runs([name for name in PAPERS if name in here])), {})


def _is_scored(one: Signature) -> bool:
    """Whether there are scores inside and at the end of the blocks, and a density of them."""
    return all(map(len, by_place(one).values())) and not is_constant(known(one))


def _separations(found: Mapping[str, Signature]) -> tuple[list[float], str]:
    shares = [separation(one) for one in found.values()]
    return shares, ", ".join(f"{share:.2f}" for share in shares)


def _split(twins: Twins) -> Finding:
    shares, told = _separations(twins.residual)
    return told, min(shares) > NONE, min(shares) >= CLEAR


def _not_split(twins: Twins) -> Finding:
    shares, told = _separations(twins.plain)
    return told, max(shares) <= NONE


def _wider(twins: Twins) -> Check:
    """The standard deviation of a residual network is larger than its twin's, in every pair."""
    text, count = "the scores of residual networks spread wider", len(twins.plain)
    if reason := twins.lacks("residual", "plain"):
        return conclude(text, "in every pair", reason)
    pairs = zip(twins.residual.values(), twins.plain.values(), strict=True)
    wider = [known(one).std() > known(other).std() for one, other in pairs]
    return conclude(text, f"in {count} pairs", (f"{sum(wider)}", all(wider)))


def _modes(twins: Twins, kind: str, words: str, wanted: int) -> Finding:
    curves = [
        densities([one], boundary="unbounded").curves[0] for one in getattr(twins, kind).values()
    ]
    counts, peaks = ([len(modes(curve, deep)) for curve in curves] for deep in (DEEP, 0.0))
    right, of = counts.count(wanted), len(counts)
    listed, all_peaks = (", ".join(map(str, numbers)) for numbers in (counts, peaks))
    obtained = f"in {right} of {of}: {listed}; all peaks {all_peaks}"
    return obtained, 2 * right > of, right == of


def draw(twins: Twins) -> dict[str, Drawn]:
    """Draw the first residual network and its plain twin, as the paper does, and the deepest."""
    both = twins.residual, twins.plain
    scored = [[one for one in found.values() if _is_scored(one)] for found in both]
    kinds = [found for found in scored if found]
    if not kinds:
        return {}
    parts = {"": [found[0] for found in kinds]}
    if any(len(found) > 1 for found in kinds):
        parts["deep"] = [found[-1] for found in kinds]
    return {part: _draw_networks(networks) for part, networks in parts.items()}


@styled()
def _draw_networks(networks: Sequence[Signature]) -> Drawn:
    """Draw signature and densities of each network in a row."""
    figure = new_figure(PAGE, 0.3 + 2 * len(networks))
    rows = figure.subplots(len(networks), 2, sharex="col", squeeze=False, width_ratios=(2, 1))
    table: list[Mapping[str, Any]] = []
    for (left, right), one in zip(rows, networks, strict=True):
        left.sharey(rows[0, 0])
        places = places_in(one)
        drawn = {
            "signature": draw_signature(one, left, groups=places, order=ORDER).table,
            ALL: _draw_whole(right, one),
            "densities": draw_densities(_parts(one), right).table,
        }
        table += [{"panel": f"{one.name}, {name}", **row} for name in drawn for row in drawn[name]]
    for axes in rows[:-1].ravel():
        axes.set_xlabel("")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    (whole,) = (line for line in rows[0, 1].lines if line.get_label() == ALL)
    add_legend(figure, [*handles, whole], [*labels, ALL])
    return finished(rows.ravel(), table)


def _parts(one: Signature) -> Densities:
    parts = parts_of(one, places_in(one), (INSIDE, END))
    return densities(parts, boundary="unbounded")


def _draw_whole(axes: Axes, one: Signature) -> list[dict[str, Any]]:
    """Draw the density of all scores, under the separation of the two places."""
    (curve,) = densities([one], boundary="unbounded").curves
    axes.plot(curve.grid, curve.values, color="black", linewidth=1.6, zorder=3, label=ALL)
    axes.set_title(f"separation {separation(one):.2f}")
    points = zip(curve.grid.tolist(), curve.values.tolist(), strict=True)
    return [{"score": score, "density": value} for score, value in points]


TWO_MODES = partial(_modes, kind="residual", words="two modes", wanted=2)
ONE_MODE = partial(_modes, kind="plain", words="one mode", wanted=1)
ITEM = item_of("fig7", measure, draw, _split, _not_split, _wider, TWO_MODES, ONE_MODE)
