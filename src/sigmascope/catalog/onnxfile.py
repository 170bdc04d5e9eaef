"""Networks of ONNX files, `onnx:FILE`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.catalog.entry import Model
from sigmascope.catalog.floors import check_floor
from sigmascope.catalog.optional import optional
from sigmascope.catalog.transforms import IMAGENET, Transform, resize_and_crop
from sigmascope.errors import FileFormatError, InputError

SIDE = 224
LARGEST = 2**26  # values of an example input; 5 images of 2048 × 2048 have fewer


def of_onnx(rest: str, name: str, pretrained: bool) -> Model:
    """Return the network of an ONNX file; images are normalized with ImageNet's statistics."""
    if not Path(rest).is_file():
        raise InputError(f"{rest}: no such ONNX file. Pass the path of one, as onnx:FILE.")
    onnx, onnx2torch = optional("onnx"), optional("onnx2torch")
    check_floor("onnx", rest)
    proto = _read(onnx, rest)
    constants = {one.name for one in proto.graph.initializer}
    inputs = [one for one in proto.graph.input if one.name not in constants]
    examples = [_zeros(onnx, one, rest) for one in inputs]
    network = _converted(onnx2torch, proto, rest)
    if len(examples) == 1:
        return Model(name, network, rest, examples[0], _onnx_transform(examples[0]))
    names = [node.name for node in network.graph.nodes if node.op == "placeholder"]
    return Model(name, network, rest, dict(zip(names, examples, strict=True)))


def _incomplete(rest: str, error: Exception) -> FileFormatError:
    return FileFormatError(f"{rest}: not a complete ONNX file ({error}). Export it again.")


def _read(onnx: Any, rest: str) -> Any:
    try:
        proto = onnx.load(rest)
    except Exception as error:  # of protobuf, which is not imported here
        raise _incomplete(rest, error) from error
    if not proto.graph.node:  # an empty file is read as an empty network
        raise FileFormatError(f"{rest}: contains no network. Export it again.")
    return proto


def _converted(onnx2torch: Any, proto: Any, rest: str) -> Any:
    try:
        return onnx2torch.convert(proto)
    except Exception as error:  # of onnx2torch, and of onnx, which checks the file once more
        known = {one.domain for one in proto.opset_import} | {"", "ai.onnx"}
        unknown = sorted(
            {f"{one.domain}.{one.op_type}" for one in proto.graph.node if one.domain not in known}
        )
        if not unknown and not isinstance(error, NotImplementedError):
            raise _incomplete(rest, error) from error
        told = f"{', '.join(unknown)} are not operators of ONNX" if unknown else str(error)
        raise InputError(
            f"{rest}: onnx2torch cannot convert it ({told}). Export the network with another "
            "opset and operators of ONNX."
        ) from error


def _zeros(onnx: Any, declared: Any, rest: str) -> Tensor:
    """Return an input of the declared type; open lengths give one image, or one row of 8."""
    kind, what = declared.type.tensor_type, f"{rest}: its input {declared.name!r}"
    if not declared.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise InputError(
            f"{what} has no shape. Export it with one, such as (n, 3, 224, 224) with n open."
        )
    lengths = [dim.dim_value for dim in kind.shape.dim]
    usual = [1, *[8] * (len(lengths) - 1)] if lengths else []
    if len(lengths) == 4:
        usual = [1, SIDE, SIDE, 3] if lengths[3] == 3 else [1, 3, SIDE, SIDE]
    named = _type_name(onnx, kind.elem_type)
    dtype = getattr(torch, named, None)
    if not isinstance(dtype, torch.dtype):
        raise InputError(
            f"{what} has type {named}, which torch does not have. Export it with numbers."
        )
    shape = [length or guess for length, guess in zip(lengths, usual, strict=True)]
    if min(shape, default=1) < 1 or math.prod(shape) > LARGEST:
        raise FileFormatError(f"{what} has the shape {shape}, which no input has. Export it again.")
    return torch.zeros(shape, dtype=dtype)


def _type_name(onnx: Any, element: int) -> str:
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element).name) if element else "undefined"
    except (KeyError, ValueError, TypeError, AttributeError):  # a number that ONNX does not use
        return f"number {element}"


def _onnx_transform(example: Tensor) -> Transform | None:
    """Return the transform for an input (n, 3, h, w) or (n, h, w, 3); None for other inputs."""
    size = tuple(example.shape[1:])
    if example.ndim != 4 or not example.is_floating_point() or 3 not in (size[0], size[2]):
        return None
    if size[0] == 3:
        return Transform("images", resize_and_crop((size[1], size[2]), *IMAGENET), size)
    change = resize_and_crop((size[0], size[1]), *IMAGENET)
    return Transform("images", lambda images: change(images).permute(0, 2, 3, 1), size)
