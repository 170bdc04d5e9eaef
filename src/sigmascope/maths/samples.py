"""Samples: float64 matrices whose rows are observations, checked once."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError

Array: TypeAlias = np.ndarray[Any, Any] | Tensor
Number: TypeAlias = float | Tensor

# Beyond this a squared distance between two rows may not fit into a float64.
LARGEST_VALUE = 1e140
SMALLEST_UNIT = 1e-140
# A sample whose spread, relative to its largest value, is below this varies only by rounding.
ROUNDING = 4 * torch.finfo(torch.float64).eps


def as_matrix(values: Array, name: str, *, rows: int = 2) -> Tensor:
    """Return `values` as a float64 tensor of shape (n, d), on its device and with its gradient.

    Args:
        values: NumPy array or torch tensor (n, d) of any floating type, contiguous or not.
        name: the argument's name, for error messages.
        rows: the smallest valid number of rows.
    """
    tensor = _as_tensor(values, name)
    _check_shape(tensor, name, rows)
    tensor = tensor.to(torch.float64)
    largest = float(tensor.detach().abs().max())
    if not math.isfinite(largest):
        raise InputError(f"{name} {_first_bad(tensor)}. Drop those rows, or repair them.")
    if largest > LARGEST_VALUE:
        raise InputError(
            f"{name} reaches {largest:.1e}: its squares overflow float64. Divide {name} by a scale."
        )
    return tensor


def as_pair(x: Array, y: Array) -> tuple[Tensor, Tensor]:
    """Return both samples as float64 matrices of one width on one device; see `as_matrix`."""
    check_alike(x, y)
    return as_matrix(x, "x"), as_matrix(y, "y")


def as_rows(values: Array) -> Tensor:
    """Return checked samples as a detached tensor of float32, or of float64 where they are."""
    tensor = _as_tensor(values, "values").detach()
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def check_alike(x: Array, y: Array, *, rows: int = 2) -> None:
    """Raise unless kind, dtype, device and shape of a pair fit; nothing is read from a device."""
    arrays = all(isinstance(one, (Tensor, np.ndarray)) for one in (x, y))
    if arrays and isinstance(x, Tensor) != isinstance(y, Tensor):
        raise InputTypeError(
            "x and y are of different kinds, one NumPy and one torch. Pass both as arrays or "
            "both as tensors."
        )
    for values, name in ((x, "x"), (y, "y")):
        _check_kind(values, name)
        _check_shape(values, name, rows)
    if isinstance(x, Tensor) and x.device != y.device:
        raise InputTypeError(f"x is on {x.device} and y on {y.device}. Move one with .to(...).")
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"x has {x.shape[1]} columns and y {y.shape[1]}: the score needs equal widths. Pass "
            "rows as samples and the same channels as columns."
        )


def check_eps(eps: float) -> float:
    """Return `eps` as a float; raise unless it is a finite number >= 0."""
    if isinstance(eps, bool) or not isinstance(eps, (int, float, np.floating, np.integer)):
        raise InputTypeError(f"eps must be a number >= 0 such as 1e-6, got {eps!r:.80}.")
    if not 0 <= eps <= LARGEST_VALUE:  # false for NaN too
        raise InputError(f"eps must be a number >= 0 such as 1e-6, got {eps!r:.40}.")
    return float(eps)


def like_input(value: Tensor, sample: Array) -> Number:
    """Return a 0-d tensor for torch samples, a Python float for NumPy samples."""
    return value if isinstance(sample, Tensor) else plain(value)


def plain(value: Number) -> float:
    """Return a number, or a 0-d tensor with or without gradient, as a Python float."""
    return float(value.detach()) if isinstance(value, Tensor) else float(value)


def standardize(sample: Tensor) -> tuple[Tensor, Tensor]:
    """Return a sample (..., n, d), centered and in units of its own spread, and the unit (...).

    Its root mean square is then between 0.7 and 1.5. The unit is a power of two, so that nothing is
    rounded, and a constant under differentiation. A sample that varies by no more than the rounding
    of its mean becomes exactly zero.
    """
    centered = sample - sample.mean(dim=-2, keepdim=True)
    # the first mean of a far-off sample is rounded
    centered = centered - centered.mean(dim=-2, keepdim=True)
    with torch.no_grad():
        largest = torch.linalg.vector_norm(sample, math.inf, dim=(-2, -1))
        count = sample.shape[-2] * sample.shape[-1]
        spread = torch.linalg.vector_norm(centered, dim=(-2, -1)) / math.sqrt(count)
        constant = spread <= (ROUNDING * largest).clamp_min(SMALLEST_UNIT)
        unit = spread.log2().round().exp2().masked_fill(constant, 1)
        factor = unit.reciprocal().masked_fill(constant, 0)
    return centered * factor[..., None, None], unit


def square_root(value: Tensor) -> Tensor:
    """Return the root; its gradient at 0 is 0, not infinite, since a distance of 0 is a minimum."""
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1).sqrt(), 0)


def _as_tensor(values: Array, name: str) -> Tensor:
    _check_kind(values, name)
    if isinstance(values, Tensor):
        return values
    # A copy is native, contiguous and writable, whatever the byte order, strides or precision.
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.array(values, dtype=np.float64, order="C", copy=True))


def _check_kind(values: object, name: str) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise InputTypeError(
            f"{name} is a masked array. Drop the masked rows first: np.ma.compress_rows({name})."
        )
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "f":
            raise InputTypeError(_dtype_message(name, str(values.dtype), f"{name}.astype(float)"))
        return
    if not isinstance(values, Tensor):
        remedies = (
            f"{name}.{method}()" for method in ("to_numpy", "toarray") if hasattr(values, method)
        )
        remedy = next(remedies, f"np.asarray({name}, dtype=float)")
        raise InputTypeError(
            f"{name} is a {type(values).__name__}. Pass a NumPy array or a torch tensor of "
            f"shape (n, d), e.g. {remedy}."
        )
    if values.is_nested:
        raise InputTypeError(
            f"{name} is a nested tensor. Pass one matrix (n, d), e.g. torch.cat({name}.unbind())."
        )
    if values.layout != torch.strided:
        raise InputTypeError(f"{name} is a sparse tensor. Call {name}.to_dense() first.")
    if values.device.type == "meta":
        raise InputTypeError(f"{name} is on the meta device, without numbers. Pass real data.")
    if values.device.type == "mps":
        raise InputTypeError(f"{name} is on MPS, which has no float64. Call {name}.cpu() first.")
    if not values.dtype.is_floating_point:
        dtype = str(values.dtype).removeprefix("torch.")
        raise InputTypeError(_dtype_message(name, dtype, f"{name}.double()"))


def _check_shape(values: Array, name: str, rows: int) -> None:
    if values.ndim != 2:
        raise InputError(_shape_message(values, name))
    n, d = values.shape
    if d == 0:
        raise InputError(f"{name} has shape ({n}, 0). Pass at least one column.")
    if n < rows:
        raise InputError(
            f"{name} has {n} row{'s' * (n != 1)}; at least {rows} samples are needed. Rows "
            "are samples: transpose (d, n) data."
        )


def _dtype_message(name: str, dtype: str, remedy: str) -> str:
    if dtype.startswith("complex"):
        return f"{name} is {dtype}. Pass its real part, its modulus, or both parts as columns."
    return f"{name} has dtype {dtype}, not a floating type. Convert measurements with {remedy}."


def _shape_message(values: Array, name: str) -> str:
    shape = tuple(values.shape)
    remedy = {
        0: "Pass a matrix (n, d); one number has no distribution.",
        1: f"Pass {name}[:, None] if these are n samples of one channel.",
    }.get(
        values.ndim,
        f"Average the other axes first, e.g. {name}.mean((2, 3)) for (n, channels, height, width).",
    )
    return (
        f"{name} has shape {shape}, and a matrix (n, d) is needed: rows are samples, columns "
        f"channels. {remedy}"
    )


def _first_bad(tensor: Tensor) -> str:
    row, column = (int(index) for index in torch.nonzero(~torch.isfinite(tensor))[0])
    count = int((~torch.isfinite(tensor)).sum())
    kind = "NaN" if bool(torch.isnan(tensor[row, column])) else "an infinite value"
    return f"contains {kind} at row {row}, column {column} ({count} such value{'s' * (count != 1)})"
