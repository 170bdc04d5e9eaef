"""Weights inside pickles, read without running anything that a pickle names.

A pickle names functions and calls them, so reading one may run any program. This is the only place
of both distributions that reads pickles: its reader replaces every name it knows by a small
function of its own, refuses all others by name, and is only given files whose sha256 is pinned.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import FileFormatError

KINDS = {"f2": np.float16, "f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64}
SCRIPTED = "__torch__"


class _Kind:
    """Stands for a dtype of NumPy."""

    def __init__(self, text: str, *_: object) -> None:
        self.text, self.order = text, "<"

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]


class _Array:
    """Stands for an array of NumPy, until its numbers are there."""

    numbers: np.ndarray[Any, Any]

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _Kind) or kind.text not in KINDS or not isinstance(content, bytes):
            raise FileFormatError(
                f"an array of {getattr(kind, 'text', kind)!r:.40} is not numbers."
            )
        order: Any = ">" if kind.order == ">" else "<"
        flat = np.frombuffer(content, np.dtype(KINDS[kind.text]).newbyteorder(order))
        self.numbers = flat.reshape(shape, order="F" if by_columns else "C").copy()


def _empty_array(*_: object) -> _Array:
    return _Array()


class Record:
    """Stands for an object of a scripted module: its attributes by name."""

    def __setstate__(self, state: Any) -> None:
        self.entries = dict(state)


@dataclass(frozen=True)
class _FloatStorage:
    """Stands for the class of a storage of float32."""


def _strided(flat: Any, offset: int, shape: Any, strides: Any, *_: object) -> Tensor:
    """Return a tensor of a flat one: what torch calls `_rebuild_tensor_v2`."""
    if not isinstance(flat, Tensor):
        raise FileFormatError(f"a tensor needs numbers, got {type(flat).__name__}.")
    return torch.as_strided(flat, tuple(shape), tuple(strides), offset).clone()


def _flat(content: bytes) -> Tensor:
    """Return the numbers of a storage that torch wrote, read by its own safe reader."""
    storage: Any = torch.load(io.BytesIO(content), weights_only=True)
    numbers = storage._untyped_storage  # the public method warns that its class will go
    flat = torch.empty(0, dtype=storage.dtype)
    return flat.set_(numbers, 0, (numbers.nbytes() // flat.element_size(),), (1,))


ARRAYS: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray._reconstruct": _empty_array,
    "numpy._core.multiarray._reconstruct": _empty_array,
    "numpy.ndarray": _empty_array,
    "numpy.dtype": _Kind,
}
TENSORS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": _strided,
    "torch.storage._load_from_bytes": _flat,
}
SCRIPT: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": _strided,
    "torch.FloatStorage": _FloatStorage,
    "torch.jit._pickle.build_intlist": list,
}


class _Reader(pickle.Unpickler):
    """Knows some names, each by a function of this module, and refuses all others."""

    def __init__(
        self,
        stream: BinaryIO,
        names: Mapping[str, Callable[..., Any]],
        numbers: Callable[[str], Tensor] | None = None,
    ) -> None:
        super().__init__(stream)
        self.names, self.numbers = names, numbers

    def find_class(self, module: str, name: str) -> Any:
        """Return our function for a name."""
        full = f"{module}.{name}"
        if full in self.names:
            return self.names[full]
        if self.numbers and full.startswith(f"{SCRIPTED}."):
            return Record
        raise FileFormatError(
            f"a pickle of weights names {full}, which is refused: it may run any program. Known "
            f"names are {', '.join(self.names)}."
        )

    def persistent_load(self, key: Any) -> Tensor:
        """Return the numbers that lie beside the pickle."""
        if self.numbers is None or not isinstance(key, tuple) or key[1:2] != (_FloatStorage,):
            raise FileFormatError(f"a pickle of weights refers to {key!r:.80}, which is refused.")
        return self.numbers(str(key[2]))


def _read(stream: BinaryIO, *known: Any) -> Any:
    try:
        return _Reader(stream, *known).load()
    except FileFormatError:
        raise
    except Exception as error:  # of whatever a damaged pickle does to the reader
        raise FileFormatError(
            f"a pickle of weights cannot be read: {error}. Fetch it again."
        ) from error


def arrays_in(stream: BinaryIO) -> Any:
    """Return the nested dictionaries of arrays in a pickle.

    Raises:
        FileFormatError: it names anything else, or is damaged.
    """

    def numbers(found: Any) -> Any:
        if isinstance(found, dict):
            return {key: numbers(value) for key, value in found.items()}
        return found.numbers if isinstance(found, _Array) else found

    return numbers(_read(stream, ARRAYS))


def tensors_in(stream: BinaryIO) -> dict[str, Tensor]:
    """Return a state dict that was pickled without torch.save.

    Raises:
        FileFormatError: it names anything else, or is damaged.
    """
    return dict(_read(stream, TENSORS))


def script_tensors(path: Path) -> dict[str, Tensor]:
    """Return the parameters of a scripted module by their paths; its code is not looked at.

    Raises:
        FileFormatError: the file names anything but tensors and its own modules, or is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        (place,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        root = place.removesuffix("/data.pkl")

        def numbers(key: str) -> Tensor:
            return torch.frombuffer(
                bytearray(archive.read(f"{root}/data/{key}")), dtype=torch.float
            )

        module = _read(io.BytesIO(archive.read(place)), SCRIPT, numbers)
    return dict(_tensors_of(module, ""))


def _tensors_of(found: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in a record by their paths."""
    if isinstance(found, Tensor):
        yield path, found
    if isinstance(found, Record):
        for name, value in found.entries.items():
            yield from _tensors_of(value, f"{path}.{name}" if path else str(name))
