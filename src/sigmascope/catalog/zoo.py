"""Our own networks, with the weights that the package carries or that stand in the folder `zoo` of
a checkout.

`sigmascope/resnet20` has the weights of seed 0 at the end of training, `sigmascope/resnet20:1`
those of seed 1, and `sigmascope/resnet20:1-init` those that seed 1 began with, which any seed gives
at once, without a file. `:1-end` is another way to write `:1`.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.embedded import EMBEDDED, embedded_weights
from sigmascope.catalog.entry import Model
from sigmascope.catalog.names import check_known
from sigmascope.catalog.transforms import Transform, resize_and_crop
from sigmascope.catalog.weights import load_weights
from sigmascope.checks import check_seed
from sigmascope.errors import FileFormatError, InputError, OptionError

__all__ = ["of_zoo", "zoo_names"]

# Where the folder `zoo` is, when it is not in the working directory.
ZOO_VARIABLE = "SIGMASCOPE_ZOO"
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def of_zoo(rest: str, name: str, pretrained: bool) -> Model:
    """Build one of our own networks, `NETWORK` or `NETWORK:SEED` or `NETWORK:SEED-CHECKPOINT`."""
    kind, mark, checkpoint = rest.partition(":")
    check_known(kind, NETWORKS, "sigmascope")
    if mark and not checkpoint:
        raise OptionError(
            f"{name!r} names no seed. Write sigmascope/{kind}, or sigmascope/{kind}:SEED, "
            "such as :0."
        )
    if mark and not pretrained:
        raise OptionError(
            f"{name} names weights of the zoo, and others are asked for. Write sigmascope/{kind}."
        )
    checkpoint = checkpoint.removesuffix("-end")
    seed, _, moment = checkpoint.partition("-")
    if moment == "init" and seed.isdecimal():
        check_seed(int(seed))
        # as training does; the caller keeps the random state of the process
        torch.default_generator.manual_seed(int(seed))
    network, accuracy, origin = NETWORKS[kind](), None, "random"
    if moment == "init" and seed.isdecimal():
        origin = f"random (seed {seed}), as training begins"
    elif pretrained and kind in EMBEDDED and checkpoint in ("", "0"):
        accuracy, origin = embedded_weights(kind, network), "embedded"
    elif pretrained:
        entry = f"{kind}-s{checkpoint or '0'}"
        accuracy, origin = _zoo_weights(entry, name, network), f"zoo: {entry}"
    transform = Transform("images", resize_and_crop((32, 32), MEAN, STD), (3, 32, 32))
    return Model(name, network, origin, torch.zeros(1, 3, 32, 32), transform, accuracy)


def zoo_names() -> list[str]:
    """List our networks, and every file of weights where the folder `zoo` is at hand."""
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
        index: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise FileFormatError(
            f"{path}: no JSON ({error}). Take it from the checkout again."
        ) from error
    return index


def _zoo_weights(entry: str, name: str, network: nn.Module) -> float:
    """Put weights of the zoo into a network, once their sum is checked, and return their accuracy
    in percent.
    """
    folder = _zoo_folder()
    index, path = _index(folder), folder / "weights" / f"{entry}.safetensors"
    if not index:
        raise InputError(
            f"{name} has no embedded weights ({', '.join(EMBEDDED)} have), and {folder} is "
            "no zoo. Work in a checkout of "
            f"sigmascope, set {ZOO_VARIABLE} to its folder zoo, or pass weights=FILE or "
            "weights=None."
        )
    if entry not in index:
        siblings = [
            _name(one) for one in index if index[one]["network"] == entry.rpartition("-s")[0]
        ]
        listing = ", ".join(siblings) or "no weights of this network"
        raise OptionError(
            f"the zoo has no {_name(entry)}; it has {listing}. Pass one of them, "
            "weights=FILE or weights=None."
        )
    if not path.is_file():
        raise InputError(
            f"{path} is listed and not there. Take it from the checkout, or train it: python "
            "zoo/train.py."
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != index[entry]["sha256"]:
        raise FileFormatError(
            f"{path}: not the file that the index lists. Take it from the checkout again."
        )
    load_weights(network, path)
    return float(index[entry]["accuracy"])
