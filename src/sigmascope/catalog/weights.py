"""Weights from files, read without running code that may be in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.errors import FileFormatError, InputError

__all__ = ["load_weights", "read_state", "refused"]

# Keys under which training scripts put the weights, and what wrappers put in front of their names.
NESTED = ("state_dict", "model_state_dict", "model", "net", "weights")
PREFIXES = ("module.", "_orig_mod.")
# What libraries say of files that hold code.
HOSTILE = ("weights only", "trust remote code")
REFUSAL = "holds more than tensors, or is damaged, and is not read because it could run code"


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict from a safetensors file, or from a file of torch that holds tensors only.

    Raises:
        InputError: no such file.
        FileFormatError: neither, or a file that would have to run code.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"{path}: no such file of weights. Pass the path of a safetensors file or of a "
            "state dict."
        )
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return _state(load_file(path), path)
        except SafetensorError as error:
            raise FileFormatError(
                f"{path}: not a complete safetensors file ({error}). Fetch or write it again."
            ) from error
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise FileFormatError(
            f"{path}: {REFUSAL}. Save model.state_dict() as safetensors instead."
        ) from error
    return _state(found, path)


@contextmanager
def refused(name: str) -> Iterator[None]:
    """Let a library read weights, and say so when they would have to run code.

    Raises:
        FileFormatError: they would, or the file is damaged.
    """
    try:
        yield
    except Exception as error:  # torch's own is of pickle, which is not imported here
        told = str(error).lower().replace("_", " ")
        if not isinstance(error, EOFError) and not any(mark in told for mark in HOSTILE):
            raise
        raise FileFormatError(f"{name}: {REFUSAL}. Take weights in safetensors instead.") from error


def _state(found: Any, path: Path) -> dict[str, Tensor]:
    for key in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(
        isinstance(value, Tensor) for value in found.values()
    ):
        raise FileFormatError(f"{path}: no state dict. Save model.state_dict() as safetensors.")
    state = {str(name): value for name, value in found.items()}
    for prefix in PREFIXES:
        if state and all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def load_weights(network: nn.Module, path: str | Path) -> None:
    """Put the weights of a file into a network, all of them; half types are raised to those of the
    network.

    Raises:
        InputError: no such file.
        FileFormatError: see `read_state`, or other names or shapes than the network has.
    """
    try:
        network.load_state_dict(read_state(path))
    except RuntimeError as error:
        told = " ".join(str(error).split())
        raise FileFormatError(
            f"{path}: these are not the weights of {type(network).__name__}: {told:.300}"
        ) from error
