"""Whether two networks compute the same function, measured."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.nested import tensors_in
from sigmascope.checks import with_old_names
from sigmascope.errors import InputError
from sigmascope.maths.precision import allows_tf32
from sigmascope.measure.copies import copy_of
from sigmascope.symmetry.wiring.trace import run
from sigmascope.tables import Preformatted

TOLERANCES, COARSEST = {torch.float64: 1e-9, torch.float32: 1e-4}, 1e-2


@dataclass(frozen=True)
class Equivalence(Preformatted):
    """How much the outputs of two networks differ on some inputs.

    Attributes:
        relative_error: the largest difference, divided by the largest output of the first network;
            NaN if one is not finite.
        absolute_error: the largest difference.
        scale: the largest absolute output of the first network.
        tolerance: the relative error that rounding explains, by the dtype of the outputs, and on a
            GPU by whether TF32 is allowed.

    >>> import torch
    >>> from sigmascope import symmetry
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> moved = symmetry.move(network, seed=0)
    >>> found = symmetry.check_equivalence(network, moved, torch.randn(64, 2))
    >>> found.holds, found.relative_error < found.tolerance
    (True, True)
    """

    relative_error: float
    absolute_error: float
    scale: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the two agree up to rounding."""
        return self.relative_error <= self.tolerance

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the attributes by name, for a logger; names begin with `prefix`."""
        return {f"{prefix}{name}": value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        verdict = "the same function" if self.holds else "not the same function"
        error = f"relative error {self.relative_error:.2e}, tolerance {self.tolerance:.0e}"
        return f"{verdict}: {error}, outputs up to {self.scale:.3g}"


@with_old_names(f="a", g="b")
def check_equivalence(a: nn.Module, b: nn.Module, x: Any) -> Equivalence:
    """Return how much the outputs of two networks differ, in evaluation mode.

    The tolerance is 1e-9 for float64, 1e-4 for float32 and 1e-2 for anything coarser, such as
    float32 on a GPU where TF32 is allowed: torch.backends.cudnn.allow_tf32 = False is stricter.

    Args:
        a: a network.
        b: another one.
        x: their input, a tensor, a tuple of arguments or a mapping of them.

    Raises:
        InputError: the outputs have different shapes, or are empty.

    >>> network = nn.Softmax(dim=1)
    >>> print(check_equivalence(network, network, torch.zeros(4, 2)))
    the same function: relative error 0.00e+00, tolerance 1e-04, outputs up to 0.5
    """
    first, second = _outputs(a, x), _outputs(b, x)
    shapes = [[tuple(tensor.shape) for tensor in outputs] for outputs in (first, second)]
    if shapes[0] != shapes[1] or not first:
        raise InputError(
            f"the networks return tensors of shapes {shapes[0]} and {shapes[1]}. Pass networks "
            "with outputs of equal shapes."
        )
    pairs = zip(first, second, strict=True)
    difference = _largest([one.double() - other.double() for one, other in pairs])
    scale = _largest(first)
    relative = difference / scale if scale else (0.0 if difference == 0 else math.inf)
    tolerance = max(_tolerance(tensor.dtype, tensor.device.type) for tensor in (*first, *second))
    return Equivalence(relative if math.isfinite(scale) else math.nan, difference, scale, tolerance)


def _tolerance(dtype: torch.dtype, device: str) -> float:
    if dtype == torch.float32 and device == "cuda" and allows_tf32():
        return COARSEST
    return TOLERANCES.get(dtype, COARSEST)


def _outputs(model: nn.Module, x: Any) -> list[Tensor]:
    network = unwrapped(model)
    with preserve_state(network, mode="eval"):
        return [tensor for tensor in tensors_in(run(network, copy_of(x))) if tensor.numel()]


def _largest(tensors: list[Tensor]) -> float:
    """Return the largest absolute value; NaN wins."""
    return float(torch.stack([tensor.double().abs().max().cpu() for tensor in tensors]).max())
