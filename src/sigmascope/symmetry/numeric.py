"""Numerical tests of the group of any activation: membership, scales, uniqueness of φ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.checks import check_whole, with_old_names
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.randomness import Seed, as_generator
from sigmascope.maths.samples import Array
from sigmascope.symmetry.matrices import as_square, is_invertible
from sigmascope.symmetry.monomial import Monomial

Sigma = Callable[[Tensor], Tensor]
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
SCALES = (0.1, 1.0, 3.0, 10.0)
LAMBDAS = (0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0, 1.5, 2.0, math.e, 7.0)


def sigma_identity_invertible(sigma: Sigma, n: int, tol: float = 1e-12) -> bool:
    r"""Return whether $\sigma(I_n)$, σ of every entry of the identity, is invertible: φ is unique.

    Its eigenvalues are $\sigma(1)-\sigma(0)$, n - 1 times, and $\sigma(1)+(n-1)\,\sigma(0)$.
    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        sigma: σ, elementwise.
        n: number of channels.
        tol: an eigenvalue counts as zero up to so many times $|\sigma(1)|+(n-1)\,|\sigma(0)|$ (the
            first: $|\sigma(1)|+|\sigma(0)|$), what it would be without cancellation.

    >>> sigma_identity_invertible(torch.relu, 64), sigma_identity_invertible(torch.ones_like, 64)
    (True, False)
    """
    zero, one = _call(sigma, torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist()
    others = check_whole("n", n, 1) - 1
    single = abs(one + others * zero) > tol * (abs(one) + others * abs(zero))
    return single and (others == 0 or abs(one - zero) > tol * (abs(one) + abs(zero)))


def numeric_phi(A: Monomial | Array, sigma: Sigma) -> Tensor:
    r"""Return $\sigma(A)\,\sigma(I_n)^{-1}$, which is φ(A) if A is in the group of σ.

    With $a=\sigma(1)-\sigma(0)$ the inverse is
    $\frac1a\bigl(I-\frac{\sigma(0)}{a+n\sigma(0)}\,11^T\bigr)$. Godfrey et al., NeurIPS 2022,
    arXiv:2205.14258. A stays float32, or becomes float64.
    """
    matrix = _in_own_precision(A)
    n = len(matrix)
    if not sigma_identity_invertible(sigma, n):
        raise InputError(
            f"σ(I) has no inverse for n = {n}, so φ is not unique. Rescale the argument: "
            "x -> σ(c x) has the same group for every c ≠ 0."
        )
    zero, one = _call(sigma, torch.tensor([0.0, 1.0], dtype=matrix.dtype))
    difference, image = one - zero, _call(sigma, matrix)
    sums = image.sum(dim=1, keepdim=True)
    phi: Tensor = (image - sums * (zero / (difference + n * zero))) / difference
    return phi


@with_old_names(generator="seed")
def is_intertwiner(
    A: Monomial | Array,
    sigma: Sigma,
    *,
    n_points: int = 256,
    scales: Sequence[float] = SCALES,
    rtol: float | None = None,
    seed: Seed = 0,
) -> bool:
    r"""Return whether $\sigma(Ax)=\varphi(A)\,\sigma(x)$ on random points, with invertible factors.

    $\varphi(A)=\sigma(A)\,\sigma(I)^{-1}$. The points have both signs and several scales: one sign
    would accept too much for ReLU, one scale whatever looks homogeneous there. Errors are relative
    to the largest value of each coordinate. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        A: (n, n); the computation is in float32 if A is.
        sigma: σ, elementwise.
        n_points: points of each scale.
        scales: standard deviations of the points.
        rtol: largest error relative to the largest |σ(Ax)|; by default 1e-9, in float32 1e-4.
        seed: a whole number or a torch.Generator.

    Raises:
        InputError: A is not a square matrix, σ(I) has no inverse, or σ is not finite at the points.
        InputTypeError: σ does not return a tensor of the shape it is given.

    >>> [is_intertwiner(torch.tensor([[0.0, 2.0], [3.0, a]]), torch.relu) for a in (0.0, 1.0)]
    [True, False]
    """
    matrix = _in_own_precision(A)
    limit = TOLERANCES[matrix.dtype] if rtol is None else rtol
    image = numeric_phi(matrix, sigma)
    if not (is_invertible(matrix, limit) and is_invertible(image, limit)):
        return False
    shape = (check_whole("n_points", n_points, 1), len(matrix))
    source = as_generator(seed)
    points = [scale * torch.randn(shape, generator=source, dtype=torch.float64) for scale in scales]
    x = torch.cat(points).to(matrix.device, matrix.dtype).T
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

    >>> import torch
    >>> from sigmascope import symmetry
    >>> symmetry.infer_scalars(torch.relu).kind, symmetry.infer_scalars(torch.sigmoid).kind
    ('positive', 'one')
    """

    kind: str
    admitted: tuple[float, ...]
    images: tuple[float, ...]


