"""Figures 13 to 15: ViTs by the size of their patches, VGGs and ResNets by their depth."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import kendalltau

from sigmascope.compare.distances import distances
from sigmascope.figures import Drawn, draw_signatures
from sigmascope.figures.style import short_names
from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity import places
from sigmascope_papers.nonlinearity.fig5a import RARE
from sigmascope_papers.nonlinearity.fig7 import CLEAR, NONE
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.lineup import Lineup, known, line_up
from sigmascope_papers.nonlinearity.places import END, INSIDE, by_place, places_in, separation
from sigmascope_papers.setting import Setting

PATCH = re.compile(r"(?:patch|vit_[a-z]_)(\d+)")
FINE, FEWEST = 16, 4  # pixels; blocks, below which there is no plateau to speak of
NEAR, ABOUT = 0.05, 0.1
CLOSE_TO_1 = 0.95


def patch_of(name: str) -> int | None:
    """Return the size of the patches in pixels, by the name of a network; None if it is not there.

    >>> patch_of("torchvision/vit_l_16"), patch_of("sigmascope/vit-patch4:0"), patch_of("vit:0")
    (16, 4, None)
    """
    found = PATCH.search(name)
    return int(found[1]) if found else None


@dataclass(frozen=True, eq=False)
class Sizes(Lineup):
    """Networks of one group by their size; the lineup may have other groups too."""

    group: str
    seeds: Sequence[Signature] = ()  # of one network; the paper's have none

    @property
    def deep(self) -> list[Signature]:
        """The networks of the group, the shallowest first."""
        return sorted(self.of(self.group), key=len)

    @property
    def others(self) -> list[Signature]:
        """The representatives of the other groups."""
        groups = self.cast.groups()
        return [one for one in self.leads() if groups[one.name] != self.group]

    @property
    def patches(self) -> dict[int, Signature]:
        """One network by the size of its patches, the smallest first."""
        found = {patch_of(one.name): one for one in self.of(self.group)}
        return {
            size: one for size, one in sorted(found.items(), key=lambda row: row[0] or 0) if size
        }

    @property
    def fine(self) -> int:
        """The size that represents small patches."""
        return FINE if FINE in self.patches else min(self.patches)

    def lacks(self, *needs: str) -> str:
        """Say which groups, depths or patches are missing; empty if none is."""
        if "depths" in needs:
            return "" if len(self.deep) > 1 else f"needs {self.group} of two depths"
        if "patches" in needs:
            blocks = [len(known(one)) for one in self.patches.values()]
            few = len(blocks) < 2 or min(blocks) < FEWEST
            return f"needs ViTs of two sizes of patches, with {FEWEST} blocks or more" * few
        return super().lacks(*needs)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _grows(values: Sequence[float]) -> bool:
    return all(one < other for one, other in itertools.pairwise(values))


def _rises_gradually(found: Sizes) -> Finding:
    scores = known(found.patches[found.fine])
    rank = kendalltau(np.arange(len(scores)), scores, alternative="greater")
    third = len(scores) // 3 or 1
    early, late = float(scores[:third].mean()), float(scores[-third:].mean())
    told = f"patches of {found.fine}: tau {rank.statistic:.2f}, p = {rank.pvalue:.3f}, "
    told += f"thirds {early:.3f} and {late:.3f}"
    return told, rank.statistic > 0 and late > early, rank.pvalue <= RARE


def _rises_at_the_end(found: Sizes) -> Finding:
    coarse, one = list(found.patches.items())[-1]
    scores = known(one)
    steps, plateau, last = np.diff(scores), float(np.ptp(scores[1:-1])), len(scores) - 1
    top = steps[-1] > 0 and steps.argmax() == last - 1 and scores.argmax() == last
    told = f"patches of {coarse}: last step {steps[-1]:.3f}, largest {steps.max():.3f}, "
    return f"{told}range between {plateau:.3f}", top, steps[-1] > plateau


def _depends_on_size(found: Sizes) -> Finding:
    curves = {size: known(one) for size, one in found.patches.items()}
    shares = {size: float((s[-1] - s[-2]) / (np.ptp(s) or 1.0)) for size, s in curves.items()}
    told = ", ".join(f"{size}: {share:.2f}" for size, share in shares.items())
    *_, coarse = shares.values()
    return told, shares[found.fine] < coarse, _grows(list(shares.values()))


def _among(signatures: Sequence[Signature]) -> Array:
    matrix: Array = distances(signatures, normalize="path").matrix
    return matrix[np.triu_indices(len(matrix), 1)]


def _little_beside_others(found: Sizes) -> Finding:
    if not found.others:
        return "there is no other group"
    own, count = _among(found.deep), len(found.deep)
    across = distances([*found.deep, *found.others], normalize="path").matrix[:count, count:]
    middle, typical = np.median(own), np.median(across)
    told = f"median {middle:.3f}, largest {own.max():.3f}; "
    told += f"to others {typical:.3f}, least {across.min():.3f}"
    return told, middle < typical, own.max() <= typical / 2


def _little_beside_seeds(found: Sizes) -> Finding:
    if not found.seeds:
        return "there are no other seeds of these networks"
    own, seeds = _among(found.deep), _among(found.seeds)
    told = f"median {np.median(own):.3f}, largest {own.max():.3f}; "
    told += f"seeds {np.median(seeds):.3f}, {seeds.max():.3f}"
    return told, np.median(own) <= seeds.max(), own.max() <= seeds.max()


def _keeps_its_level(found: Sizes) -> Finding:
    medians = [one.summary()["median"] for one in found.deep]
    spread = max(medians) - min(medians)
    return _listed(medians), spread <= ABOUT, spread <= NEAR


def _gap(signature: Signature) -> float:
    """Return how far the median at the end of a block is above that inside."""
    found = by_place(signature)
    return float(np.median(found[END]) - np.median(found[INSIDE]))


def _gap_grows(found: Sizes) -> Finding:
    gaps, seeds = [_gap(one) for one in found.deep], [_gap(one) for one in found.seeds]
    told = _listed(gaps)
    if seeds:
        told += f"; {len(seeds)} seeds of the first {min(seeds):.3f} to {max(seeds):.3f}"
    return told, gaps[-1] > gaps[0], _grows(gaps)


def _approaches_1(found: Sizes) -> Finding:
    levels = [float(np.median(by_place(one)[END])) for one in found.deep]
    clear = _grows(levels) and levels[-1] >= CLOSE_TO_1
    return _listed(levels), levels[-1] > levels[0], clear


def _stays_apart(found: Sizes) -> Finding:
    shares = [separation(one) for one in found.deep]
    return _listed(shares), min(shares) > NONE, min(shares) >= CLEAR


def _draw_overlaid(found: Sizes) -> dict[str, Drawn]:
    """Draw all sizes on top of each other; nothing if there is no network of the group."""
    drawn = list(found.patches.values()) if found.group == "ViTs" else found.deep
    return {"": draw_signatures(drawn, layout="overlaid")} if drawn else {}


def _draw_panels(found: Sizes) -> dict[str, Drawn]:
    """Draw each depth in a panel of its own, on one scale; nothing if there is no network."""
    deep = found.deep
    names, kinds = short_names([one.name for one in deep]), [places_in(one) for one in deep]
    return {"": places.draw_panels(deep, kinds, names)} if deep else {}


def _measure(setting: Setting, group: str, seeds: Sequence[str] = ()) -> Sizes:
    """Read or measure the networks, and the seeds of one if it is among them."""
    chosen = setting.cast.names(group)
    if group == "ViTs":  # one for each size of patches
        chosen = [name for size, name in {patch_of(one): one for one in chosen}.items() if size]
    if group == "VGGs":  # beside the other groups
        chosen = list(dict.fromkeys([*chosen, *setting.cast.leads]))
    lineup = line_up(setting, chosen)
    trained = setting.runs(seeds) if seeds and f"sigmascope/{seeds[0]}" in chosen else []
    return Sizes(lineup.cast, lineup.signatures, group, [run.signature for run in trained])


VGG16 = [f"vgg16:{seed}" for seed in range(1, 10)]
RESNET20 = [f"resnet20:{seed}" for seed in range(3)]
VITS = partial(_measure, group="ViTs")
VGGS = partial(_measure, group="VGGs", seeds=VGG16)
RESNETS = partial(_measure, group="ResNets", seeds=RESNET20)
PATCHES = (_rises_gradually, _rises_at_the_end, _depends_on_size)
DEPTHS = (_little_beside_others, _little_beside_seeds, _keeps_its_level)
ITEMS = {
    "fig13": item_of("fig13", VITS, _draw_overlaid, *PATCHES),
    "fig14": item_of("fig14", VGGS, _draw_overlaid, *DEPTHS),
    "fig15": item_of("fig15", RESNETS, _draw_panels, _gap_grows, _approaches_1, _stays_apart),
}
