"""Figure 7: residual connections split the activations of a network in two.

Signatures of ResNet-20 and of the same network without its residual connections, three seeds each,
and of the pairs with 32 and 56 layers, one seed each, all trained on CIFAR-10; five batches of 512
test images, Ledoit–Wolf covariance. Of the paper's own networks it takes ResNet-18 and -34, which
have no plain twins. Each basic block calls ReLU twice, once inside and once at its end, after the
addition where there is one.

The split is measured in two ways. The separation is the share of pairs, one call of each place, in
which the one at the end scores higher; one half means no difference. The modes are those of the
density of all scores, counted as in Figure 5C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from sigmascope.compare.density import densities
from sigmascope.compare.networks import is_constant
from sigmascope.figures import Drawn, draw_densities, draw_signature, new_figure, parts_of, styled
from sigmascope.figures.style import PAGE, add_legend
from sigmascope.measure.signature import Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.fig5c import DEEP, modes
from sigmascope_papers.nonlinearity.lineup import known
from sigmascope_papers.nonlinearity.places import END, INSIDE, STEM, by_place, places_in, separation
from sigmascope_papers.setting import Setting, signatures_of

__all__ = ["CLEAR", "ITEM", "NONE", "Twins"]

RESIDUAL = ("resnet20:0", "resnet20:1", "resnet20:2", "resnet32:0", "resnet56:0")
PLAIN = ("plain20:0", "plain20:1", "plain20:2", "plain32:0", "plain56:0")
PAPERS = ("torchvision/resnet18", "torchvision/resnet34")
# Without a split the share has a standard deviation of about 0.14 for nine calls of each place.
CLEAR, NONE = 0.9, 0.75
ALL = "all calls"


@dataclass(frozen=True, eq=False)
class Twins:
    """Signatures by short name, of the networks with and without residual connections; the latter
    may be missing.
    """

    residual: dict[str, Signature]
    plain: dict[str, Signature]


def measure(setting: Setting) -> Twins:
    """Read or measure all signatures."""
    if setting.ours:
        return Twins(signatures_of(setting.runs(RESIDUAL)), signatures_of(setting.runs(PLAIN)))
    here = setting.cast.names()
    return Twins(signatures_of(setting.runs([name for name in PAPERS if name in here])), {})


def judge(twins: Twins) -> list[Check]:
    """Judge separation, spread and modes; see the functions below."""
    return [
        _split(twins.residual),
        _not_split(twins.plain),
        _wider(twins),
        _modes("residual networks have two modes", 2, twins.residual),
        _modes("plain networks have one mode", 1, twins.plain),
    ]


def _lacks(found: Mapping[str, Signature]) -> str:
    """Say why networks cannot be judged; empty where they can."""
    unscored = [name for name, one in found.items() if not _is_scored(one)]
    return (
        f"too few scores in {', '.join(unscored)}"
        if unscored
        else ""
        if found
        else "there are no such networks"
    )


def _is_scored(one: Signature) -> bool:
    """Whether there are scores inside and at the end of the blocks, and a density of them."""
    return all(map(len, by_place(one).values())) and not is_constant(known(one))


def _split(found: Mapping[str, Signature]) -> Check:
    """Separation above 0.75 in every network, clearly if at least 0.9."""
    claim, expected = (
        "activations at the end of a block score above those inside",
        f"separation at least {CLEAR}",
    )
    if reason := _lacks(found):
        return untried(claim, expected, reason)
    shares = [separation(one) for one in found.values()]
    return relation(
        claim, expected, _listed(shares), true=min(shares) > NONE, clear=min(shares) >= CLEAR
    )


def _not_split(found: Mapping[str, Signature]) -> Check:
    """Separation at most 0.75 in every network."""
    claim, expected = "in plain networks they do not", f"separation at most {NONE}"
    if reason := _lacks(found):
        return untried(claim, expected, reason)
    shares = [separation(one) for one in found.values()]
    return relation(claim, expected, _listed(shares), true=max(shares) <= NONE)


def _listed(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.2f}" for share in shares)


def _wider(twins: Twins) -> Check:
    """The standard deviation of a residual network is larger than that of its twin, in every pair."""
    claim, expected = "the scores of residual networks spread wider", f"in {len(twins.plain)} pairs"
    if reason := _lacks(twins.residual) or _lacks(twins.plain):
        return untried(claim, "in every pair", reason)
    pairs = zip(twins.residual.values(), twins.plain.values(), strict=True)
    wider = [known(one).std() > known(other).std() for one, other in pairs]
    return relation(claim, expected, f"{sum(wider)}", true=all(wider))


def _modes(claim: str, wanted: int, found: Mapping[str, Signature]) -> Check:
    """More than half of the networks have so many modes, clearly if all do."""
    if reason := _lacks(found):
        return untried(claim, f"{wanted} in each", reason)
    curves = [densities([one]).curves[0] for one in found.values()]
    counts, peaks = ([len(modes(curve, deep)) for curve in curves] for deep in (DEEP, 0.0))
    right = counts.count(wanted)
    obtained = (
        f"in {right} of {len(counts)}: {', '.join(map(str, counts))}; all peaks "
        f"{', '.join(map(str, peaks))}"
    )
    return relation(
        claim,
        f"{wanted} in each",
        obtained,
        true=2 * right > len(counts),
        clear=right == len(counts),
    )


def draw(twins: Twins) -> dict[str, Drawn]:
    """Draw the first residual network and its plain twin, as the paper does, and the deepest ones;
    nothing without scores.
    """
    scored = [
        [one for one in found.values() if _is_scored(one)]
        for found in (twins.residual, twins.plain)
    ]
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
            "signature": draw_signature(one, left, groups=places, order=(INSIDE, END, STEM)).table,
            ALL: _draw_whole(right, one),
            "densities": draw_densities(parts_of(one, places, (INSIDE, END)), right).table,
        }
        table += [
            {"panel": f"{one.name}, {name}", **row} for name, some in drawn.items() for row in some
        ]
    for axes in rows[:-1].ravel():
        axes.set_xlabel("")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    (whole,) = (line for line in rows[0, 1].lines if line.get_label() == ALL)
    add_legend(figure, [*handles, whole], [*labels, ALL])
    return Drawn(figure, tuple(rows.ravel()), table)


def _draw_whole(axes: Axes, one: Signature) -> list[dict[str, Any]]:
    """Draw the density of all scores, whose modes are counted."""
    (curve,) = densities([one]).curves
    axes.plot(curve.grid, curve.values, color="black", linewidth=1.6, zorder=3, label=ALL)
    count = len(modes(curve))
    axes.set_title(f"{count} mode{'s' * (count != 1)} in all")
    return [
        {"score": score, "density": value}
        for score, value in zip(curve.grid.tolist(), curve.values.tolist(), strict=True)
    ]


ITEM = Item(measure=measure, judge=judge, draw=draw)