def infer_scalars(
    sigma: Sigma, *, lambdas: Sequence[float] = LAMBDAS, rtol: float = 1e-9
) -> InferredScalars:
    r"""Return the scales λ that an activation admits: $\sigma(\lambda x)/\sigma(x)$ is constant.

    One channel is enough, since every element of the group of an activation that is not linear is a
    scaled permutation. Zero and points of both signs from 0.001 to 32 are tried; what σ does only
    beyond them is not seen. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        sigma: σ, elementwise, for float64 tensors.
        lambdas: positive scales, tried with both signs; 1 and at least one other.
        rtol: largest deviation relative to the largest |σ(λx)|.

    Raises:
        InputError: σ is constant, or not finite at the points; or invalid lambdas.
        InputTypeError: σ does not return a tensor of the shape it is given.

    >>> infer_scalars(torch.tanh)
    InferredScalars(kind='signs', admitted=(-1.0, 1.0), images=(-1.0, 1.0))
    """
    positive = all(value > 0 and math.isfinite(value) for value in lambdas)
    if not positive or 1.0 not in lambdas or len({*lambdas}) < 2:
        raise InputError(
            f"lambdas must be positive numbers, 1 and at least one other, got {lambdas!r:.80}."
        )
    half = torch.logspace(-3, math.log10(32), 181, dtype=torch.float64)
    x = torch.cat([-half.flip(0), torch.zeros(1, dtype=torch.float64), half])
    values = _call(sigma, x)
    if bool((values == values[0]).all()):
        raise InputError("σ is constant where it was tried. Pass an activation.")
    tried = sorted({sign * value for value in lambdas for sign in (-1.0, 1.0)})
    found = {
        scale: image
        for scale in tried
        if (image := _ratio(_call(sigma, scale * x), values, rtol)) is not None
    }
    linear = _ratio(values, x, rtol) is not None
    kind = "linear" if linear else _kind(tried, set(found))
    return InferredScalars(kind, tuple(found), tuple(found.values()))


def _kind(tried: list[float], admitted: set[float]) -> str:
    patterns = {
        "one": {1.0},
        "signs": {-1.0, 1.0},
        "positive": {scale for scale in tried if scale > 0},
        "nonzero": {*tried},
    }
    return next((kind for kind, pattern in patterns.items() if pattern == admitted), "other")


def _ratio(values: Tensor, base: Tensor, rtol: float) -> float | None:
    """Return the number that base is multiplied by to give the values, or None."""
    peak = int(base.abs().argmax())
    ratio = float(values[peak] / base[peak])
    return ratio if ratio != 0 and _agree(values[None], ratio * base[None], rtol) else None


def _agree(target: Tensor, reached: Tensor, rtol: float) -> bool:
    """Return whether values (n, m) agree, row by row."""
    error, size = (target - reached).abs().amax(dim=1), target.abs().amax(dim=1)
    return bool((error <= rtol * size).all())


def _in_own_precision(A: Monomial | Array) -> Tensor:
    matrix, dtype = as_square(A), str(getattr(A, "dtype", ""))
    return matrix.float() if dtype in ("torch.float32", "float32") else matrix


def _call(sigma: Sigma, x: Tensor) -> Tensor:
    y: Any = sigma(x.clone())  # σ may work in place
    if not isinstance(y, Tensor) or y.shape != x.shape:
        kind = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise InputTypeError(
            f"σ returns {kind} for a tensor {tuple(x.shape)}. Pass an elementwise function."
        )
    bad = (~y.isfinite()).nonzero()
    if len(bad):
        place = tuple(bad[0])
        raise InputError(
            f"σ({float(x[place]):g}) is {float(y[place]):g}. Pass an activation that is finite."
        )
    return y
