"""How far GELU is from positively homogeneous."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_choice, check_whole
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.randomness import Seed, as_generator
from sigmascope.maths.samples import Array
from sigmascope.symmetry.matrices import like
from sigmascope.symmetry.monomial import as_vector

Scale = TypeVar("Scale", float, Tensor, np.ndarray[Any, Any])
NODES = 64
SATURATED = 8.5  # 1 - Φ beyond this is below the rounding of 1
FAR = 14.0  # the normal density beyond this is below 1e-42


def gelu_xi(
    lam: Scale, method: str = "quadrature", *, samples: int | Array = 100_000, seed: Seed = None
) -> Scale:
    r"""Return ξ(λ), how far GELU is from commuting with the scale λ.

    $\xi(\lambda) = \sqrt{\mathrm{E}\,|\mathrm{GELU}(\lambda X)-\lambda\,\mathrm{GELU}(X)|^2} =
    \lambda\sqrt{\mathrm{E}[X^2(\Phi(\lambda X)-\Phi(X))^2]}$ for a standard normal X. It is zero
    at λ = 1 only, and grows like `gelu_asymptotic_slope` · λ
    (Godfrey et al., NeurIPS 2022, arXiv:2205.14258).

    Args:
        lam: λ > 0: a number, or an array or tensor of any shape; the result is of the same kind.
        method: "quadrature", exact to rounding, or "monte-carlo", one sample for all λ.
        samples: for Monte Carlo, how many standard normal numbers, or the numbers themselves.
        seed: for Monte Carlo, a whole number or a torch.Generator; torch's own by default.

    >>> print(f"{gelu_xi(2.0):.7f}")
    0.1766985
    """
    check_choice("method", method, ["quadrature", "monte-carlo"])
    scales = _positive(lam)
    if method == "quadrature":
        flat = _quadrature(scales.flatten())
    else:
        flat = _monte_carlo(scales.flatten(), _normal_numbers(samples, seed))
    values: Any = flat.reshape(scales.shape)
    values = like(values, lam) if isinstance(lam, (Tensor, np.ndarray)) else float(values)
    return values  # type: ignore[no-any-return]


def gelu_asymptotic_slope() -> float:
    r"""Return $\lim \xi(\lambda)/\lambda = \sqrt{\mathrm{E}[X^2(1_{X\ge0}-\Phi(X))^2]}$.

    Stein's lemma gives the expectation in closed form,
    $\frac1{12}-\frac1{2\pi}\bigl(1-\frac1{\sqrt3}\bigr)$.

    >>> print(f"{gelu_asymptotic_slope():.10f}")
    0.1267538539
    """
    return math.sqrt(1 / 12 - (1 - 1 / math.sqrt(3)) / (2 * math.pi))


def _quadrature(scales: Tensor) -> Tensor:
    """Integrate over the half line for scales (m,), on both sides of where Φ(λx) has become 1."""
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(NODES))
    middle = SATURATED / scales.clamp_min(1)
    total = torch.zeros_like(scales)
    for left, right in ((torch.zeros_like(middle), middle), (middle, torch.full_like(middle, FAR))):
        half = (right - left)[:, None] / 2
        x = left[:, None] + half * (nodes + 1)
        density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
        squares = (x * _difference(scales[:, None], x)).square()
        total += (half * weights * density * squares).sum(dim=1)
    return scales * (2 * total).sqrt()


def _monte_carlo(scales: Tensor, x: Tensor) -> Tensor:
    roots = [scale * (x * _difference(scale, x)).square().mean().sqrt() for scale in scales]
    return torch.stack(roots)


def _difference(scale: Tensor, x: Tensor) -> Tensor:
    """Return Φ(λ|x|) - Φ(|x|) by the upper tails, which are accurate where Φ is nearly 1."""
    distance = x.abs() / math.sqrt(2)
    return (torch.erfc(distance) - torch.erfc(scale * distance)) / 2


def _positive(lam: float | Array) -> Tensor:
    if isinstance(lam, bool) or not isinstance(lam, (int, float, np.number, np.ndarray, Tensor)):
        raise InputTypeError(f"lam must be a number, an array or a tensor, got {lam!r:.80}.")
    scales = torch.as_tensor(lam, dtype=torch.float64).detach().cpu()
    if not bool((scales.isfinite() & (scales > 0)).all()):
        raise InputError("lam must be finite and > 0.")
    return scales


def _normal_numbers(samples: int | Array, seed: Seed) -> Tensor:
    if isinstance(samples, (Tensor, np.ndarray)):
        return as_vector(samples, "samples").to(torch.float64)
    count = check_whole("samples", samples, 1)
    return torch.randn(count, generator=as_generator(seed), dtype=torch.float64)
