"""Monomial matrices: one non-zero entry per row and column, kept as a permutation and scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_whole
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array

Values: TypeAlias = Array | Sequence[float]


@dataclass(frozen=True, eq=False, repr=False)
class Monomial:
    r"""The matrix $A = P\,\mathrm{diag}(d)$: scale, then permute, $(Ax)_i = d_{p(i)}\,x_{p(i)}$.

    Only `matrix` forms the matrix. Arguments are copied.

    Args:
        permutation: (n,) whole numbers, each of 0 … n - 1 once: `permutation[i]` is the coordinate
            that moves to place i.
        scales: (n,) finite numbers, none of them zero: `scales[j]` multiplies coordinate j before
            it moves.

    Raises:
        InputError: not a permutation, a scale that is zero or not finite, or unequal lengths.
        InputTypeError: not vectors of numbers.

    >>> element = Monomial([1, 0], [2.0, 3.0])
    >>> element
    Monomial(permutation=[1, 0], scales=[2, 3])
    >>> element.matrix()
    tensor([[0., 3.],
            [2., 0.]], dtype=torch.float64)
    >>> element @ element.inverse()
    Monomial(permutation=[0, 1], scales=[1, 1])
    """

    permutation: Tensor
    scales: Tensor

    def __post_init__(self) -> None:
        order = as_vector(self.permutation, "permutation")
        scales = as_vector(self.scales, "scales").to(torch.float64)
        if order.is_floating_point() or order.dtype == torch.bool:
            raise InputTypeError(
                f"permutation has {order.dtype}. Pass whole numbers, such as torch.randperm(n)."
            )
        order = order.long()
        if not torch.equal(order.sort().values, torch.arange(len(order))):
            raise InputError(
                f"permutation has {len(order)} entries but not each of 0 … {len(order) - 1} once."
            )
        if len(scales) != len(order):
            raise InputError(
                f"permutation has {len(order)} entries and scales {len(scales)}. "
                "Pass equal numbers."
            )
        bad = (~scales.isfinite() | (scales == 0)).nonzero()
        if len(bad):
            place = int(bad[0])
            value = float(scales[place])
            raise InputError(f"scales[{place}] is {value:g}. Pass finite numbers ≠ 0.")
        object.__setattr__(self, "permutation", order)
        object.__setattr__(self, "scales", scales)

    @classmethod
    def identity(cls, n: int) -> Monomial:
        """Return the identity on n channels."""
        return cls(torch.arange(n), torch.ones(n, dtype=torch.float64))

    def __len__(self) -> int:
        return len(self.permutation)

    def __repr__(self) -> str:
        scales = (f"{float(scale):.4g}" for scale in self.scales[:8])
        order = (str(int(place)) for place in self.permutation[:8])
        more = f", … {len(self)}" if len(self) > 8 else ""
        return (
            f"Monomial(permutation=[{', '.join(order)}{more}], scales=[{', '.join(scales)}{more}])"
        )

    @property
    def is_permutation(self) -> bool:
        """Whether every scale is 1."""
        return bool((self.scales == 1).all())

    def matrix(self) -> Tensor:
        """Return the matrix, (n, n), float64."""
        matrix = torch.zeros(len(self), len(self), dtype=torch.float64)
        matrix[torch.arange(len(self)), self.permutation] = self.scales[self.permutation]
        return matrix

    def inverse(self) -> Monomial:
        """Return the inverse; raise `InputError` if the inverse of a scale overflows."""
        return Monomial(self.permutation.argsort(), 1 / self.scales[self.permutation])

    def transpose(self) -> Monomial:
        """Return the transpose: W A is the transpose of A acting on the columns of W."""
        return Monomial(self.permutation.argsort(), self.scales[self.permutation])

    def compose(self, other: Monomial) -> Monomial:
        """Return the product `self @ other`, which applies `other` first."""
        if len(other) != len(self):
            raise InputError(
                f"elements act on {len(self)} and {len(other)} channels. Pass equal sizes."
            )
        scales = self.scales[other.permutation.argsort()] * other.scales
        return Monomial(other.permutation[self.permutation], scales)

    def __matmul__(self, other: Monomial) -> Monomial:
        return self.compose(other) if isinstance(other, Monomial) else NotImplemented

    def spread(self, copies: int) -> Monomial:
        """Return A ⊗ I: the action on channels of `copies` positions, flattened channel first.

        >>> Monomial([1, 0], [2.0, 3.0]).spread(2)
        Monomial(permutation=[2, 3, 0, 1], scales=[2, 2, 3, 3])
        """
        places = self.permutation[:, None] * check_whole("copies", copies, 1)
        places = places + torch.arange(copies)
        return Monomial(places.flatten(), self.scales.repeat_interleave(copies))

    def apply(self, x: Tensor, axis: int = 0) -> Tensor:
        """Return a new tensor: the element acting on one axis of x.

        Args:
            x: (…, n, …), floating.
            axis: the axis of the n channels; 0 for columns `A x`, -1 for rows `x Aᵀ`.

        Raises:
            InputError: the axis has another length.
            InputTypeError: x is not a floating tensor.
        """
        if not isinstance(x, Tensor) or not x.is_floating_point():
            kind = getattr(x, "dtype", type(x).__name__)
            raise InputTypeError(f"x is {kind}. Pass a floating tensor.")
        if not -x.ndim <= axis < x.ndim or x.shape[axis] != len(self):
            raise InputError(
                f"axis {axis} of x must hold {len(self)} channels, got shape {tuple(x.shape)}."
            )
        shape = [1] * x.ndim
        shape[axis] = len(self)
        factors = self.scales[self.permutation].to(x.device, x.dtype).reshape(shape)
        return x.index_select(axis, self.permutation.to(x.device)) * factors


def as_vector(values: Values, name: str) -> Tensor:
    """Return a copy of a vector (n,) of real numbers, on the CPU."""
    try:
        # NumPy reads Python floats in full precision, torch in float32.
        vector = torch.as_tensor(values if isinstance(values, Tensor) else np.asarray(values))
        vector = vector.detach().to("cpu", copy=True)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise InputTypeError(f"{name} is {values!r:.80}. Pass a vector of numbers.") from problem
    if vector.ndim != 1 or not len(vector) or vector.is_complex():
        raise InputError(
            f"{name} has shape {tuple(vector.shape)}. Pass a real vector (n,) with n ≥ 1."
        )
    return vector
