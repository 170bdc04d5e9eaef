"""Pairs of networks of one architecture, trained with different seeds, whose layers are compared; and their averages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sigmascope.errors import InputError
from sigmascope.figures import Drawn, draw_curves, draw_similarity, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend
from sigmascope.maths.procrustes import Matrix
from sigmascope.reproduce.setting import Setting
from sigmascope.reproduce.symmetry.similarities import similarity
from sigmascope.symmetry.layer_similarity import LayerSimilarity

__all__ = [
    "GROUPS",
    "MYRTLE",
    "NOT_BLIND",
    "OTHER_RECIPE",
    "RESNET20",
    "Pairs",
    "Subject",
    "draw_layers",
    "draw_matrices",
    "pairs_of",
]

GROUPS = ("relu", "orthogonal")
NOT_BLIND = "written when the similarities of layers at the same place, on 200 images, had been seen; not changed afterwards"
OTHER_RECIPE = "not known; our networks are trained by SGD in large batches, the paper's by Adam in batches of 32"


@dataclass(frozen=True)
class Subject:
    """An architecture.

    Attributes:
        network: its name in the zoo.
        pairs: the seeds that are compared.
        layers: the paper's names of its activations, `*` for those inside of a residual block.
    """

    network: str
    pairs: tuple[tuple[int, int], ...]
    layers: tuple[str, ...]


MYRTLE = Subject("myrtle", ((0, 1), (2, 3), (4, 5), (6, 7)), ("3", "6", "10", "14"))
RESNET20 = Subject(
    "resnet20",
    ((0, 1), (2, 3), (0, 2), (1, 3)),
    ("3", *(name for block in range(9) for name in (f"{8 + 8 * block}*", f"{11 + 8 * block}"))),
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """What all pairs of an architecture gave.

    Attributes:
        layers: k names.
        found: "relu" and "orthogonal" -> one result for each pair.
    """

    layers: tuple[str, ...]
    found: Mapping[str, tuple[LayerSimilarity, ...]]

    def matrices(self, group: str) -> Matrix:
        """(p, k, k), the similarities of all layers of p pairs."""
        return np.stack([one.similarity for one in self.found[group]])

    def same_place(self, group: str) -> Matrix:
        """(p, k), the similarities of layers at the same place."""
        return self.matrices(group).diagonal(axis1=1, axis2=2)

    def averaged(self, group: str) -> LayerSimilarity:
        """Return the mean over the pairs, its layers under the paper's names."""
        first = self.found[group][0]
        mean = tuple(map(tuple, self.matrices(group).mean(axis=0).tolist()))
        seeds = (f"{first.networks[0].partition(':')[0].removeprefix('sigmascope/')}, one seed", "another seed")
        return replace(first, networks=seeds, rows=self.layers, columns=self.layers, similarities=mean, missing=())


def pairs_of(setting: Setting, subject: Subject, measure: str) -> Pairs:
    """Read or measure the similarities of all pairs, by both groups.

    Raises:
        InputError: some are not stored, or cannot be measured; or have other layers than the paper's network.
    """
    found = {
        group: tuple(similarity(setting, subject.network, pair, measure, group) for pair in subject.pairs) for group in GROUPS
    }
    k = len(subject.layers)
    for one in (one for results in found.values() for one in results):
        if one.similarity.shape != (k, k):
            told = f"{len(one.rows)} and {len(one.columns)} layers where {k} are expected"
            raise InputError(f"{' and '.join(one.networks)}: {told}. Take the results from the checkout again.")
    return Pairs(subject.layers, found)


@styled()
def draw_layers(pairs: Pairs, paper: Mapping[str, Mapping[str, float]]) -> Drawn:
    """Draw the similarities of layers at the same place, mean and deviation, and those of the paper as crosses."""
    figure = new_figure(PAGE, 2.6)
    panel = figure.subplots()
    places = np.arange(float(len(pairs.layers)))
    curves = {f"{group} group": pairs.same_place(group) for group in GROUPS}
    drawn = draw_curves(places, curves, panel, over="activation, * inside of a residual block")
    table: list[dict[str, Any]] = [{"layer": pairs.layers[int(row["at"])], **row} for row in drawn.table]
    for group, line in zip(GROUPS, panel.get_lines(), strict=True):
        known = {pairs.layers.index(layer): value for layer, value in paper[group].items()}
        panel.plot(list(known), list(known.values()), "x", color=line.get_color(), label=f"{group} group, the paper's")
        table += [
            {"layer": pairs.layers[at], "curve": f"{group} group, the paper's", "at": at, "mean": value}
            for at, value in known.items()
        ]
    panel.set(ylabel="Procrustes similarity")
    panel.set_xticks(places, list(pairs.layers))
    add_panel_legend(figure, [panel])
    return Drawn(figure, (panel,), table)


@styled()
def draw_matrices(pairs: Pairs) -> Drawn:
    """Draw the mean matrix of each group as a map of colours."""
    figure = new_figure(PAGE, 3.2)
    panels = figure.subplots(1, len(GROUPS)).tolist()
    table: list[dict[str, Any]] = []
    for panel, group in zip(panels, GROUPS, strict=True):
        drawn = draw_similarity(pairs.averaged(group), axes=panel)
        panel.set_box_aspect(1)
        table += [{"group": group, **row} for row in drawn.table]
    return Drawn(figure, tuple(panels), table)
