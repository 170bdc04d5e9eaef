"""Reading GGUF files: their metadata, and tensors in float32, F16, Q8_0 and Q4_1.

A GGUF file (version 2 or 3, little-endian) is: the magic `GGUF`, the version, the number of tensors
and of metadata entries; the entries; for each tensor its name, shape (fastest axis first), type and
offset; then, aligned, the data. Quantized tensors are stored in blocks of 32 values with a scale d
and, in Q4_1, a minimum m, both in float16: a value is d · q, or d · q + m with q of 4 bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import FileFormatError

MAGIC, VERSIONS = b"GGUF", (2, 3)
BLOCK = 32  # values that share a scale
ALIGNMENT = 32  # bytes, unless the metadata says otherwise
LARGEST = 2**31  # entries of a list or bytes of a text: more is a corrupt file
STRING, ARRAY = 8, 9
# number of a metadata type -> its form for `struct`
NUMBERS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}


def _plain(raw: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    return raw.view(dtype).astype(np.float32)


def _q8_0(raw: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    blocks = raw.reshape(-1, 2 + BLOCK)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return scale * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q4_1(raw: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    blocks = raw.reshape(-1, 4 + BLOCK // 2)
    scale, least = blocks[:, :4].copy().view("<f2").astype(np.float32).T[..., None]
    packed = blocks[:, 4:]
    # the low halves of the bytes are the first 16 values, the high halves the last 16
    quantized = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    found: np.ndarray[Any, Any] = scale * quantized + least
    return found


@dataclass(frozen=True)
class Format:
    """How a type of tensor is stored: values per block, bytes per block, and how to read them."""

    values: int
    size: int
    read: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


FORMATS = {
    0: Format(1, 4, lambda raw: _plain(raw, "<f4")),
    1: Format(1, 2, lambda raw: _plain(raw, "<f2")),
    3: Format(BLOCK, 4 + BLOCK // 2, _q4_1),
    8: Format(BLOCK, 2 + BLOCK, _q8_0),
}


class Gguf:
    """A GGUF file.

    Attributes:
        metadata: the entries.

    Raises:
        FileFormatError: not a GGUF file, cut off, or of a version that is not known.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data = np.memmap(path, np.uint8, mode="r")
        self._at = 0
        magic = bytes(self._data[:4])
        if magic != MAGIC:
            raise FileFormatError(f"{path} is not a GGUF file: it begins with {magic!r}.")
        self._at = 4
        version = self._number("I")
        if version not in VERSIONS:
            raise FileFormatError(f"{path} has GGUF version {version}; {VERSIONS} can be read.")
        tensors, entries = self._number("Q"), self._number("Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            name = self._text()
            self.metadata[name] = self._value(self._number("I"))
        self._places = dict(self._place() for _ in range(tensors))
        alignment = int(self.metadata.get("general.alignment", ALIGNMENT))
        self._start = math.ceil(self._at / alignment) * alignment

    def names(self) -> list[str]:
        """Return the names of the tensors."""
        return list(self._places)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor in float32, of the shape that torch uses: the slowest axis first.

        Raises:
            FileFormatError: no such tensor, of a type that is not read here, or cut off.
        """
        if name not in self._places:
            raise FileFormatError(f"{self._path} has no tensor {name!r}.")
        shape, kind, offset = self._places[name]
        if kind not in FORMATS:
            raise FileFormatError(
                f"{self._path}: the tensor {name!r} is of GGUF type {kind}; only "
                f"{', '.join(map(str, FORMATS))} can be read (F32, F16, Q4_1, Q8_0)."
            )
        stored, count = FORMATS[kind], math.prod(shape)
        size = count // stored.values * stored.size
        raw = self._data[self._start + offset : self._start + offset + size]
        if len(raw) != size or count % stored.values:
            raise FileFormatError(f"{self._path}: the tensor {name!r} is cut off.")
        return torch.from_numpy(stored.read(np.array(raw)).reshape(shape))

    def _take(self, count: int) -> bytes:
        found = bytes(self._data[self._at : self._at + count])
        if len(found) != count:
            raise FileFormatError(f"{self._path} is cut off at byte {len(self._data)}.")
        self._at += count
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))[0]

    def _text(self) -> str:
        return self._take(self._limited(self._number("Q"))).decode("utf-8")

    def _limited(self, count: int) -> int:
        if count > LARGEST:
            raise FileFormatError(f"{self._path} is corrupt: a text or list of length {count}.")
        return count

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._text()
        if kind == ARRAY:
            of, count = self._number("I"), self._limited(self._number("Q"))
            return [self._value(of) for _ in range(count)]
        if kind not in NUMBERS:
            raise FileFormatError(f"{self._path} is corrupt: metadata of type {kind}.")
        return self._number(NUMBERS[kind])

    def _place(self) -> tuple[str, tuple[tuple[int, ...], int, int]]:
        name, axes = self._text(), self._number("I")
        shape = tuple(self._number("Q") for _ in range(axes))[::-1]
        return name, (shape, self._number("I"), self._number("Q"))
