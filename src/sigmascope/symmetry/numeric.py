"""The group of an arbitrary activation, by numbers: is a matrix in it, which scales does it admit,
is φ determined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array
from sigmascope.symmetry.matrices import as_square, check_size, is_invertible
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.scalars import Generator, as_generator

__all__ = [
    "InferredScalars",
    "infer_scalars",
    "is_intertwiner",
    "numeric_phi",
    "sigma_identity_invertible",
]

Sigma = Callable[[Tensor], Tensor]
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
SCALES = (0.1, 1.0, 3.0, 10.0)
LAMBDAS = (0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0, 1.5, 2.0, math.e, 7.0)


def sigma_identity_invertible(sigma: Sigma, n: int, tol: float = 1e-12) -> bool:
    r"""Tell whether $\sigma(I_n)$, σ of every entry of the identity, is invertible: then φ is unique.

    Its eigenvalues are $\sigma(1)-\sigma(0)$, n - 1 times, and $\sigma(1)+(n-1)\,\sigma(0)$.

    Args:
        sigma: σ, coordinatewise.
        n: number of channels.
        tol: an eigenvalue counts as zero up to so many times $|\sigma(1)|+(n-1)\,|\sigma(0)|$ (the
            first: $|\sigma(1)|+|\sigma(0)|$), what it would be without cancellation.

    >>> sigma_identity_invertible(torch.relu, 64), sigma_identity_invertible(torch.ones_like, 64)
    (True, False)
    """
    zero, one = _call(sigma, torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist()
    others = check_size(n) - 1
    single = abs(one + others * zero) > tol * (abs(one) + others * abs(zero))
    return single and (others == 0 or abs(one - zero) > tol * (abs(one) + abs(zero)))


def numeric_phi(A: Monomial | Array, sigma: Sigma) -> Tensor:
    r"""Return $\sigma(A)\,\sigma(I_n)^{-1}$, which is φ(A) if A is in the group of σ.

    With $a=\sigma(1)-\sigma(0)$ the inverse is
    $\frac1a\bigl(I-\frac{\sigma(0)}{a+n\sigma(0)}\,11^T\bigr)$.

    Args:
        A: (n, n); float32 is kept, everything else becomes float64.
        sigma: σ, coordinatewise.

    Raises:
        InputError: σ(I) has no inverse.
    """
    matrix = _in_own_precision(A)
    n = len(matrix)
    if not sigma_identity_invertible(sigma, n):
        raise InputError(
            f"σ(I) has no inverse for n = {n}, so that φ is not determined by it. Rescale "
            "the argument: x -> σ(c x) has the "
            "same group for every c ≠ 0."
        )
    zero, one = _call(sigma, torch.tensor([0.0, 1.0], dtype=matrix.dtype))
    difference = one - zero
    image = _call(sigma, matrix)
    phi: Tensor = (
        image - image.sum(dim=1, keepdim=True) * (zero / (difference + n * zero))
    ) / difference
    return phi


def is_intertwiner(
    A: Monomial | Array,
    sigma: Sigma,
    *,
    n_points: int = 256,
    scales: Sequence[float] = SCALES,
    rtol: float | None = None,
    generator: Generator = 0,
) -> bool:
    r"""Tell whether $\sigma(Ax)=B\,\sigma(x)$ on random points, with $B=\sigma(A)\,\sigma(I)^{-1}$
    and A, B invertible.

    The points have both signs and several scales: with one sign ReLU accepts too much, and with one
    scale whatever looks homogeneous there. Every coordinate is measured against its own largest
    value.

    Args:
        A: (n, n); the computation is in float32 if A is.
        sigma: σ, coordinatewise.
        n_points: points of each scale.
        scales: standard deviations of the points.
        rtol: largest error relative to the largest |σ(Ax)|; by default 1e-9, in float32 1e-4.
        generator: a torch.Generator or a seed.

    Raises:
        InputError: A is not a square matrix, σ(I) has no inverse, or σ is not finite at the points.
        InputTypeError: σ does not return a tensor of the shape it is given.

    >>> is_intertwiner(torch.tensor([[0.0, 2.0], [3.0, 0.0]]), torch.relu)
    True
    >>> is_intertwiner(torch.tensor([[0.0, 2.0], [3.0, 1.0]]), torch.relu)
    False
    """
    matrix = _in_own_precision(A)
    limit = TOLERANCES[matrix.dtype] if rtol is None else rtol
    image = numeric_phi(matrix, sigma)
    if not (is_invertible(matrix, limit) and is_invertible(image, limit)):
        return False
    shape = (check_size(n_points), len(matrix))
    source = as_generator(generator)
    points = torch.cat(
        [scale * torch.randn(shape, generator=source, dtype=torch.float64) for scale in scales]
    )
    x = points.to(matrix.device, matrix.dtype).T
    target = _call(sigma, matrix @ x)
    return _agree(target, image @ _call(sigma, x), limit)


@dataclass(frozen=True)
class InferredScalars:
    """Which of the scales tried an activation admits.

    Args:
        kind: "one", "signs", "positive" or "nonzero" as in `sigmascope.symmetry.scalars.SCALARS`;
            "linear" for a multiple of the identity, whose group is all of GL_n; "other" for none of
            these.
        admitted: the scales λ that passed.
        images: their φ(λ).
    """

    kind: str
    admitted: tuple[float, ...]
    images: tuple[float, ...]


def infer_scalars(
    sigma: Sigma, *, lambdas: Sequence[float] = LAMBDAS, rtol: float = 1e-9
) -> InferredScalars:
    r"""Find the admissible scales of an activation: λ for which $\sigma(\lambda x)/\sigma(x)$ is
    the same for all x.

    One channel is enough, since every element of the group of an activation that is not linear is a
    permutation with scales. Points of both signs from 0.001 to 32 and zero are tried; what σ does
    only beyond them is not seen.

    Args:
        sigma: σ, coordinatewise, for float64 tensors.
        lambdas: positive scales, tried with both signs; 1 and at least one other.
        rtol: largest deviation relative to the largest |σ(λx)|.

    Raises:
        InputError: σ is constant, or not finite at the points; or lambdas will not do.
        InputTypeError: σ does not return a tensor of the shape it is given.

    >>> infer_scalars(torch.tanh)
    InferredScalars(kind='signs', admitted=(-1.0, 1.0), images=(-1.0, 1.0))
    """
    if (
        not all(value > 0 and math.isfinite(value) for value in lambdas)
        or 1.0 not in lambdas
        or len({*lambdas}) < 2
    ):
        raise InputError(
            f"lambdas={lambdas!r:.80}: pass positive numbers, 1 and others; each is tried "
            "with both signs."
        )
    half = torch.logspace(-3, math.log10(32), 181, dtype=torch.float64)
    x = torch.cat([-half.flip(0), torch.zeros(1, dtype=torch.float64), half])
    values = _call(sigma, x)
    if bool((values == values[0]).all()):
        raise InputError(
            "σ is constant where it was tried, and a constant function has no group. Pass an "
            "activation."
        )
    tried = sorted({sign * value for value in lambdas for sign in (-1.0, 1.0)})
    found = {
        scale: image
        for scale in tried
        if (image := _ratio(_call(sigma, scale * x), values, rtol)) is not None
    }
    linear = _ratio(values, x, rtol) is not None
    return InferredScalars(
        "linear" if linear else _kind(tried, set(found)), tuple(found), tuple(found.values())
    )


def _kind(tried: list[float], admitted: set[float]) -> str:
    patterns = {
        "one": {1.0},
        "signs": {-1.0, 1.0},
        "positive": {scale for scale in tried if scale > 0},
        "nonzero": {*tried},
    }
    return next((kind for kind, pattern in patterns.items() if pattern == admitted), "other")


def _ratio(values: Tensor, base: Tensor, rtol: float) -> float | None:
    """Return the number by which base must be multiplied to give the values, or None."""
    peak = int(base.abs().argmax())
    ratio = float(values[peak] / base[peak])
    return ratio if ratio != 0 and _agree(values[None], ratio * base[None], rtol) else None


def _agree(target: Tensor, reached: Tensor, rtol: float) -> bool:
    """Compare (n, m) values row by row."""
    error, size = (target - reached).abs().amax(dim=1), target.abs().amax(dim=1)
    return bool((error <= rtol * size).all())


def _in_own_precision(A: Monomial | Array) -> Tensor:
    matrix = as_square(A)
    return (
        matrix.float() if str(getattr(A, "dtype", "")) in ("torch.float32", "float32") else matrix
    )


def _call(sigma: Sigma, x: Tensor) -> Tensor:
    y: Any = sigma(x.clone())  # σ may work in place
    if not isinstance(y, Tensor) or y.shape != x.shape:
        kind = f"the shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        raise InputTypeError(
            f"σ makes {kind} of a tensor {tuple(x.shape)}. Pass a function that acts on "
            "every entry."
        )
    bad = (~y.isfinite()).nonzero()
    if len(bad):
        place = tuple(bad[0])
        raise InputError(
            f"σ({float(x[place]):g}) is {float(y[place]):g}. Pass an activation that is "
            "finite there."
        )
    return y
