"""Features of hidden layers as they come: samples first, one axis of channels, positions in any
others.
"""

from __future__ import annotations

import math
import warnings
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array
from sigmascope.symmetry.scalars import is_whole

__all__ = [
    "Channels",
    "Positions",
    "as_features",
    "cells_summed",
    "check_paired",
    "kernel_dtype",
    "ratios",
    "two_axes",
]

Positions: TypeAlias = tuple[int, ...]
Channels: TypeAlias = int | tuple[int | None, int | None] | None

DTYPES = {"float64": torch.float64, "float32": torch.float32}


def as_features(values: Array, name: str, channel_axis: int | None = None) -> Tensor:
    """Return features as a tensor (n, c, ...) with at least one axis of positions; a view wherever
    possible.

    Args:
        values: NumPy array or torch tensor of any floating type: (n, c), (n, l, d) for tokens, (n,
            c, h, w) for maps.
        name: what the caller calls it, for the messages.
        channel_axis: where the channels are; by default last with three axes (tokens), otherwise
            axis 1.

    Raises:
        InputTypeError: not an array, or not real floating point, or not a dense tensor with data.
        InputError: fewer than two axes, nothing in it, or an axis that cannot be that of the
            channels.

    >>> as_features(np.zeros((5, 7, 3)), "x").shape
    torch.Size([5, 3, 7])
    """
    tensor = _as_tensor(values, name)
    if tensor.ndim < 2 or tensor.numel() == 0:
        raise InputError(
            f"{name} has shape {tuple(tensor.shape)}. Pass (n, c), (n, c, h, w), or tokens "
            "(n, l, d), not empty."
        )
    axis = (2 if tensor.ndim == 3 else 1) if channel_axis is None else channel_axis
    if not is_whole(axis) or not -tensor.ndim < axis < tensor.ndim or axis == 0:
        raise InputError(
            f"channel_axis={axis!r} does not fit {name} of shape {tuple(tensor.shape)}: axis "
            "0 holds the samples. "
            f"Pass an axis from 1 to {tensor.ndim - 1}."
        )
    moved = tensor.movedim(int(axis), 1)
    return moved[..., None] if moved.ndim == 2 else moved


def _as_tensor(values: Array, name: str) -> Tensor:
    if (
        isinstance(values, np.ndarray)
        and not isinstance(values, np.ma.MaskedArray)
        and values.dtype.kind == "f"
    ):
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        native = native.astype(np.float64) if native.dtype.itemsize > 8 else native
        with warnings.catch_warnings():  # about arrays that must not be written to, as we do not
            warnings.simplefilter("ignore", UserWarning)
            return torch.from_numpy(
                np.ascontiguousarray(native) if min(native.strides, default=0) < 0 else native
            )
    if (
        isinstance(values, Tensor)
        and values.layout == torch.strided
        and not values.is_nested
        and not values.is_meta
    ):
        if values.dtype.is_floating_point:
            return values.detach()
        raise InputTypeError(
            f"{name} has dtype {str(values.dtype).removeprefix('torch.')}. Pass real "
            "floating-point features."
        )
    what = (
        f"an array of {values.dtype}"
        if isinstance(values, np.ndarray)
        else f"a {type(values).__name__}"
    )
    raise InputTypeError(
        f"{name} is {what}. Pass a NumPy array or a dense torch tensor of a real floating type."
    )


def two_axes(channel_axis: Channels) -> tuple[int | None, int | None]:
    """Return the axes of the channels of x and of y, from one for both or a pair."""
    if isinstance(channel_axis, tuple) and len(channel_axis) != 2:
        raise InputError(
            f"channel_axis={channel_axis!r} is neither an axis nor a pair, one for x and one for y."
        )
    return channel_axis if isinstance(channel_axis, tuple) else (channel_axis, channel_axis)


def check_paired(x: Tensor, y: Tensor) -> None:
    """Check that two sets of features belong to the same samples on one device.

    Raises:
        InputError: the numbers of samples differ.
        InputTypeError: they lie on different devices.
    """
    if len(x) != len(y):
        raise InputError(
            f"x has {len(x)} samples and y {len(y)}. Row n of both must come from the same input."
        )
    if x.device != y.device:
        raise InputTypeError(f"x is on {x.device} and y on {y.device}. Move one with .to(...).")


def kernel_dtype(dtype: str) -> torch.dtype:
    """Return the type that products are computed in."""
    check_choice("dtype", dtype, DTYPES)
    return DTYPES[dtype]


def ratios(x: Positions, y: Positions) -> tuple[Positions, Positions]:
    """Return by how much x, and y, is finer than the other along each axis of positions.

    Raises:
        InputError: a ratio that is not whole, or x finer along one axis and y along another.

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
            "the other times whole numbers. "
            "Pool one of them first, or use CKA, which needs no common size."
        )
    return finer_x, finer_y


def cells_summed(features: Tensor, factors: Positions) -> Tensor:
    """Sum features (n, c, ...) over cells of positions, so that they meet a coarser map that stands
    for a finer one.
    """
    if math.prod(factors) == 1:
        return features
    features = features.reshape(*features.shape, *(1,) * (2 + len(factors) - features.ndim))
    for axis, factor in enumerate(factors, start=2):
        parts = [slice(None)] * features.ndim
        summed: Tensor | None = None
        for offset in range(factor) if factor > 1 else ():
            parts[axis] = slice(offset, None, factor)
            # Slices, not a sum over a new axis: long runs of memory are added.
            summed = (
                features[tuple(parts)].clone()
                if summed is None
                else summed.add_(features[tuple(parts)])
            )
        features = features if summed is None else summed
    return features
