"""Pairs of networks of one architecture, trained with different seeds, whose layers are compared;
and their averages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sigmascope.errors import InputError
from sigmascope.figures import Drawn, draw_similarity, new_figure, styled
from sigmascope.figures.style import PAGE, add_panel_legend, look
from sigmascope.maths.procrustes import Matrix
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.similarities import similarity

__all__ = [
    "BEFORE",
    "GROUPS",
    "MYRTLE",
    "NOT_BLIND",
    "OTHER_RECIPE",
    "RESNET18",
    "RESNET20",
    "WIDE",
    "Pairs",
    "Subject",
    "draw_curve",
    "draw_layers",
    "draw_matrices",
    "pairs_of",
]

GROUPS = ("relu", "orthogonal")
NOT_BLIND = (
    "written when the similarities of layers at the same place, on 200 images, had been seen; "
    "not changed afterwards"
)
BEFORE = (
    "written before these networks were compared; the paper's numbers and what our smaller "
    "networks gave had been seen"
)
OTHER_RECIPE = (
    "not known; our networks are trained by SGD in large batches, the paper's by Adam in batches "
    "of 32"
)


@dataclass(frozen=True)
class Subject:
    """An architecture.

    Attributes:
        network: its name in the zoo.
        pairs: the seeds that are compared.
        layers: the paper's names of its activations, `*` for those inside a residual block.
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
# The weights of the next two are not in the repository; what they gave is.
RESNET18 = Subject(
    "resnet18",
    ((0, 1),),
    (
        "3",
        "8*",
        "11",
        "16*",
        "19",
        "24*",
        "27",
        "34*",
        "37",
        "42*",
        "45",
        "52*",
        "55",
        "60*",
        "63",
        "70*",
        "73",
    ),
)
WIDE = Subject("myrtle-wide", ((0, 1), (2, 3)), MYRTLE.layers)


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

    def live_channels(self) -> Matrix:
        """(p, 2, k), how many channels the layers of the two networks have that are not zero everywhere."""
        return np.array([one.live for one in self.found["relu"]], dtype=np.float64)

    def by_live_channels(self) -> Matrix:
        """(p, k), Procrustes similarities by the relu group of layers at the same place, by their
        live channels only.

        The authors' normaliser divides the squared distance by 4 max(C₁, C₂), the other one by
        twice the live channels of both.
        """
        widest = np.array([np.max(one.channels, axis=0) for one in self.found["relu"]])
        live = np.maximum(self.live_channels().sum(axis=1), 1)  # without any the similarity is NaN
        distance: Matrix = (1 - self.same_place("relu")) * np.sqrt(2 * widest / live)
        return 1 - distance

    def averaged(self, group: str) -> LayerSimilarity:
        """Return the mean over the pairs, its layers under the paper's names."""
        first = self.found[group][0]
        mean = tuple(map(tuple, self.matrices(group).mean(axis=0).tolist()))
        seeds = (
            f"{first.networks[0].partition(':')[0].removeprefix('sigmascope/')}, one seed",
            "another seed",
        )
        return replace(
            first,
            networks=seeds,
            rows=self.layers,
            columns=self.layers,
            similarities=mean,
            missing=(),
        )


def pairs_of(setting: Setting, subject: Subject, measure: str) -> Pairs:
    """Read or measure the similarities of all pairs, by both groups; to try the machinery, of the
    first pair.

    Raises:
        InputError: some are not stored, or cannot be measured; or have other layers than the
            paper's network.
    """
    pairs = subject.pairs[:1] if setting.smoke else subject.pairs
    found = {
        group: tuple(similarity(setting, subject.network, pair, measure, group) for pair in pairs)
        for group in GROUPS
    }
    k = len(subject.layers)
    for one in (one for results in found.values() for one in results):
        if one.similarity.shape != (k, k):
            told = f"{len(one.rows)} and {len(one.columns)} layers where {k} are expected"
            raise InputError(
                f"{' and '.join(one.networks)}: {told}. Take the results from the checkout again."
            )
    return Pairs(subject.layers, found)


