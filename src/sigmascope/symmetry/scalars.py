"""The scales that a group admits and the maps φ of one scale: the two tables behind a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sigmascope.checks import check_number

Sampler = Callable[[int, torch.Generator | None, float], Tensor]


@dataclass(frozen=True)
class Scalars:
    """A group of scalars λ: its name, its formula, a test with a tolerance, and a sampler."""

    name: str
    text: str
    admits: Callable[[Tensor, float], Tensor] = field(repr=False, compare=False)
    sample: Sampler = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ScalarMap:
    """The map λ -> |λ|ᵏ, with or without the sign of λ: φ of one scale. It keeps zeros."""

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
    """Return random scales exp(s z - s²/2) with z standard normal, whose mean is 1 for every s."""
    check_number("log_std", log_std)
    z = torch.randn(n, generator=generator, dtype=torch.float64)
    return torch.exp(log_std * z - log_std**2 / 2)


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
"""Name -> the scalars; "linear" is that of the identity, whose elements need not be monomial."""
