"""The affinity score: how close an activation comes to an affine map."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.choices import Coupling, Covariance, Degenerate
from sigmascope.errors import InputError, InputTypeError, SigmascopeError
from sigmascope.maths.affine_fit import Fit, fit
from sigmascope.maths.gpu.stack import fit_stack
from sigmascope.maths.samples import (
    Array,
    Number,
    as_pair,
    check_alike,
    check_eps,
    like_input,
    plain,
    rounding_of,
)

Rows: TypeAlias = np.ndarray[Any, Any]
Pair: TypeAlias = tuple[Array, Array]
Rounding: TypeAlias = tuple[float, float]
Value_co = TypeVar("Value_co", bound=Number, covariant=True)


@dataclass(frozen=True, repr=False)
class Affinity(Generic[Value_co]):
    """The affinity score of a pair of samples, and the evidence for it.

    Attributes:
        score: 1 - w2 / bound; 1 is affine, lower is more non-linear. NaN only with a `reason`.
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
        certified: how the coupling was proved optimal, up to the rounding of typical distances
            between rows: "diagonal", "potentials", "solver", "sorting", "network simplex";
            "paired" where rows were paired in their order; "none" where nothing was coupled; "no"
            if rounding prevents a proof, which no known input does.
        note: what was added to the covariances where eps is too small for float64; otherwise empty.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((512, 8))
    >>> affinity(x, np.zeros_like(x)).reason
    'the output is constant up to rounding'
    """

    score: Value_co
    w2: Value_co
    bound: Value_co
    n: int
    dim: int
    covariance: str
    shrinkage_x: float
    shrinkage_y: float
    degenerate: bool
    reason: str
    certified: str
    note: str = ""

    def __float__(self) -> float:
        return plain(self.score)

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return score, w2, bound, n and dim by name, for a logger; names begin with `prefix`."""
        names = ("score", "w2", "bound", "n", "dim")
        return {f"{prefix}{name}": plain(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        score, w2, bound = (plain(value) for value in (self.score, self.w2, self.bound))
        why = f", reason={self.reason!r}" if self.reason else ""
        why += f", note={self.note!r}" if self.note else ""
        return (
            f"Affinity(score={score:.4f}, w2={w2:.4g}, bound={bound:.4g}, n={self.n}, "
            f"dim={self.dim}, covariance={self.covariance!r}, certified={self.certified!r}{why})"
        )


class AffinityOptions(TypedDict, total=False):
    """The options of `affinity`, which explains them."""

    covariance: Covariance
    eps: float | None
    degenerate: Degenerate
    coupling: Coupling


@dataclass(frozen=True)
class Scoring:
    """The options of `affinity`, checked."""

    covariance: str
    eps: float | None
    degenerate: str
    coupling: str = "optimal"

    def __post_init__(self) -> None:
        check_choice("covariance", self.covariance, Covariance)
        degenerate = check_choice("degenerate", self.degenerate, Degenerate)
        check_choice("coupling", self.coupling, Coupling)
        object.__setattr__(self, "degenerate", degenerate)
        object.__setattr__(self, "eps", check_eps(self.eps))


@overload
def affinity(x: Tensor, y: Tensor, **options: Unpack[AffinityOptions]) -> Affinity[Tensor]: ...
@overload
def affinity(x: Rows, y: Rows, **options: Unpack[AffinityOptions]) -> Affinity[float]: ...
@overload
def affinity(x: Array, y: Array, **options: Unpack[AffinityOptions]) -> Affinity[Any]: ...
def affinity(
    x: Array,
    y: Array,
    *,
    covariance: Covariance = "ledoit-wolf",
    eps: float | None = None,
    degenerate: Degenerate = "nan",
    coupling: Coupling = "optimal",
) -> Affinity[Any]:
    r"""Return how well an affine map of the input `x` of an activation explains its output `y`.

    The affinity score of Bouniot et al., CVPR 2025, arXiv:2310.11439: $\rho = 1 - W_2(Tx, y)\,/
    \sqrt{2\,\mathrm{tr}\,\Sigma_Y}$ with $T$ the optimal affine map between the Gaussians of x and
    y, $W_2$ exact, and everything in float64. $\rho = 1$ for $y = ax + b$ with one slope $a > 0$
    (up to eps); with "unbiased" or "biased" also for any positive definite linear map, which
    shrinkage does not commute with. Lower is more non-linear. Distributions are compared, not
    rows: the order of the rows of y does not matter. Heavy tails can bring the score of
    "ledoit-wolf" below 0; it is not clamped.

    Args:
        x: (n, d), the input of the activation. Rows are samples. NumPy array or torch tensor of any
            floating type.
        y: (m, d), its output, of the same kind. m differs from n only with the extra `ot`.
        covariance: "ledoit-wolf" (shrunk, for n not much larger than d), "unbiased" or "biased".
        eps: added to the diagonal of both covariances. None adds 1e-6 of the mean variance of x and
            of y, each to its own, so that the score does not depend on their scales. A number is in
            squared units of the data; the published code adds 1e-6.
        degenerate: the score of an output that is constant to the rounding of its type: "nan", or
            "published" for the value that the published code gives, 1. With "published" and a
            number for eps, a mean variance of y up to eps counts as constant, as it does there.
        coupling: "optimal", or "paired" to couple row i with row i, an upper bound of the distance.

    Returns:
        An `Affinity`. For torch input its `score`, `w2` and `bound` are 0-d tensors with a gradient
        through means, covariances, shrinkage and map, the optimal coupling held fixed; for NumPy
        input they are floats. backward() raises GradientError where x is constant.

    Raises:
        InputError: not matrices of one width, fewer than two rows, NaN, infinite or huge values,
            eps below 0.
        InputTypeError: not real floating point, sparse, without data, of different kinds or on
            different devices.
        OptionError: a value that is not a valid choice.
        MissingExtraError: unequal numbers of rows without POT.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((512, 64))
    >>> result = affinity(x, np.maximum(x, 0))
    >>> round(result.score, 4), result.certified
    (0.6231, 'diagonal')
    """
    scoring = Scoring(covariance, eps, degenerate, coupling)
    check_alike(x, y)
    rounding = _rounding((x, y))
    fitted = _fits_together([(x, y)], scoring, [rounding]).get(0)
    return _report(fitted or _fit(x, y, scoring, rounding), x, scoring)


@overload
def affinities(
    pairs: Iterable[tuple[Tensor, Tensor]], **options: Unpack[AffinityOptions]
) -> list[Affinity[Tensor]]: ...
@overload
def affinities(
    pairs: Iterable[tuple[Rows, Rows]], **options: Unpack[AffinityOptions]
) -> list[Affinity[float]]: ...
@overload
def affinities(
    pairs: Iterable[Pair], **options: Unpack[AffinityOptions]
) -> list[Affinity[Any]]: ...
def affinities(
    pairs: Iterable[Pair],
    *,
    covariance: Covariance = "ledoit-wolf",
    eps: float | None = None,
    degenerate: Degenerate = "nan",
    coupling: Coupling = "optimal",
) -> list[Affinity[Any]]:
    """Return the scores of many pairs, in order; Bouniot et al., CVPR 2025, arXiv:2310.11439.

    Args:
        pairs: pairs (x, y), see `affinity`. Pairs of one shape on a GPU are scored together.
        covariance: see `affinity`.
        eps: see `affinity`.
        degenerate: see `affinity`.
        coupling: see `affinity`.

    Raises:
        SigmascopeError: as `affinity`, with the position of the pair in the message.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((512, 3))
    >>> [round(float(result), 3) for result in affinities([(x, np.tanh(x)), (x, np.maximum(x, 0))])]
    [0.807, 0.614]
    """
    return score_pairs(pairs, Scoring(covariance, eps, degenerate, coupling))


def score_pairs(
    pairs: Iterable[Pair], scoring: Scoring, rounding: Sequence[Rounding] | None = None
) -> list[Affinity[Any]]:
    """Return what `affinities` returns, with options that were checked before.

    `rounding` is that of every pair, see `rounding_of`; by default that of its types.
    """
    if not isinstance(pairs, Iterable):
        raise InputTypeError(
            f"pairs is a {type(pairs).__name__}. Pass a list of pairs (x, y) of samples."
        )
    checked = [_checked_pair(position, pair) for position, pair in enumerate(pairs)]
    rounding = rounding or [_rounding(pair) for pair in checked]
    together = _fits_together(checked, scoring, rounding)
    scores = []
    for position, (x, y) in enumerate(checked):
        fitted = together.get(position)
        with _naming(position):
            fitted = fitted or _fit(x, y, scoring, rounding[position])
        scores.append(_report(fitted, x, scoring))
    return scores


def _checked_pair(position: int, pair: tuple[Array, Array]) -> tuple[Array, Array]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputTypeError(
            f"pair {position} is not a pair (x, y) of samples. Pass a list of such pairs."
        )
    with _naming(position):
        check_alike(*pair)
    return pair


def _rounding(pair: Pair) -> Rounding:
    x, y = pair
    return rounding_of(x.dtype), rounding_of(y.dtype)


def _fits_together(
    pairs: list[Pair], scoring: Scoring, rounding: Sequence[Rounding]
) -> dict[int, Fit | None]:
    """Return the fits of pairs on accelerators by position, computed at once on each device.

    Pairs that need a gradient, or rows paired in their order, are left out.
    """
    stacks: dict[torch.device, dict[int, tuple[Tensor, Tensor]]] = defaultdict(dict)
    for position, (x, y) in enumerate(pairs):
        if isinstance(x, np.ndarray) or isinstance(y, np.ndarray) or x.device.type == "cpu":
            continue
        traced = torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)
        if scoring.coupling == "optimal" and len(x) == len(y) and not traced:
            stacks[x.device][position] = x, y
    fits: dict[int, Fit | None] = {}
    for stack in stacks.values():
        fitted = fit_stack(
            list(stack.values()),
            covariance=scoring.covariance,
            eps=scoring.eps,
            degenerate=scoring.degenerate,
            rounding=[rounding[position] for position in stack],
        )
        fits.update(zip(stack, fitted, strict=True))
    return fits


@contextmanager
def _naming(position: int) -> Iterator[None]:
    """Put the position of the pair in front of an error message."""
    try:
        yield
    except SigmascopeError as error:
        raise type(error)(f"pair {position}: {error}") from error


def _fit(x: Array, y: Array, scoring: Scoring, rounding: Rounding) -> Fit:
    rows_x, rows_y = as_pair(x, y)
    if scoring.coupling == "paired" and len(rows_x) != len(rows_y):
        raise InputError(
            f"x has {len(rows_x)} rows and y {len(rows_y)}, so rows cannot be paired. Use "
            "coupling='optimal' or equal numbers."
        )
    return fit(rows_x, rows_y, **asdict(scoring), rounding=rounding)


def _report(fitted: Fit, x: Array, scoring: Scoring) -> Affinity[Any]:
    score, w2, reason = fitted.score, fitted.w2, ""
    if fitted.degenerate and scoring.degenerate == "nan":
        reason = "the output is constant up to rounding"
        # keeps its graph, so that a training loop meets a NaN and not an error
        score = w2 = w2 * math.nan
    return Affinity(
        score=like_input(score, x),
        w2=like_input(w2, x),
        bound=like_input(fitted.bound, x),
        n=x.shape[0],
        dim=x.shape[1],
        covariance=scoring.covariance,
        shrinkage_x=fitted.shrinkage_x,
        shrinkage_y=fitted.shrinkage_y,
        degenerate=fitted.degenerate,
        reason=reason,
        certified=fitted.certified,
        note=fitted.note,
    )
