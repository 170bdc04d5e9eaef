"""How alike the layers of two of our networks are: the stored result, or a comparison on the test
images of CIFAR-10.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sigmascope.errors import InputError
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope.symmetry.layers import compare
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.kept import best_device, images_of, kept_place, member

__all__ = ["BATCH", "IMAGES", "compared", "file_name", "similarity"]

FOLDER = "similarities"
# How the stored results were measured; comparisons from scratch are made like this too: on all test
# images.
IMAGES, BATCH = 10_000, 500
# Bytes of features that CKA keeps at a time without a GPU, and the share of a GPU's free memory
# with one.
MEMORY, SHARE = 2e9, 0.4
# Images in each of the two batches that try the machinery.
SMOKE_BATCH = 4


def similarity(
    setting: Setting, network: str, pair: tuple[int, int], measure: str, group: str
) -> LayerSimilarity:
    """Return the similarity of every layer of a network with every layer of its twin of another seed.

    Args:
        setting: where results come from; those that are measured go to `similarities` in its folder
            `keep`.
        network: its name in the zoo, such as "myrtle".
        pair: the seeds of the two.
        measure: "procrustes" or "cka".
        group: "relu" or "orthogonal".

    Raises:
        InputError: it is not stored, or cannot be measured; the message says what to do.
        FileFormatError: the file is damaged, foreign or newer.
    """
    place = kept_place(setting, FOLDER, file_name(network, pair, measure, group))
    if place is not None and place.is_file():
        return _checked(
            LayerSimilarity.load(place), place, (*_names(network, pair), measure, group)
        )
    found = compared(setting, network, pair, measure, group)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        found.save(place)
    return found


def file_name(network: str, pair: tuple[int, int], measure: str, group: str) -> str:
    """Return the name of a result.

    >>> file_name("myrtle", (0, 1), "cka", "relu")
    'myrtle-0-1-cka-relu.json'
    """
    return f"{network}-{pair[0]}-{pair[1]}-{measure}-{group}.json"


def compared(
    setting: Setting, network: str, pair: tuple[int, int], measure: str, group: str
) -> LayerSimilarity:
    """Compare two networks of the zoo, on a GPU if there is one.

    To try the machinery two small batches do, and for Procrustes the layers at the same place.

    Args:
        setting: where images are, and how many are taken.
        network: see `similarity`, as for the next three.
        pair: the seeds.
        measure: of similarity.
        group: that it is blind to.

    Raises:
        InputError: the weights or the images are not here.
    """
    device = best_device()
    entries = [member(setting, network, seed) for seed in pair]
    images: Any = images_of(setting, entries[0], images=IMAGES, batch=BATCH)
    own: dict[str, Any] = {}
    if setting.smoke:
        inputs = next(iter(images))[0]
        images = [inputs[:SMOKE_BATCH], inputs[SMOKE_BATCH : 2 * SMOKE_BATCH]]
        own["pairs"] = "diagonal" if measure == "procrustes" else "all"
    if measure == "cka":
        own["memory"] = SHARE * torch.cuda.mem_get_info()[0] if device.type == "cuda" else MEMORY
    one, other = (entry.network.to(device) for entry in entries)
    names = _names(network, pair)
    return compare(
        one,
        other,
        images,
        measure=measure,
        group=group,
        names=names,
        progress=setting.progress,
        **own,
    )


def _names(network: str, pair: tuple[int, int]) -> tuple[str, str]:
    return f"sigmascope/{network}:{pair[0]}", f"sigmascope/{network}:{pair[1]}"


def _checked(
    found: LayerSimilarity, place: Path, asked: tuple[str, str, str, str]
) -> LayerSimilarity:
    """Refuse a result under a name that is not its own."""
    if (*found.networks, found.measure, found.group) != asked:
        told = f"{found.measure}, {found.group} group, of {' and '.join(found.networks)}"
        raise InputError(
            f"{place} holds another result: {told}. Take it from the checkout again, or remove it."
        )
    return found
