"""How alike the layers of two of our networks are: the stored result, or a comparison on the test images of CIFAR-10."""

from __future__ import annotations

from pathlib import Path

import torch

from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
from sigmascope.errors import InputError
from sigmascope.reproduce.setting import DATA, Setting
from sigmascope.symmetry.layers import LayerSimilarity, compare

__all__ = ["BATCH", "IMAGES", "compared", "file_name", "similarity"]

FOLDER = "similarities"
# How the stored results were measured; comparisons from scratch are made like this too: on all test images.
IMAGES, BATCH = 10_000, 500
# Bytes of features that CKA keeps at a time without a GPU, and the share of a GPU's free memory with one.
MEMORY, SHARE = 2e9, 0.4


def similarity(setting: Setting, network: str, pair: tuple[int, int], measure: str, group: str) -> LayerSimilarity:
    """Return the similarity of every layer of a network with every layer of its twin of another seed.

    Args:
        setting: where results come from; those that are measured go to `similarities` in its folder `keep`.
        network: "myrtle" or "resnet20".
        pair: the seeds of the two.
        measure: "procrustes" or "cka".
        group: "relu" or "orthogonal".

    Raises:
        InputError: it is not stored, or cannot be measured; the message says what to do.
        FileFormatError: the file is damaged, foreign or newer.
    """
    if not setting.ours:
        raise InputError("this item is about networks of the zoo only. Leave out --weights and --data.")
    home = setting.keep if setting.from_scratch else setting.zoo
    place = home and home / FOLDER / file_name(network, pair, measure, group)
    if place is not None and place.is_file():
        return _checked(LayerSimilarity.load(place), place, (*_names(network, pair), measure, group))
    if not setting.from_scratch:
        raise InputError(
            f"{place} is not there. Work in a checkout of sigmascope, set SIGMASCOPE_ZOO to its folder zoo, or compare the "
            "networks again, which takes a GPU or patience: --from-scratch."
        )
    found = compared(network, pair, measure, group, root=setting.data_root, progress=setting.progress)
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
    network: str,
    pair: tuple[int, int],
    measure: str,
    group: str,
    *,
    root: str | Path | None = None,
    progress: bool = False,
) -> LayerSimilarity:
    """Compare two networks of the zoo, on a GPU if there is one.

    Args:
        network: see `similarity`, as for the next three.
        pair: the seeds.
        measure: of similarity.
        group: that it is blind to.
        root: the folder with the data sets.
        progress: whether to show a progress bar, on a terminal.

    Raises:
        InputError: the weights or the images are not here.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    entries = [model(name) for name in _names(network, pair)]
    images = data(DATA, root=root, batch_size=BATCH, limit=IMAGES, transform=entries[0].transform)
    one, other = (entry.network.to(device) for entry in entries)
    own = {"memory": SHARE * torch.cuda.mem_get_info()[0] if device.type == "cuda" else MEMORY} if measure == "cka" else {}
    names = (entries[0].name, entries[1].name)
    return compare(one, other, images, measure=measure, group=group, names=names, progress=progress, **own)  # type: ignore[arg-type]


def _names(network: str, pair: tuple[int, int]) -> tuple[str, str]:
    return f"sigmascope/{network}:{pair[0]}", f"sigmascope/{network}:{pair[1]}"


def _checked(found: LayerSimilarity, place: Path, asked: tuple[str, str, str, str]) -> LayerSimilarity:
    """Refuse a result under a name that is not its own."""
    if (*found.networks, found.measure, found.group) != asked:
        told = f"{found.measure}, {found.group} group, of {' and '.join(found.networks)}"
        raise InputError(f"{place} holds another result: {told}. Take it from the checkout again, or remove it.")
    return found
