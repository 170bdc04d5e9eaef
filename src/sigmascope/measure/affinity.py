"""The affinity score: how close an activation comes to an affine map."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError, SigmascopeError
from sigmascope.maths.covariance import ESTIMATORS
from sigmascope.maths.fit import COUPLINGS, Fit, fit
from sigmascope.maths.gpu.stack import fit_stack
from sigmascope.maths.samples import (
    Array,
    Number,
    as_pair,
    check_alike,
    check_eps,
    like_input,
    plain,
)

__all__ = ["Affinity", "affinities", "affinity"]

DEGENERATE = ("nan", "released")


@dataclass(frozen=True, repr=False)
class Affinity:
    """The affinity score of a pair of samples, with what is needed to trust it.

    Attributes:
        score: 1 - w2 / bound; 1 is affine, lower is less so. NaN only with a `reason`.
        w2: the Wasserstein distance between the mapped input and the output.
        bound: sqrt(2 tr Σ_Y), the distance if mapped input and output were independent; an upper
            bound of w2 for the plain estimators.
        n: rows of x.
        dim: columns.
        covariance: the estimator.
        shrinkage_x: its shrinkage intensity for x, 0 for the plain estimators.
        shrinkage_y: the same for y.
        degenerate: whether the output has too little variance for a score.
        reason: why there is no score; empty where there is one.
        certified: how the coupling was proved optimal: "diagonal", "potentials", "solver",
            "sorting", "network simplex"; "paired" where rows were paired as they came; "none" where
            nothing was coupled; "no" if rounding kept a proof from being found, which no known
            input does.
    """

    score: Number
    w2: Number
    bound: Number
    n: int
    dim: int
    covariance: str
    shrinkage_x: float
    shrinkage_y: float
    degenerate: bool
    reason: str
    certified: str

    def __float__(self) -> float:
        return plain(self.score)

    def __repr__(self) -> str:
        numbers = (
            f"score={plain(self.score):.4f}, w2={plain(self.w2):.4g}, bound={plain(self.bound):.4g}"
        )
        sizes = (
            f"n={self.n}, dim={self.dim}, covariance={self.covariance!r}, "
            f"certified={self.certified!r}"
        )
        why = f", reason={self.reason!r}" if self.reason else ""
        return f"Affinity({numbers}, {sizes}{why})"


@dataclass(frozen=True)
class Settings:
    """The options of a score, checked."""

    covariance: str
    eps: float
    degenerate: str
    coupling: str

    def __post_init__(self) -> None:
        check_choice("covariance", self.covariance, ESTIMATORS)
        check_choice("degenerate", self.degenerate, DEGENERATE)
        check_choice("coupling", self.coupling, COUPLINGS)
        object.__setattr__(self, "eps", check_eps(self.eps))


def affinity(
    x: Array,
    y: Array,
    *,
    covariance: str = "ledoit-wolf",
    eps: float = 1e-6,
    degenerate: str = "nan",
    coupling: str = "optimal",
) -> Affinity:
    r"""Score how close the law of `y` is to that of `x` under the best positive affine map.

    $\rho = 1 - W_2(Tx, y)\,/\sqrt{2\,\mathrm{tr}\,\Sigma_Y}$ with $T$ the optimal affine map
    between the Gaussians of x and y, $W_2$ exact, and everything in float64. $\rho = 1$ for $y = ax
    + b$ with one slope $a > 0$ (up to eps); with "unbiased" or "biased" also for any positive
    definite linear map, which shrinkage does not commute with. Lower is more non-linear. The laws
    are compared, not the rows: the order of the rows of y does not matter. Heavy tails can bring
    the score of "ledoit-wolf" below 0; it is not clamped.

    Args:
        x: (n, d), what enters the activation. Rows are samples. NumPy array or torch tensor of any
            floating type.
        y: (m, d), what leaves it, of the same kind. m differs from n only with the extra `ot`.
        covariance: "ledoit-wolf" (shrunk, for n not much larger than d), "unbiased" or "biased".
        eps: added to the diagonal of both covariances, in squared units of the data: make it small
            beside their variances.
        degenerate: what to report where the mean variance of y is at most eps: "nan", or "released"
            for the value that the published code gives (1 for a dead layer).
        coupling: "optimal", or "paired" to couple row i with row i, an upper bound of the distance.

    Returns:
        An `Affinity`. For torch input its `score`, `w2` and `bound` are 0-d tensors with a gradient
        through means, covariances, shrinkage and map, the optimal coupling held fixed; for NumPy
        input they are floats.

    Raises:
        InputError: not matrices of one width, fewer than two rows, NaN, infinite or huge values,
            eps below 0.
        InputTypeError: not real floating point, sparse, without data, of different kinds or on
            different devices.
        OptionError: an option that is not in its table.
        MissingExtraError: unequal numbers of rows without POT.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((512, 64))
    >>> affinity(x, np.maximum(x, 0))
    Affinity(score=0.6231, w2=2.484, bound=6.59, n=512, dim=64, covariance='ledoit-wolf', certified='diagonal')
    """
    settings = Settings(covariance, eps, degenerate, coupling)
    check_alike(x, y)
    found = _found_together([(x, y)], settings).get(0)
    return _score(x, y, settings) if found is None else _report(found, x, settings)


def affinities(
    pairs: Iterable[tuple[Array, Array]],
    *,
    covariance: str = "ledoit-wolf",
    eps: float = 1e-6,
    degenerate: str = "nan",
    coupling: str = "optimal",
) -> list[Affinity]:
    """Score many pairs; see `affinity` for the options.

    Args:
        pairs: pairs (x, y). Pairs of one shape on a GPU are scored together.
        covariance: "ledoit-wolf", "unbiased" or "biased".
        eps: added to the diagonal of the covariances.
        degenerate: "nan" or "released".
        coupling: "optimal" or "paired".

    Returns:
        One `Affinity` per pair, in order.

    Raises:
        SigmascopeError: as `affinity`, with the position of the pair in the message.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((512, 3))
    >>> [round(float(result), 3) for result in affinities([(x, np.tanh(x)), (x, np.maximum(x, 0))])]
    [0.807, 0.614]
    """
    settings = Settings(covariance, eps, degenerate, coupling)
    if not isinstance(pairs, Iterable):
        raise InputTypeError(
            f"pairs is a {type(pairs).__name__}. Pass a list of pairs (x, y) of samples."
        )
    checked = [_checked_pair(position, pair) for position, pair in enumerate(pairs)]
    found = _found_together(checked, settings)
    return [
        _score_one_of_many(position, pair, found.get(position), settings)
        for position, pair in enumerate(checked)
    ]


def _checked_pair(position: int, pair: tuple[Array, Array]) -> tuple[Array, Array]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputTypeError(
            f"pair {position} is not a pair (x, y) of samples. Pass a list of such pairs."
        )
    with _naming(position):
        check_alike(*pair)
    return pair


def _found_together(pairs: list[tuple[Array, Array]], settings: Settings) -> dict[int, Fit | None]:
    """Fit at once, on each device, the pairs that gain from it: on an accelerator, to be assigned,
    without gradient.
    """
    stacks: dict[torch.device, dict[int, tuple[Tensor, Tensor]]] = defaultdict(dict)
    for position, (x, y) in enumerate(pairs):
        if (
            isinstance(x, Tensor)
            and isinstance(y, Tensor)
            and x.device.type != "cpu"
            and len(x) == len(y)
        ):
            traced = torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)
            if settings.coupling == "optimal" and not traced:
                stacks[x.device][position] = x, y
    found: dict[int, Fit | None] = {}
    for stack in stacks.values():
        found.update(
            zip(
                stack,
                fit_stack(list(stack.values()), covariance=settings.covariance, eps=settings.eps),
                strict=True,
            )
        )
    return found


@contextmanager
def _naming(position: int) -> Iterator[None]:
    """Put the position of the pair in front of what is wrong with it."""
    try:
        yield
    except SigmascopeError as error:
        raise type(error)(f"pair {position}: {error}") from error


def _score_one_of_many(
    position: int, pair: tuple[Array, Array], found: Fit | None, settings: Settings
) -> Affinity:
    if found is not None:
        return _report(found, pair[0], settings)
    with _naming(position):
        return _score(*pair, settings)


def _score(x: Array, y: Array, settings: Settings) -> Affinity:
    rows_x, rows_y = as_pair(x, y)
    if settings.coupling == "paired" and len(rows_x) != len(rows_y):
        raise InputError(
            f"x has {len(rows_x)} rows and y {len(rows_y)}, so rows cannot be paired. Use "
            "coupling='optimal' or equal numbers."
        )
    found = fit(
        rows_x, rows_y, covariance=settings.covariance, eps=settings.eps, coupling=settings.coupling
    )
    return _report(found, x, settings)


def _report(found: Fit, x: Array, settings: Settings) -> Affinity:
    score, w2, reason = found.score, found.w2, ""
    if found.degenerate and settings.degenerate == "nan":
        variance = max(found.variance - settings.eps, 0.0)
        reason = (
            f"the output hardly varies: its mean variance {variance:.3g} is not above eps "
            f"{settings.eps:.3g}"
        )
        # keeps its graph, so that a training loop meets a NaN and not an error
        score = w2 = w2 * math.nan
    return Affinity(
        score=like_input(score, x),
        w2=like_input(w2, x),
        bound=like_input(found.bound, x),
        n=x.shape[0],
        dim=x.shape[1],
        covariance=settings.covariance,
        shrinkage_x=found.shrinkage_x,
        shrinkage_y=found.shrinkage_y,
        degenerate=found.degenerate,
        reason=reason,
        certified=found.certified,
    )
