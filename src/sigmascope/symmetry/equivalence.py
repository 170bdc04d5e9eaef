"""Whether two networks compute the same function, measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.nested import tensors_in
from sigmascope.errors import InputError
from sigmascope.symmetry.wiring.trace import run

__all__ = ["Equivalence", "check_equivalence"]

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
COARSEST = 1e-2


@dataclass(frozen=True)
class Equivalence:
    """How far two networks are apart on some inputs.

    Attributes:
        relative_error: the largest difference, divided by the largest output of the first network;
            NaN if one is not finite.
        absolute_error: the largest difference.
        scale: the largest output of the first network, in absolute value.
        tolerance: the relative error that rounding explains, by the dtype of the outputs.
    """

    relative_error: float
    absolute_error: float
    scale: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the two agree up to rounding."""
        return self.relative_error <= self.tolerance

    def __str__(self) -> str:
        verdict = "the same function" if self.holds else "not the same function"
        error, scale = f"{self.relative_error:.2e}", f"{self.scale:.3g}"
        return (
            f"{verdict}: relative error {error}, tolerance {self.tolerance:.0e}, outputs up to "
            f"{scale}"
        )


def check_equivalence(f: nn.Module, g: nn.Module, x: Any) -> Equivalence:
    """Run two networks in evaluation mode on the same inputs and compare what they put out.

    Args:
        f: a network.
        g: another one.
        x: a tensor, a tuple of arguments or a mapping of them.

    Raises:
        InputError: the outputs have different shapes, or there are none.

    >>> f = nn.Softmax(dim=1)
    >>> print(check_equivalence(f, f, torch.zeros(4, 2)))
    the same function: relative error 0.00e+00, tolerance 1e-04, outputs up to 0.5
    """
    first, second = _outputs(f, x), _outputs(g, x)
    shapes = [[tuple(tensor.shape) for tensor in outputs] for outputs in (first, second)]
    if shapes[0] != shapes[1] or not first:
        raise InputError(
            f"the networks put out tensors of shapes {shapes[0]} and {shapes[1]}. Pass two "
            "that can be compared."
        )
    difference = _largest([a.double() - b.double() for a, b in zip(first, second, strict=True)])
    scale = _largest(first)
    relative = difference / scale if scale else (0.0 if difference == 0 else math.inf)
    tolerance = max(TOLERANCES.get(tensor.dtype, COARSEST) for tensor in (*first, *second))
    return Equivalence(relative if math.isfinite(scale) else math.nan, difference, scale, tolerance)


def _outputs(model: nn.Module, x: Any) -> list[Tensor]:
    network = unwrapped(model)
    with preserve_state(network, mode="eval"):
        return [tensor for tensor in tensors_in(run(network, x)) if tensor.numel()]


def _largest(tensors: list[Tensor]) -> float:
    """Return the largest absolute value; NaN wins."""
    return float(torch.stack([tensor.double().abs().max().cpu() for tensor in tensors]).max())
