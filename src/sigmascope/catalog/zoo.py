"""The zoo: our own networks, with weights from the package or from a checkout's `zoo` directory.

`sigmascope/resnet20` has the weights of seed 0 at the end of training, `sigmascope/resnet20:1`
those of seed 1, and `sigmascope/resnet20:1-init` the initial weights of seed 1, which any seed
gives without a file. `:1-end` is the same as `:1`.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.embedded import EMBEDDED, embedded_weights
from sigmascope.catalog.entry import Model, check_known
from sigmascope.catalog.transforms import Transform, resize_and_crop
from sigmascope.catalog.weights import load_weights
from sigmascope.checks import check_seed
from sigmascope.errors import FileFormatError, InputError, OptionError
from sigmascope.store.documents import parse
from sigmascope.store.files import read_bytes

ZOO_VARIABLE = "SIGMASCOPE_ZOO"  # names the directory where it is not ./zoo
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def of_zoo(rest: str, name: str, pretrained: bool) -> Model:
    """Return one of our networks, `NETWORK` or `NETWORK:SEED` or `NETWORK:SEED-CHECKPOINT`."""
    kind, mark, checkpoint = rest.partition(":")
    check_known(kind, NETWORKS, "sigmascope")
    if mark and not checkpoint:
        raise OptionError(
            f"{name!r} has no seed after the colon. Write sigmascope/{kind}, or "
            f"sigmascope/{kind}:SEED, such as :0."
        )
    if mark and not pretrained:
        raise OptionError(
            f"{name} names weights of the zoo, but weights= asks for others. "
            f"Write sigmascope/{kind}."
        )
    checkpoint = checkpoint.removesuffix("-end")
    seed, _, moment = checkpoint.partition("-")
    initial = moment == "init" and seed.isdecimal()
    if initial:
        # as training does; `model` restores the random state of the process
        torch.default_generator.manual_seed(check_seed(int(seed)))
    network, accuracy, origin = NETWORKS[kind](), None, "random"
    if initial:
        origin = f"random (seed {seed}), as training begins"
    elif pretrained and kind in EMBEDDED and checkpoint in ("", "0"):
        accuracy, origin = embedded_weights(kind, network), "embedded"
    elif pretrained:
        entry = f"{kind}-s{checkpoint or '0'}"
        accuracy, origin = _zoo_weights(entry, name, network), f"zoo: {entry}"
    transform = Transform("images", resize_and_crop((32, 32), MEAN, STD), (3, 32, 32))
    return Model(name, network, origin, torch.zeros(1, 3, 32, 32), transform, accuracy)


def zoo_names() -> list[str]:
    """Return the names of our networks, and of all weights where the zoo directory is found."""
    return [*(f"sigmascope/{name}" for name in NETWORKS), *map(_name, _index(_zoo_folder()))]


def _name(entry: str) -> str:
    """Return the name of an entry of the index: resnet20-s1-init is sigmascope/resnet20:1-init."""
    kind, _, checkpoint = entry.rpartition("-s")
    return f"sigmascope/{kind}:{checkpoint}"


def _zoo_folder() -> Path:
    return Path(os.environ.get(ZOO_VARIABLE, "zoo"))


def _index(folder: Path) -> dict[str, Any]:
    path = folder / "index.json"
    if not path.is_file():
        return {}
    try:
        index = parse(read_bytes(path))
    except ValueError as error:
        raise FileFormatError(
            f"{path}: not valid JSON ({error}). Restore it from the checkout."
        ) from error
    if not isinstance(index, dict) or not all(map(_is_entry, index.values())):
        raise FileFormatError(
            f"{path}: not an index of networks, accuracies and checksums. Restore it from the "
            "checkout."
        )
    return index


def _is_entry(value: object) -> bool:
    kinds = {"network": str, "sha256": str, "accuracy": int | float}
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kind) for name, kind in kinds.items()
    )


def _zoo_weights(entry: str, name: str, network: nn.Module) -> float:
    """Load weights of the zoo, once their checksum is verified; return the accuracy in percent."""
    folder = _zoo_folder()
    index, path = _index(folder), folder / "weights" / f"{entry}.safetensors"
    others = "pass weights=FILE, or weights=None for random weights"
    if not index:
        raise InputError(
            f"{name}: the package ships weights for {' and '.join(EMBEDDED)} only, and {folder} is "
            "not the zoo directory of a checkout. Clone the sigmascope repository and set "
            f"{ZOO_VARIABLE} to its zoo directory, {others}."
        )
    if entry not in index:
        kind = entry.rpartition("-s")[0]
        siblings = [_name(one) for one in index if index[one]["network"] == kind]
        listing = ", ".join(siblings) or "no weights of this network"
        raise OptionError(
            f"{_name(entry)} is not in the zoo, which has {listing}. Choose one of them, {others}."
        )
    if not path.is_file():
        raise InputError(
            f"{path} is in the index but missing. Restore it from the checkout, or train it: "
            "python zoo/train.py."
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != index[entry]["sha256"]:
        raise FileFormatError(
            f"{path}: its checksum differs from the index. Restore it from the checkout."
        )
    load_weights(network, path)
    return float(index[entry]["accuracy"])