@styled()
def draw_layers(
    pairs: Pairs, paper: Mapping[str, Mapping[str, float]], *, live: bool = False
) -> Drawn:
    """Draw the similarities of layers at the same place, mean and deviation, and those of the paper
    as crosses.

    Args:
        pairs: by Procrustes.
        paper: group -> layer -> similarity, where it is known.
        live: whether to show what becomes of the relu group by live channels only, and how many
            there are.
    """
    figure = new_figure(PAGE, 3.4 if live else 2.6)
    panels = figure.subplots(
        1 + live, 1, sharex=True, squeeze=False, height_ratios=(3, 1)[: 1 + live]
    )[:, 0].tolist()
    table: list[dict[str, Any]] = []
    for number, group in enumerate(GROUPS):
        table += draw_curve(
            panels[0], pairs.layers, f"{group} group", pairs.same_place(group), number
        )
        known = {pairs.layers.index(layer): value for layer, value in paper[group].items()}
        name = f"{group} group, the paper's"
        panels[0].plot(list(known), list(known.values()), "x", color=look(number).color, label=name)
        table += [
            {"layer": pairs.layers[at], "curve": name, "at": at, "mean": value}
            for at, value in known.items()
        ]
    if live:
        table += draw_curve(
            panels[0], pairs.layers, "relu group, live channels only", pairs.by_live_channels(), 2
        )
        widths = np.array([one.channels for one in pairs.found["relu"]])
        shares = (pairs.live_channels() / widths).reshape(-1, len(pairs.layers))
        table += draw_curve(panels[1], pairs.layers, "share of live channels", shares, 3)
        panels[1].set(ylabel="live channels", ylim=(-0.1, 1.1))
    inside = any(layer.endswith("*") for layer in pairs.layers)
    panels[0].set(ylabel="Procrustes similarity")
    panels[-1].set(xlabel="activation, * inside a residual block" if inside else "activation")
    panels[-1].set_xticks(range(len(pairs.layers)), list(pairs.layers))
    add_panel_legend(figure, panels[:1])
    return Drawn(figure, tuple(panels), table)


def draw_curve(
    panel: Axes, layers: Sequence[str], name: str, found: Matrix, number: int
) -> list[dict[str, Any]]:
    """Draw the mean of repetitions (r, k) over the layers, with bars of one population standard
    deviation; return its data.
    """
    color, marker, line = look(number)
    mean, deviation = found.mean(axis=0), found.std(axis=0)
    order = 2.5 - number / 10  # where they are equal, the first is seen
    style: dict[str, Any] = {
        "color": color,
        "marker": marker,
        "linestyle": line,
        "markersize": 4.0,
        "markeredgewidth": 0,
    }
    panel.plot(range(len(layers)), mean, label=name, zorder=order, **style)
    if len(found) > 1:
        bars: dict[str, Any] = {"ecolor": color, "elinewidth": 0.8, "capsize": 2, "zorder": order}
        panel.errorbar(range(len(layers)), mean, deviation, fmt="none", **bars)
    return [
        {
            "layer": layer,
            "curve": name,
            "at": at,
            "mean": float(mean[at]),
            "std": float(deviation[at]),
            "repetitions": len(found),
        }
        for at, layer in enumerate(layers)
    ]


@styled()
def draw_matrices(pairs: Pairs) -> Drawn:
    """Draw the mean matrix of each group as a map of colors."""
    figure = new_figure(PAGE, 3.2)
    panels = figure.subplots(1, len(GROUPS)).tolist()
    table: list[dict[str, Any]] = []
    for panel, group in zip(panels, GROUPS, strict=True):
        drawn = draw_similarity(pairs.averaged(group), axes=panel)
        panel.set_box_aspect(1)
        table += [{"group": group, **row} for row in drawn.table]
    return Drawn(figure, tuple(panels), table)
