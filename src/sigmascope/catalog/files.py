"""Networks of files: `onnx:FILE` and `py:FILE:FUNCTION`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.catalog.entry import Model
from sigmascope.catalog.optional import optional
from sigmascope.catalog.transforms import IMAGENET, Transform, resize_and_crop
from sigmascope.errors import FileFormatError, InputError, InputTypeError

__all__ = ["of_onnx", "of_python"]

SIDE = 224


def of_onnx(rest: str, name: str, pretrained: bool) -> Model:
    """Read an ONNX file; images are prepared with the statistics of ImageNet, since the file does not name its own."""
    if not Path(rest).is_file():
        raise InputError(f"{rest}: no such ONNX file.")
    onnx, onnx2torch = optional("onnx"), optional("onnx2torch")
    try:
        proto = onnx.load(rest)
        network: Any = onnx2torch.convert(proto)
    except NotImplementedError as error:
        raise InputError(f"{rest}: onnx2torch cannot convert it ({error}). Export the network with another opset.") from error
    except Exception as error:  # of protobuf, which is not imported here
        raise FileFormatError(f"{rest}: not a complete ONNX file ({error}). Export it again.") from error
    constants = {one.name for one in proto.graph.initializer}
    examples = [_zeros(onnx, one.type.tensor_type) for one in proto.graph.input if one.name not in constants]
    if len(examples) == 1:
        return Model(name, network, rest, examples[0], _onnx_transform(examples[0]))
    names = [node.name for node in network.graph.nodes if node.op == "placeholder"]
    return Model(name, network, rest, dict(zip(names, examples, strict=True)))


def _zeros(onnx: Any, kind: Any) -> Tensor:
    """Make an input of the declared type; where the shape is left open, one image of 3 × 224 × 224 or one row of 8."""
    declared = [dim.dim_value for dim in kind.shape.dim]
    usual = [1] + [8] * (len(declared) - 1)
    if len(declared) == 4:
        usual = [1, SIDE, SIDE, 3] if declared[3] == 3 else [1, 3, SIDE, SIDE]
    dtype = getattr(torch, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name)
    return torch.zeros([length or guess for length, guess in zip(declared, usual, strict=True)], dtype=dtype)


def _onnx_transform(example: Tensor) -> Transform | None:
    """Prepare images for an input (n, 3, h, w) or (n, h, w, 3); other inputs are none."""
    if example.ndim != 4 or not example.is_floating_point() or 3 not in (example.shape[1], example.shape[3]):
        return None
    if example.shape[1] == 3:
        return Transform("images", resize_and_crop((example.shape[2], example.shape[3]), *IMAGENET))
    change = resize_and_crop((example.shape[1], example.shape[2]), *IMAGENET)
    return Transform("images", lambda images: change(images).permute(0, 2, 3, 1))


def of_python(rest: str, name: str, pretrained: bool) -> Model:
    """Call a function of a Python file, whose code is run.

    The file may also define `inputs`, an example of what the network takes (otherwise an image of 32 × 32), `transform`, from
    images of 0 to 255 to such inputs, and `accuracy` in percent.
    """
    path, mark, factory = rest.rpartition(":")
    if not mark or not Path(path).is_file():
        raise InputError(f"{name!r} names no Python file and function: write py:FILE:FUNCTION.")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: not a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = getattr(module, factory, None)
    network = build() if callable(build) else None
    if not isinstance(network, nn.Module):
        raise InputTypeError(f"{path}: {factory} is no function that returns an nn.Module.")
    inputs = getattr(module, "inputs", torch.zeros(1, 3, 32, 32))
    change: Callable[[Any], Any] | None = getattr(module, "transform", None)
    transform = change if change is None or isinstance(change, Transform) else Transform("images", change)
    return Model(name, network, "as the function returns it", inputs, transform, getattr(module, "accuracy", None))
