"""Features of hidden layers: samples first, one axis of channels, positions along the others."""

from __future__ import annotations

import math
import warnings
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array

Positions: TypeAlias = tuple[int, ...]
Axes: TypeAlias = int | tuple[int | None, int | None] | None


def as_features(values: Array, name: str, channel_axis: int | None = None) -> Tensor:
    """Return features as (n, c, ...) with at least one axis of positions; a view if possible.

    Args:
        values: NumPy array or torch tensor of any floating type: (n, c), (n, l, d) for tokens, or
            (n, c, h, w) for maps.
        name: the argument's name, for error messages.
        channel_axis: the axis of the channels; by default the last of three axes (tokens),
            otherwise axis 1.

    >>> as_features(np.zeros((5, 7, 3)), "x").shape
    torch.Size([5, 3, 7])
    """
    tensor = _as_tensor(values, name)
    shape = tuple(tensor.shape)
    if tensor.ndim < 2 or tensor.numel() == 0:
        raise InputError(
            f"{name} has shape {shape}. Pass (n, c), (n, c, h, w) or tokens (n, l, d), not empty."
        )
    axis = (2 if tensor.ndim == 3 else 1) if channel_axis is None else channel_axis
    whole = hasattr(axis, "__index__") and not isinstance(axis, bool)
    if not whole or not -tensor.ndim < axis < tensor.ndim or axis == 0:
        raise InputError(
            f"channel_axis={axis!r} does not fit {name} of shape {shape}: axis 0 holds the "
            f"samples. Pass an axis from 1 to {tensor.ndim - 1}."
        )
    moved = tensor.movedim(int(axis), 1)
    return moved[..., None] if moved.ndim == 2 else moved


def _as_tensor(values: Array, name: str) -> Tensor:
    what = f"a {type(values).__name__}"
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f" and not isinstance(values, np.ma.MaskedArray):
            return _from_numpy(values)
        what = f"an array of {values.dtype}"
    elif isinstance(values, Tensor):
        dense = values.layout == torch.strided and not values.is_nested and not values.is_meta
        if dense and values.dtype.is_floating_point:
            return values.detach()
        if dense:
            what = f"a tensor of {str(values.dtype).removeprefix('torch.')}"
    raise InputTypeError(
        f"{name} is {what}. Pass a NumPy array or a dense torch tensor of a real floating type."
    )


def _from_numpy(values: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that shares memory with an array of floats wherever torch can."""
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    native = native.astype(np.float64) if native.dtype.itemsize > 8 else native
    if min(native.strides, default=0) < 0:
        native = np.ascontiguousarray(native)
    with warnings.catch_warnings():  # about read-only arrays; nothing here writes to them
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(native)


def two_axes(channel_axis: Axes) -> tuple[int | None, int | None]:
    """Return the axes of the channels of x and of y, from one for both or a pair."""
    if isinstance(channel_axis, tuple) and len(channel_axis) != 2:
        raise InputError(
            f"channel_axis={channel_axis!r} is neither an axis nor a pair, one for x and one for y."
        )
    return channel_axis if isinstance(channel_axis, tuple) else (channel_axis, channel_axis)


def check_paired(x: Tensor, y: Tensor) -> None:
    """Raise unless two sets of features have the same number of samples and one device."""
    if len(x) != len(y):
        raise InputError(
            f"x has {len(x)} samples and y {len(y)}. Row n of both must come from the same input."
        )
    if x.device != y.device:
        raise InputTypeError(f"x is on {x.device} and y on {y.device}. Move one with .to(...).")


def ratios(x: Positions, y: Positions) -> tuple[Positions, Positions]:
    """Return by how much x, and y, is finer than the other along each axis of positions.

    >>> ratios((8, 8), (4, 4))
    ((2, 2), (1, 1))
    """
    length = max(len(x), len(y))
    x, y = (side + (1,) * (length - len(side)) for side in (x, y))
    finer_x = tuple(max(a // b, 1) for a, b in zip(x, y, strict=True))
    finer_y = tuple(max(b // a, 1) for a, b in zip(x, y, strict=True))
    whole = all(a * fy == b * fx for a, b, fx, fy in zip(x, y, finer_x, finer_y, strict=True))
    if not whole or (math.prod(finer_x) > 1 and math.prod(finer_y) > 1):
        raise InputError(
            f"positions {' × '.join(map(str, x))} and {' × '.join(map(str, y))}: one must be "
            "a whole multiple of the other. Pool one of them first, or use CKA, which needs no "
            "common size."
        )
    return finer_x, finer_y


def cells_summed(features: Tensor, factors: Positions) -> Tensor:
    """Return features (n, c, ...) summed over cells of `factors` positions."""
    if math.prod(factors) == 1:
        return features
    features = features.reshape(*features.shape, *(1,) * (2 + len(factors) - features.ndim))
    for axis, factor in enumerate(factors, start=2):
        parts = [slice(None)] * features.ndim
        summed: Tensor | None = None
        for offset in range(factor) if factor > 1 else ():
            parts[axis] = slice(offset, None, factor)
            # Slices, not a sum over a new axis: long runs of memory are added.
            part = features[tuple(parts)]
            summed = part.clone() if summed is None else summed.add_(part)
        features = features if summed is None else summed
    return features


def squared_norms(features: Tensor) -> Tensor:
    """Return the squared norms (c,) of the channels of features (n, c, ...), in float64."""
    norms: Tensor = torch.linalg.vector_norm(features.flatten(2), dim=2)
    return norms.double().square().sum(dim=0)
