"""Arrays in files of other frameworks: initializers of ONNX, shards of tfjs, layers of Keras."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import FileFormatError, MissingExtraError

FLOAT = 1  # the number of float32 in ONNX
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5  # the wire types of protobuf


@dataclass(frozen=True)
class Graph:
    """What is needed of an ONNX file: its float32 initializers, and the inputs of its nodes."""

    tensors: dict[str, Tensor]
    inputs: dict[str, list[str]]  # by the name of the node


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number of variable length at a place, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise FileFormatError("the ONNX file ends inside a number. Fetch it again.")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise FileFormatError("the ONNX file has a number of more than 64 bits. Fetch it again.")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the fields of a message: their numbers, and whole numbers or bytes."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind, size = key & 7, {EIGHT: 8, FOUR: 4}.get(key & 7, 0)
        if kind == VARINT:
            value, at = _number(data, at)
            yield key >> 3, value
            continue
        if kind == LENGTH:
            size, at = _number(data, at)
        elif kind not in (EIGHT, FOUR):
            raise FileFormatError(f"the ONNX file has a field of kind {kind}. Fetch it again.")
        if at + size > len(data):
            raise FileFormatError("the ONNX file ends inside a field. Fetch it again.")
        yield key >> 3, data[at : at + size]
        at += size


def _bytes(data: memoryview, field: int) -> list[memoryview]:
    return [value for key, value in _fields(data) if key == field and not isinstance(value, int)]


def _text(data: memoryview, field: int) -> str:
    return "".join(bytes(part).decode() for part in _bytes(data, field))


def _initializer(data: memoryview) -> tuple[str, Tensor | None]:
    """Return the name and the numbers of a tensor; None if they are not float32 in raw bytes."""
    fields = list(_fields(data))
    name, raw = _text(data, 8), _bytes(data, 9)
    shape = [value for key, value in fields if key == 1 and isinstance(value, int)]
    if (2, FLOAT) not in fields or not raw:
        return name, None
    if len(raw[0]) != 4 * math.prod(shape):
        raise FileFormatError(f"{name} has {len(raw[0])} bytes for the shape {shape}.")
    return name, torch.from_numpy(np.frombuffer(raw[0], "<f4").copy()).reshape(shape)


def onnx_graph(path: Path) -> Graph:
    """Return the weights of an ONNX file; nothing of it is run.

    Raises:
        FileFormatError: it is not one, or damaged.
    """
    graphs = _bytes(memoryview(path.read_bytes()), 7)
    if len(graphs) != 1:
        raise FileFormatError(f"{path.name}: expected one graph, got {len(graphs)}.")
    found = dict(_initializer(one) for one in _bytes(graphs[0], 5))
    inputs = {
        _text(node, 3): [bytes(name).decode() for name in _bytes(node, 1)]
        for node in _bytes(graphs[0], 1)
    }
    return Graph({name: one for name, one in found.items() if one is not None}, inputs)


def tfjs_arrays(path: Path) -> dict[str, Tensor]:
    """Return the arrays of a tfjs model by name, from its `model.json` and the shards beside it.

    Raises:
        FileFormatError: a shard is missing, or too short or long, or arrays are not float32.
    """
    found: dict[str, Tensor] = {}
    for group in json.loads(path.read_text(encoding="utf-8"))["weightsManifest"]:
        shards = [path.with_name(Path(name).name) for name in group["paths"]]
        missing = [shard.name for shard in shards if not shard.is_file()]
        if missing:
            raise FileFormatError(f"expected {', '.join(missing)} beside {path.name}.")
        data, at = b"".join(shard.read_bytes() for shard in shards), 0
        for row in group["weights"]:
            if row["dtype"] != "float32" or "quantization" in row:
                raise FileFormatError(f"{row['name']} is {row['dtype']}, not plain float32.")
            count = math.prod(row["shape"])
            if at + 4 * count > len(data):
                raise FileFormatError(f"the shards of {path.name} end before {row['name']}.")
            numbers = np.frombuffer(data, "<f4", count, at).reshape(row["shape"])
            found[row["name"]] = torch.from_numpy(numbers.copy())
            at += 4 * count
        if at != len(data):
            raise FileFormatError(f"the shards of {path.name} have {len(data) - at} bytes more.")
    return found


def keras_arrays(path: Path) -> dict[str, Tensor]:
    """Return the arrays of a Keras file by their paths in it.

    Raises:
        MissingExtraError: h5py is not installed.
    """
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError as error:
        raise MissingExtraError(
            "h5py is not installed, which reads the weights of Keras: pip install h5py."
        ) from error
    found: dict[str, Tensor] = {}

    def visit(name: str, one: object) -> None:
        if isinstance(one, h5py.Dataset):
            found[name] = torch.from_numpy(np.asarray(one[()], np.float32))

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return found
