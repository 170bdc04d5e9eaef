"""How alike the layers of two zoo networks are: stored results, or a comparison on test images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from sigmascope.errors import InputError
from sigmascope.maths.procrustes import Matrix
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope.symmetry.layers import compare
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry import kept
from sigmascope_papers.symmetry.plans import MYRTLE_LAYERS, RESNET18_LAYERS, RESNET20_LAYERS

GROUPS = ("relu", "orthogonal")
FOLDER = "similarities"
IMAGES, BATCH = 10_000, 500
# Bytes of features that CKA keeps at a time without a GPU, and the share of a GPU's free memory.
MEMORY, SHARE = 2e9, 0.4


@dataclass(frozen=True)
class Subject:
    """Networks of the zoo, the seeds of the pairs, and the paper's names of the activations."""

    network: str
    pairs: tuple[tuple[int, int], ...]
    layers: tuple[str, ...]


MYRTLE = Subject("myrtle", ((0, 1), (2, 3), (4, 5), (6, 7)), tuple(MYRTLE_LAYERS.values()))
RESNET20 = Subject("resnet20", ((0, 1), (2, 3), (0, 2), (1, 3)), tuple(RESNET20_LAYERS.values()))
# The weights of the next two are not in the repository; their results are.
RESNET18 = Subject("resnet18", ((0, 1),), tuple(RESNET18_LAYERS.values()))
WIDE = Subject("myrtle-wide", ((0, 1), (2, 3)), MYRTLE.layers)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Results of all pairs of an architecture: k names of layers, and for each group the pairs."""

    layers: tuple[str, ...]
    found: Mapping[str, tuple[LayerSimilarity, ...]]

    def matrices(self, group: str) -> Matrix:
        """(p, k, k), the similarities of all layers of p pairs."""
        return np.stack([one.similarity for one in self.found[group]])

    def same_place(self, group: str, layers: Sequence[str] = ()) -> Matrix:
        """(p, k), the similarities of layers at the same place, of some layers or of all."""
        places = [self.layers.index(layer) for layer in layers or self.layers]
        return self.matrices(group).diagonal(axis1=1, axis2=2)[:, places]

    def mean(self, group: str, layers: Sequence[str] = ()) -> Matrix:
        """(k,), the mean of `same_place` over the pairs."""
        mean: Matrix = self.same_place(group, layers).mean(axis=0)
        return mean

    def live_channels(self) -> Matrix:
        """(p, 2, k), the number of channels of the two networks that are not zero everywhere."""
        return np.array([one.live for one in self.found["relu"]], dtype=np.float64)

    def by_live_channels(self) -> Matrix:
        """(p, k), the Procrustes similarities of the relu group over live channels only.

        The authors' normalizer divides the squared distance by 4 max(C₁, C₂), the other one by
        twice the number of live channels of both.
        """
        widest = np.array([np.max(one.channels, axis=0) for one in self.found["relu"]])
        live = np.maximum(self.live_channels().sum(axis=1), 1)  # without any the similarity is NaN
        distance: Matrix = (1 - self.same_place("relu")) * np.sqrt(2 * widest / live)
        return 1 - distance

    def averaged(self, group: str) -> LayerSimilarity:
        """Return the mean over the pairs, with the paper's names of the layers."""
        first = self.found[group][0]
        network = first.networks[0].partition(":")[0].removeprefix("sigmascope/")
        mean = tuple(map(tuple, self.matrices(group).mean(axis=0).tolist()))
        titles = f"{network}, one seed", "another seed"
        sites: dict[str, Any] = {"rows": self.layers, "columns": self.layers}
        return replace(first, networks=titles, similarities=mean, missing=(), **sites)


def pairs_of(setting: Setting, subject: Subject, measure: str) -> Pairs:
    """Return the similarities of all pairs, by both groups; in a smoke run of the first pair."""
    pairs = subject.pairs[:1] if setting.smoke else subject.pairs
    found = {
        group: tuple(similarity(setting, subject.network, pair, measure, group) for pair in pairs)
        for group in GROUPS
    }
    k = len(subject.layers)
    for one in (one for results in found.values() for one in results):
        if one.similarity.shape != (k, k):
            raise InputError(
                f"{' and '.join(one.networks)}: expected {k} layers, got {len(one.rows)} and "
                f"{len(one.columns)}. Restore the stored results from the repository."
            )
    return Pairs(subject.layers, found)


def similarity(
    setting: Setting, network: str, pair: tuple[int, int], measure: str, group: str
) -> LayerSimilarity:
    """Return the similarities of all layers of two networks of the zoo, stored or computed."""
    names = kept.zoo_name(network, pair[0]), kept.zoo_name(network, pair[1])
    return kept.read_or_make(
        setting,
        f"{FOLDER}/{file_name(network, pair, measure, group)}",
        LayerSimilarity.load,
        {"networks": names, "measure": measure, "group": group},
        lambda: compared(setting, network, pair, measure, group),
    )


def file_name(network: str, pair: tuple[int, int], measure: str, group: str) -> str:
    """Return the file name of a result."""
    return f"{network}-{pair[0]}-{pair[1]}-{measure}-{group}.json"


def compared(
    setting: Setting, network: str, pair: tuple[int, int], measure: str, group: str
) -> LayerSimilarity:
    """Compare two networks; by Procrustes a smoke run takes the layers at the same place only."""
    device = kept.best_device()
    entries = [kept.member(setting, network, seed) for seed in pair]
    images: Any = kept.images_of(setting, entries[0], images=IMAGES, batch=BATCH)
    names = kept.zoo_name(network, pair[0]), kept.zoo_name(network, pair[1])
    options: dict[str, Any] = {"measure": measure, "group": group, "names": names}
    if setting.smoke:
        options["pairs"] = "diagonal" if measure == "procrustes" else "all"
    if measure == "cka":
        gpu = device.type == "cuda"
        options["memory"] = SHARE * torch.cuda.mem_get_info()[0] if gpu else MEMORY
    one, other = (entry.network.to(device) for entry in entries)
    return compare(one, other, images, progress=setting.progress, **options)
