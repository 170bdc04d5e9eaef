"""Which scalars a group admits on the diagonal, and what φ makes of them: the two tables that
describe a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real

import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError

__all__ = [
    "ABSOLUTE",
    "SAME",
    "SCALARS",
    "Generator",
    "ScalarMap",
    "Scalars",
    "as_generator",
    "is_real",
    "is_whole",
    "raised",
    "sample_scales",
]

Generator = torch.Generator | int | None


@dataclass(frozen=True)
class Scalars:
    """A group of scalars λ.

    Args:
        name: its name in the table.
        text: how it is written.
        admits: tensor of scalars and a tolerance -> tensor of bool.
        sample: (n, generator, log_std) -> (n,) float64.
    """

    name: str
    text: str
    admits: Callable[[Tensor, float], Tensor] = field(repr=False, compare=False)
    sample: Callable[[int, torch.Generator | None, float], Tensor] = field(
        repr=False, compare=False
    )

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ScalarMap:
    """The map λ -> |λ|ᵏ, with the sign of λ or without: what φ makes of a scale. It keeps zeros.

    Args:
        exponent: k.
        signed: whether the sign is kept.
    """

    exponent: int = 1
    signed: bool = True

    def __call__(self, scales: Tensor) -> Tensor:
        """Map scales (n,), or a monomial matrix entry by entry."""
        size = scales.abs() ** self.exponent
        return size * scales.sign() if self.signed else size

    def __str__(self) -> str:
        base = "A" if self.signed == bool(self.exponent % 2) else "|A|"
        return base if self.exponent == 1 else f"{base}^⊙{self.exponent}"


SAME = ScalarMap()
ABSOLUTE = ScalarMap(signed=False)


def raised(degree: int) -> ScalarMap:
    """Return the map λ -> λᵏ.

    >>> str(raised(2)), raised(3)(torch.tensor([-2.0]))
    ('A^⊙2', tensor([-8.]))
    """
    return ScalarMap(degree, signed=degree % 2 == 1)


def sample_scales(n: int, generator: torch.Generator | None, log_std: float) -> Tensor:
    """Draw positive scales exp(s z - s²/2), z standard normal: their mean is exactly 1, whatever s."""
    if not (math.isfinite(log_std) and log_std >= 0):
        raise InputError(f"log_std={log_std!r} is no standard deviation. Pass a number ≥ 0.")
    z = torch.randn(n, generator=generator, dtype=torch.float64)
    return torch.exp(log_std * z - log_std**2 / 2)


def is_whole(value: object) -> bool:
    """Tell whether something is a whole number, of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """Tell whether something is a real number, of Python or NumPy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def as_generator(generator: Generator) -> torch.Generator | None:
    """Return the generator, or a new one from a seed; None stands for torch's own.

    Raises:
        InputTypeError: neither.
    """
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    if not is_whole(generator):
        raise InputTypeError(
            f"generator={generator!r:.80} is none. Pass a torch.Generator or a seed."
        )
    return torch.Generator().manual_seed(int(generator))


def _sample_ones(n: int, _generator: torch.Generator | None, _log_std: float) -> Tensor:
    return torch.ones(n, dtype=torch.float64)


def _sample_signs(n: int, generator: torch.Generator | None, _log_std: float) -> Tensor:
    return 2.0 * torch.randint(2, (n,), generator=generator, dtype=torch.float64) - 1


def _sample_nonzero(n: int, generator: torch.Generator | None, log_std: float) -> Tensor:
    return sample_scales(n, generator, log_std) * _sample_signs(n, generator, log_std)


SCALARS = {
    one.name: one
    for one in (
        Scalars("one", "d = 1", lambda d, tol: (d - 1).abs() <= tol, _sample_ones),
        Scalars("signs", "d = ±1", lambda d, tol: (d.abs() - 1).abs() <= tol, _sample_signs),
        Scalars("positive", "d > 0", lambda d, _tol: d > 0, sample_scales),
        Scalars("nonzero", "d ≠ 0", lambda d, _tol: d != 0, _sample_nonzero),
        Scalars("linear", "all of GL_n", lambda d, _tol: d != 0, _sample_nonzero),
    )
}
"""Name -> the scalars; "linear" is the identity's, whose elements need not be monomial at all."""
