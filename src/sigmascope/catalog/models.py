"""Networks by name, such as `torchvision/resnet50`, `timm/convnext_atto`, `hf/bert`, `onnx:FILE` or `sigmascope/resnet20`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import torch

from sigmascope.catalog.entry import Model
from sigmascope.catalog.files import of_onnx, of_python
from sigmascope.catalog.hf import of_transformers
from sigmascope.catalog.names import guess
from sigmascope.catalog.optional import optional
from sigmascope.catalog.vision import of_timm, of_torchvision
from sigmascope.catalog.weights import load_weights
from sigmascope.catalog.zoo import of_zoo, zoo_names
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
"""Beginning of a name -> function of the rest, the whole name, and whether the default weights are wanted."""


def model(name: str, *, weights: str | Path | None = "default", seed: int = 0) -> Model:
    """Build a network by name.

    Args:
        name: `torchvision/NAME`, `timm/NAME`, `hf/TYPE`, `hf/FOLDER` or `hf/HUB-NAME` (transformers), `onnx:FILE`,
            `py:FILE:FUNCTION` (a function in a Python file that returns the network; its code is run), or `sigmascope/NAME`,
            `sigmascope/NAME:SEED` and `sigmascope/NAME:SEED-init` (our zoo); see `model_names`.
        weights: "default" for the library's own, None for random ones, or a file: safetensors, or a state dict of tensors.
        seed: of the random ones.

    Raises:
        OptionError: an unknown name; the nearest ones are named.
        MissingExtraError: a package is missing; the extra is named.
        InputError: weights that are not here and cannot be fetched; the message says which file to place where.
        FileFormatError: a file that does not fit, or that would have to run code.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"name is a {type(name).__name__}. Pass a name such as 'torchvision/resnet50'.")
    beginning = next((one for one in SOURCES if name.startswith(one) and name != one), None)
    if beginning is None:
        rest = re.split("[/:]", name, maxsplit=1)[1:]
        near = guess(name, [one + part for part in rest for one in SOURCES], most=1)
        raise OptionError(f"{name!r} is no name of a network. Names begin with {', '.join(SOURCES)}.{near}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = SOURCES[beginning](name.removeprefix(beginning), name, weights == "default")
    found.network.eval()
    if weights == "default":
        return found
    if weights is None:
        return replace(found, weights=f"random (seed {seed})", accuracy=None)
    load_weights(found.network, weights)
    return replace(found, weights=str(weights), accuracy=None)


def model_names() -> dict[str, list[str]]:
    """List the names of all networks, by library; libraries that are not installed are missing."""
    listing = {"sigmascope": zoo_names()}
    sources: dict[str, Callable[[], Iterable[str]]] = {
        "torchvision": lambda: optional("torchvision.models").list_models(module=optional("torchvision.models")),
        "timm": lambda: optional("timm").list_models(),
        "hf": lambda: optional("transformers").CONFIG_MAPPING.keys(),
    }
    for source, names in sources.items():
        try:
            listing[source] = [f"{source}/{name}" for name in names()]
        except MissingExtraError:
            continue
    return listing
