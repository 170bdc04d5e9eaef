"""Samples: float64 matrices whose rows are observations, checked once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError

Array: TypeAlias = np.ndarray[Any, Any] | Tensor
Number: TypeAlias = float | Tensor

# Beyond this a squared distance between two rows may not fit into a float64.
LARGEST_VALUE = 1e140
# Below this the squares of a sample may underflow.
SMALLEST_RANGE = 1e-100
# The range of a column that is constant to rounding, in units of the rounding of its largest value:
# results in half types are rounded once, after sums in float32, others at every step.
STEPS, HALF_STEPS = 6, 2
SINGLE, SINGLE_BYTES = torch.finfo(torch.float32).eps, torch.float32.itemsize
ROUNDING = STEPS * torch.finfo(torch.float64).eps


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
    """Return a copy of checked samples in float32, or in float64 where they are."""
    if isinstance(values, np.ndarray) and values.dtype.itemsize <= SINGLE_BYTES:
        return torch.from_numpy(np.array(values, dtype=np.float32, order="C", copy=True))
    if not isinstance(values, Tensor):
        return _as_tensor(values, "values")
    kept = values.dtype if values.dtype == torch.float64 else torch.float32
    return values.detach().to(kept, copy=True)


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


def check_eps(eps: float | None) -> float | None:
    """Return `eps` as a float, or None; raise unless it is None or a finite number >= 0."""
    if eps is None:
        return None
    if isinstance(eps, bool) or not isinstance(eps, (int, float, np.floating, np.integer)):
        raise InputTypeError(f"eps must be None or a number >= 0 such as 1e-6, got {eps!r:.80}.")
    if not 0 <= eps <= LARGEST_VALUE:  # false for NaN too
        raise InputError(f"eps must be None or a number >= 0 such as 1e-6, got {eps!r:.40}.")
    return float(eps)


def rounding_of(dtype: torch.dtype | np.dtype[Any], averaged: int = 1) -> float:
    """Return the range of a column that is constant to rounding, relative to its largest value.

    Args:
        dtype: a floating type.
        averaged: how many values of that type each entry is the mean of, taken in float32 at least.

    >>> rounding_of(torch.bfloat16), rounding_of(torch.bfloat16, averaged=16)
    (0.015625, 0.00390625)
    """
    step = float((torch if isinstance(dtype, torch.dtype) else np).finfo(dtype).eps)
    if step > SINGLE:
        return max(HALF_STEPS * step / math.sqrt(averaged), STEPS * SINGLE)
    return max(STEPS * step, ROUNDING)


def like_input(value: Tensor, sample: Array) -> Number:
    """Return a 0-d tensor for torch samples, a Python float for NumPy samples."""
    return value if isinstance(sample, Tensor) else plain(value)


def plain(value: Number) -> float:
    """Return a number, or a 0-d tensor with or without gradient, as a Python float."""
    return float(value.detach()) if isinstance(value, Tensor) else float(value)


class Limits(NamedTuple):
    """The smallest and the largest value of every column, each (..., 1, d)."""

    low: Tensor
    high: Tensor

    def largest(self) -> Tensor:
        """Return the largest absolute value of every column."""
        return torch.maximum(-self.low, self.high)

    def constant(self, rounding: float | Tensor) -> Tensor:
        """Return which columns are constant to the rounding of their own largest value."""
        return self.high - self.low <= rounding * self.largest()


def limits_of(sample: Tensor) -> Limits:
    """Return the limits of the columns of (..., n, d), without gradient."""
    values = sample.detach()
    return Limits(values.amin(dim=-2, keepdim=True), values.amax(dim=-2, keepdim=True))


def center(sample: Tensor, limits: Limits) -> Tensor:
    """Return a sample (..., n, d) less its mean; a column of equal values becomes exactly 0."""
    # The mean of equal values is rounded, and so is the first mean of a far-off sample.
    first = sample.detach().mean(dim=-2, keepdim=True)
    shifted = sample - torch.clamp(first, limits.low, limits.high)
    return shifted - shifted.mean(dim=-2, keepdim=True)


def standardize(sample: Tensor, rounding: float = ROUNDING) -> tuple[Tensor, Tensor]:
    """Return a sample (n, d), centered and in units of its own spread, and the unit.

    Its root mean square is then between 0.7 and 1.5. The unit is a power of two, so that nothing is
    rounded, and a constant under differentiation. Columns that are constant to `rounding`, see
    `rounding_of`, become exactly zero, without losing their gradient. A constant sample has unit 1.
    """
    limits = limits_of(sample)
    centered, constant = center(sample, limits), limits.constant(rounding)
    if bool(constant.any()):
        centered = centered - centered.detach().masked_fill(~constant, 0)
    largest, lift = float((limits.high - limits.low).masked_fill(constant, 0).max()), 1.0
    if 0 < largest < SMALLEST_RANGE:
        lift = 2.0 ** min(-math.frexp(largest)[1], 1000)
        centered = centered * lift
    with torch.no_grad():
        spread = torch.linalg.vector_norm(centered) / math.sqrt(centered.numel())
        factor = spread.log2().round().neg().exp2() if largest else torch.ones_like(spread)
    return centered * factor, 1 / factor / lift


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
