"""Weights from files, read without running code that may be in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.catalog.floors import check_floor
from sigmascope.catalog.inflating import check_archive
from sigmascope.catalog.optional import one_line
from sigmascope.errors import FileFormatError, InputError
from sigmascope.store.tensors import readable

# Keys under which training scripts put the weights, and prefixes that wrappers add to their names.
NESTED = ("state_dict", "model_state_dict", "model", "net", "weights")
PREFIXES = ("module.", "_orig_mod.")
# What libraries say about files that contain code.
UNSAFE = ("weights only", "trust remote code")
REFUSAL = "contains more than tensors, or is corrupt; it is not read because it could run code"


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Return the state dict in a safetensors file, or in a torch file that holds tensors only."""
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"{path}: no such file. Pass the path of a safetensors file or of a state dict."
        )
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        with readable(path):
            return _state(load_file(path), path)
    check_floor("torch", str(path), "Or save model.state_dict() as safetensors.")
    check_archive(path)
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise FileFormatError(
            f"{path}: {REFUSAL}. Save model.state_dict() as safetensors instead."
        ) from error
    return _state(found, path)


@contextmanager
def tensors_only(name: str) -> Iterator[None]:
    """Turn a library's refusal to run code from a file of weights into an error of ours."""
    try:
        yield
    except Exception as error:  # torch raises an error of pickle, which is not imported here
        told = str(error).lower().replace("_", " ")
        if not isinstance(error, EOFError) and not any(mark in told for mark in UNSAFE):
            raise
        raise FileFormatError(f"{name}: {REFUSAL}. Use weights in safetensors instead.") from error


def load_weights(network: nn.Module, path: str | Path) -> None:
    """Load all weights of a file into a network, cast to the types of its parameters."""
    state = read_state(path)
    try:
        network.load_state_dict(state)
    except Exception as error:  # of torch, by what is in the file
        raise FileFormatError(
            f"{path}: not the weights of {type(network).__name__}: {one_line(error, 300)}"
        ) from error


def _state(found: Any, path: Path) -> dict[str, Tensor]:
    for key in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(map(_is_plain, found.values())):
        raise FileFormatError(f"{path}: not a state dict. Save model.state_dict() as safetensors.")
    state = {str(name): value for name, value in found.items()}
    for prefix in PREFIXES:
        if state and all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _is_plain(value: object) -> bool:
    """Return whether a value is a dense tensor with its own numbers."""
    return (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and not value.is_meta
        and not value.is_quantized
    )
