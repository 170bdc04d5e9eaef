"""Networks by name, such as `torchvision/resnet50`, `timm/convnext_atto`, `hf/bert`, `onnx:FILE` or
`sigmascope/resnet20`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sigmascope.capture.guard import randomness_kept
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.entry import Model
from sigmascope.catalog.hf import of_transformers
from sigmascope.catalog.names import guess
from sigmascope.catalog.onnxfile import of_onnx
from sigmascope.catalog.optional import optional
from sigmascope.catalog.pythonfile import of_python
from sigmascope.catalog.vision import of_timm, of_torchvision
from sigmascope.catalog.weights import load_weights
from sigmascope.catalog.zoo import of_zoo, zoo_names
from sigmascope.checks import check_seed
from sigmascope.errors import InputTypeError, MissingExtraError, OptionError

__all__ = ["Model", "model", "model_names"]

SOURCES: dict[str, Callable[[str, str, bool], Model]] = {
    "torchvision/": of_torchvision,
    "timm/": of_timm,
    "hf/": of_transformers,
    "onnx:": of_onnx,
    "py:": of_python,
    "sigmascope/": of_zoo,
}
"""Beginning of a name -> function of the rest, the whole name, and whether the default weights are
wanted.
"""
FORMS = ("onnx:FILE", "py:FILE:FUNCTION")


def model(name: str, *, weights: str | Path | None = "default", seed: int = 0) -> Model:
    """Build a network by name.

    Args:
        name: `torchvision/NAME`, `timm/NAME`, `hf/TYPE`, `hf/FOLDER` or `hf/HUB-NAME`
            (transformers), `onnx:FILE`, `py:FILE:FUNCTION` (a function in a Python file that
            returns the network; its code is run), or `sigmascope/NAME`, `sigmascope/NAME:SEED` and
            `sigmascope/NAME:SEED-init` (our zoo); see `model_names`.
        weights: "default" for the library's own, None for random ones, or a file: safetensors, or a
            state dict of tensors. A file of ONNX has no random ones, and a function in a Python
            file returns what it returns.
        seed: of the random ones. Torch, NumPy and Python are seeded with it, and their states put
            back.

    Raises:
        OptionError: an unknown name, of which the nearest are named; weights or a seed that cannot
            be.
        MissingExtraError: a package is missing; the extra is named.
        InputError: weights that are not here and cannot be fetched; the message says which file to
            place where.
        FileFormatError: a file that does not fit, or that would have to run code.
    """
    if not isinstance(name, str):
        raise InputTypeError(
            f"name is a {type(name).__name__}. Pass a name such as 'torchvision/resnet50'."
        )
    beginning = _beginning(name)
    check_seed(seed)
    _check_weights(weights, name, beginning)
    with randomness_kept():
        _seed_all(int(seed))
        found = SOURCES[beginning](name.removeprefix(beginning), name, weights == "default")
    found.network.eval()
    if weights == "default":
        return found
    if weights is None:
        drawn = (
            f"{found.weights}, with seed {seed}" if beginning == "py:" else f"random (seed {seed})"
        )
        return replace(found, weights=drawn, accuracy=None)
    load_weights(found.network, weights)
    return replace(found, weights=str(weights), accuracy=None)


def _beginning(name: str) -> str:
    """Return the row of `SOURCES` that a name belongs to."""
    beginning = next((one for one in SOURCES if name.startswith(one) and name != one), None)
    if beginning is None:
        rest = re.split("[/:]", name, maxsplit=1)[1:]
        near = guess(name, [one + part for part in rest for one in SOURCES], most=1)
        if name.partition(":")[0] in NETWORKS:
            near = f" Did you mean 'sigmascope/{name}'?"
        raise OptionError(
            f"{name!r} is no name of a network. Names begin with {', '.join(SOURCES)}.{near}"
        )
    return beginning


def _check_weights(weights: object, name: str, beginning: str) -> None:
    """Raise, before a network is built, where its weights cannot be had."""
    choices = '"default" for its own weights, None for random ones, or the path of a file'
    if weights is not None and not isinstance(weights, (str, Path)):
        raise OptionError(f"weights={weights!r:.80} names no weights. Pass {choices}.")
    if weights is None and beginning == "onnx:":
        raise OptionError(
            f"{name} holds its own weights, and the format does not say how to draw others. "
            "Leave weights out, or build the "
            "network in Python and name it py:FILE:FUNCTION."
        )
    if (
        isinstance(weights, str)
        and weights != "default"
        and not Path(weights).suffix
        and not Path(weights).is_file()
    ):
        raise OptionError(
            f"weights={weights!r} is neither a file nor a word that is known. Pass {choices}."
        )


def _seed_all(seed: int) -> None:
    """Seed torch, NumPy and Python. `torch.manual_seed` would also reseed a GPU that is not in use
    yet, for good.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
    np.random.seed(seed)
    random.seed(seed)


def model_names() -> dict[str, list[str]]:
    """List the names of all networks, by library, and how those of files are written.

    Libraries that are not installed are missing.
    """
    listing = {"sigmascope": zoo_names(), "files": list(FORMS)}
    sources: dict[str, Callable[[], Iterable[str]]] = {
        "torchvision": lambda: optional("torchvision.models").list_models(
            module=optional("torchvision.models")
        ),
        "timm": lambda: optional("timm").list_models(),
        "hf": lambda: optional("transformers").CONFIG_MAPPING.keys(),
    }
    for source, names in sources.items():
        try:
            listing[source] = [f"{source}/{name}" for name in names()]
        except MissingExtraError:
            continue
    return listing
