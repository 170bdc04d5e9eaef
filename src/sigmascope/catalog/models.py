"""Networks by name, such as `torchvision/resnet50`, `hf/bert`, `sigmascope/resnet20`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sigmascope.capture.guard import randomness_kept
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.entry import Model
from sigmascope.catalog.hf import of_transformers
from sigmascope.catalog.onnxfile import of_onnx
from sigmascope.catalog.optional import optional
from sigmascope.catalog.pythonfile import of_python
from sigmascope.catalog.vision import of_timm, of_torchvision
from sigmascope.catalog.vision_tasks import torchvision_names
from sigmascope.catalog.weights import load_weights
from sigmascope.catalog.zoo import of_zoo, zoo_names
from sigmascope.checks import LARGEST_NUMPY_SEED, check_path, nearest, suggestion
from sigmascope.errors import InputTypeError, MissingExtraError, OptionError
from sigmascope.maths.randomness import FixedSeed, as_number

SOURCES: dict[str, Callable[[str, str, bool], Model]] = {
    "torchvision/": of_torchvision,
    "timm/": of_timm,
    "hf/": of_transformers,
    "onnx:": of_onnx,
    "py:": of_python,
    "sigmascope/": of_zoo,
}
"""Prefix of a name -> function of the rest, the whole name, and whether to load its weights."""
LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "torchvision": lambda: torchvision_names(optional("torchvision.models")),
    "timm": lambda: optional("timm").list_models(),
    "hf": lambda: optional("transformers").CONFIG_MAPPING.keys(),
}
"""Library -> function that lists its networks."""
FORMS = ("onnx:FILE", "py:FILE:FUNCTION")
WEIGHTS = '"default" for its own weights, None for random ones, or the path of a file'


def model(name: str, *, weights: str | Path | None = "default", seed: FixedSeed = 0) -> Model:
    """Return a network by name.

    Args:
        name: `torchvision/NAME`, `timm/NAME`, `timm/NAME:features` (without its head, feature maps
            as outputs), `hf/TYPE`, `hf/FOLDER` or `hf/HUB-NAME` (transformers), `onnx:FILE`,
            `py:FILE:FUNCTION` (a function in a Python file that returns the network; its code is
            run), or `sigmascope/NAME`, `sigmascope/NAME:SEED` and
            `sigmascope/NAME:SEED-init` (our zoo); see `model_names`.
        weights: "default" for the library's own, None for random ones, or a file: safetensors, or a
            state dict of tensors. An ONNX file has no random ones, and a function in a Python file
            returns what it returns.
        seed: of the random weights, a whole number or a torch.Generator. Torch, NumPy and Python
            are seeded with it, and their states restored.

    Raises:
        OptionError: an unknown name (the message suggests the nearest), invalid weights or seed.
        MissingExtraError: a package is missing; the message names the extra.
        InputError: weights are missing and cannot be downloaded; the message says which file to
            put where.
        FileFormatError: a file that does not fit, or that would have to run code.

    >>> found = model("sigmascope/resnet20")
    >>> found.name, tuple(found.inputs.shape[1:]), found.transform.takes
    ('sigmascope/resnet20', (3, 32, 32), 'images')
    """
    if not isinstance(name, str):
        raise InputTypeError(
            f"name must be a string such as 'torchvision/resnet50', got {type(name).__name__}."
        )
    check_path("name", name)
    prefix = _prefix(name)
    seed = as_number(seed, LARGEST_NUMPY_SEED)
    _check_weights(weights, name, prefix)
    with randomness_kept():
        _seed_all(seed)
        found = SOURCES[prefix](name.removeprefix(prefix), name, weights == "default")
    found.network.eval()
    if weights == "default":
        return found
    if weights is None:
        of_file = f"{found.weights}, with seed {seed}"
        drawn = of_file if prefix == "py:" else f"random (seed {seed})"
        return replace(found, weights=drawn, accuracy=None)
    load_weights(found.network, weights)
    return replace(found, weights=str(weights), accuracy=None)


def _prefix(name: str) -> str:
    """Return the key of `SOURCES` for a name."""
    prefix = next((one for one in SOURCES if name.startswith(one) and name != one), None)
    if prefix is None:
        rest = re.split("[/:]", name, maxsplit=1)[1:]
        near = suggestion(name, [one + part for part in rest for one in SOURCES])
        near = near if rest else _like(name)
        if name.partition(":")[0] in NETWORKS:
            near = f" Did you mean 'sigmascope/{name}'?"
        raise OptionError(
            f"{name!r} is not in the catalog. Names start with {', '.join(SOURCES)}.{near}"
        )
    return prefix


def _like(name: str) -> str:
    """Suggest networks of the zoo and torchvision for a name without its source."""
    names = [*zoo_names()]
    with suppress(MissingExtraError):
        names += [f"torchvision/{one}" for one in LISTS["torchvision"]()]
    rests = {one.partition("/")[2]: one for one in reversed(names)}
    near = [repr(rests[one]) for one in nearest(name, rests, most=3)]
    return f" Did you mean {' or '.join(near)}?" * bool(near)


def _check_weights(weights: object, name: str, prefix: str) -> None:
    """Raise, before a network is built, if its weights cannot be loaded."""
    if weights is not None and not isinstance(weights, (str, Path)):
        raise OptionError(f"weights={weights!r:.80} is not valid. Pass {WEIGHTS}.")
    check_path("weights", weights)
    if weights is None and prefix == "onnx:":
        raise OptionError(
            f"{name} has its own weights; ONNX does not say how to draw random ones. Leave weights "
            "out, or build the network in Python and name it py:FILE:FUNCTION."
        )
    named = isinstance(weights, str) and weights != "default"
    if named and not Path(str(weights)).suffix and not Path(str(weights)).is_file():
        raise OptionError(f"weights={weights!r} is not a file. Pass {WEIGHTS}.")


def _seed_all(seed: int) -> None:
    """Seed torch, NumPy and Python; `torch.manual_seed` would also reseed an idle GPU for good."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
    np.random.seed(seed)
    random.seed(seed)


def model_names() -> dict[str, list[str]]:
    """Return the names of all networks by library; libraries that are not installed are missing.

    >>> "resnet20" in " ".join(model_names()["sigmascope"])
    True
    """
    listing = {"sigmascope": zoo_names(), "files": list(FORMS)}
    for source, names in LISTS.items():
        try:
            listing[source] = [f"{source}/{name}" for name in names()]
        except MissingExtraError:
            continue
    return listing
