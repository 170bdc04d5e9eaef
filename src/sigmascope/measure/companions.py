"""The companions of the affinity score: other measures of how an activation changes its input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from sigmascope.capture.density import NEAR_ZERO
from sigmascope.checks import check_choice
from sigmascope.choices import Metric, MetricChoice, values_of
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.samples import Array, as_matrix, check_alike, plain, standardize

# Directions of the input whose spread is below this share of the largest are not regressed on. The
# rounding of float32 data lies below it; it is also the cut of scikit-learn since 1.9.
RANK_TOLERANCE = 1e-6

# A number, or the reason why there is none.
Outcome: TypeAlias = float | str


@dataclass(frozen=True)
class Companions:
    """Numbers that accompany an affinity score.

    Attributes:
        values: by name; see `companions`. NaN only with a reason.
        reasons: by the same names, why a value is NaN.
    """

    values: dict[str, float]
    reasons: dict[str, str]


@dataclass(frozen=True)
class Pair:
    """Input and output as given and in float64, with the options of their comparison."""

    raw_x: Tensor
    raw_y: Tensor
    x: Tensor
    y: Tensor
    compat: bool
    density: tuple[float, float] | None


class MetricRow(NamedTuple):
    """The names of the values of a metric, and the function that returns them in that order."""

    keys: tuple[str, ...]
    measure: Callable[[Pair], tuple[Outcome, ...]]


def companions(
    x: Tensor,
    y: Tensor,
    *,
    metrics: str | Sequence[str] = "all",
    compat: bool = False,
    density: tuple[float, float] | None = None,
) -> Companions:
    r"""Return other measures of how an activation changes its input, beside the affinity score.

    The measures that Bouniot et al., CVPR 2025, arXiv:2310.11439 compare with the score:

    - cka: $\|X_c^T Y_c\|_F^2 / (\|X_c^T X_c\|_F \|Y_c^T Y_c\|_F)$ of the centered samples, in
      [0, 1].
    - norm: $\|X - Y\|_F$, which grows with the number of samples, and norm_per_sample:
      $\|X - Y\|_F / \sqrt n$.
    - sparsity: the share of values of at most 0.001 in absolute value.
    - entropy: of the histogram of a row, with d equal bins between its minimum and maximum, in
      nats; averaged over the rows.
    - r2: of the linear regression with intercept of y on x, averaged over the outputs that vary. It
      is fitted on the even rows and scored on the odd ones, so it can be negative.

    Sparsity and entropy come as `_before`, `_after` and, without suffix, after - before.

    Args:
        x: (n, d), the pooled input of the activation. Rows are samples. Any floating type, any
            device.
        y: (n, d), its output, row by row.
        metrics: "all", or one or more of "cka", "norm", "sparsity", "entropy", "r2".
        compat: as published: entropies before and after are larger by ln d, r2 is scored on the
            rows it was fitted on (1 whenever n <= d + 1) and counts a constant output as 1, and
            there is no norm_per_sample.
        density: the shares of values above 0.001 in absolute value before and after, where x and y
            are averages of more values; by default those of x and y.

    Returns:
        `Companions`. NaN, infinite or huge samples make every value NaN, with the reason.

    Raises:
        InputError: not matrices of one shape, fewer than two rows, a density outside [0, 1].
        InputTypeError: not torch tensors, not real floating point, sparse, without data or on
            different devices.
        OptionError: a metric that is not a valid choice.

    >>> x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(6, 2)
    >>> result = companions(x, x.relu(), metrics=["cka", "sparsity"])
    >>> {name: round(value, 3) for name, value in result.values.items()}
    {'cka': 0.818, 'sparsity_before': 0.0, 'sparsity_after': 0.5, 'sparsity': 0.5}
    """
    names = check_metrics(metrics)
    _check_pair(x, y, density)
    x, y = x.detach(), y.detach()
    try:
        pair = Pair(x, y, as_matrix(x, "x"), as_matrix(y, "y"), compat, density)
    except InputError as error:  # the shapes are right, so the numbers are not
        return without_companions(names, str(error), compat=compat)
    return _reported({name: METRICS[name].measure(pair) for name in names}, compat=compat)


def without_companions(names: Sequence[str], reason: str, *, compat: bool) -> Companions:
    """Return what `companions` returns where none of these metrics can be measured."""
    return _reported({name: (reason,) * len(METRICS[name].keys) for name in names}, compat=compat)


def _reported(measured: dict[str, tuple[Outcome, ...]], *, compat: bool) -> Companions:
    outcomes: dict[str, Outcome] = {}
    for name, values in measured.items():
        outcomes |= zip(METRICS[name].keys, values, strict=True)
    if compat:
        outcomes.pop("norm_per_sample", None)
    reasons = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, str)}
    numbers = {key: value for key, value in outcomes.items() if not isinstance(value, str)}
    return Companions({key: numbers.get(key, math.nan) for key in outcomes}, reasons)


def check_metrics(metrics: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of metrics as a tuple, each once, in the order given.

    >>> check_metrics("all")
    ('cka', 'norm', 'sparsity', 'entropy', 'r2')
    """
    if isinstance(metrics, str):
        check_choice("metrics", metrics, MetricChoice)
        return values_of(Metric) if metrics == "all" else (metrics,)
    if not isinstance(metrics, Sequence):
        raise OptionError(
            f"metrics must be 'all' or some of {', '.join(map(repr, METRICS))}, got "
            f"{metrics!r:.80}."
        )
    return tuple(dict.fromkeys(check_choice("metrics", name, Metric) for name in metrics))


def _check_pair(x: Array, y: Array, density: tuple[float, float] | None) -> None:
    check_alike(x, y)
    if not isinstance(x, Tensor):
        raise InputTypeError(
            "x and y are NumPy arrays. Pass torch tensors: torch.from_numpy(x), "
            "torch.from_numpy(y)."
        )
    if len(x) != len(y):
        raise InputError(
            f"x has {len(x)} rows and y {len(y)}. Row i of y must be the output of the activation "
            "for row i of x."
        )
    # false for NaN too
    if density is not None and [0 <= share <= 1 for share in density] != [True, True]:
        raise InputError(
            f"density must be two numbers between 0 and 1, before and after, got {density!r:.80}."
        )


def _cka(pair: Pair) -> tuple[Outcome]:
    x, y = standardize(pair.x)[0], standardize(pair.y)[0]
    for name, sample in (("input", x), ("output", y)):
        if not sample.any():
            return (f"the {name} does not vary",)
    if x.shape[1] < x.shape[0]:
        shared, own_x, own_y = (x.T @ y).square().sum(), x.T @ x, y.T @ y
    else:  # the same sums of squares through the smaller n × n matrices
        own_x, own_y = x @ x.T, y @ y.T
        shared = (own_x * own_y).sum()
    cka = plain(shared / (torch.linalg.matrix_norm(own_x) * torch.linalg.matrix_norm(own_y)))
    return (min(cka, 1.0),)  # which only rounding exceeds


def _norm(pair: Pair) -> tuple[Outcome, Outcome]:
    norm = plain(torch.linalg.matrix_norm(pair.x - pair.y))
    return norm, norm / math.sqrt(len(pair.x))


def _sparsity(pair: Pair) -> tuple[Outcome, ...]:
    return _change(
        *(1 - share for share in pair.density or (_density(pair.raw_x), _density(pair.raw_y)))
    )


def _density(values: Tensor) -> float:
    return int((values.abs() > NEAR_ZERO).sum()) / values.numel()


def _entropy(pair: Pair) -> tuple[Outcome, ...]:
    if not pair.compat:
        return _change(_row_entropy(pair.x), _row_entropy(pair.y))
    offset = math.log(pair.x.shape[1])
    before, after, change = _change(
        _row_entropy(_single(pair.raw_x)), _row_entropy(_single(pair.raw_y))
    )
    return before + offset, after + offset, change


def _single(values: Tensor) -> Tensor:
    """Return values in the precision of torch.histc, which decides the bin of those at an edge."""
    return values if values.dtype == torch.float64 else values.to(torch.float32)


def _row_entropy(values: Tensor) -> float:
    """Return the mean over rows of the entropy of a histogram with as many bins as columns."""
    n, d = values.shape
    low, high = values.aminmax(dim=1, keepdim=True)
    # In this order of operations, as torch.histc does, and with the largest value in the last bin.
    bins = ((values - low) * d / (high - low)).nan_to_num(0).clamp(0, d - 1).long()
    first_bins = torch.arange(n, device=values.device)[:, None] * d
    counts = (bins + first_bins).flatten().bincount(minlength=n * d).reshape(n, d)
    # without the sign of -0.0
    return abs(plain(torch.special.entr(counts.double() / d).sum(dim=1).mean()))


def _change(before: float, after: float) -> tuple[float, float, float]:
    return before, after, after - before


def _r2(pair: Pair) -> tuple[Outcome]:
    x, y = standardize(pair.x)[0], standardize(pair.y)[0]
    n, d = x.shape
    if pair.compat:
        scores, varies = _regress((x, y), (x, y))
        # scikit-learn's r2_score for a constant that is predicted
        return (plain(scores.where(varies, 1).mean()),)
    if n // 2 <= d + 1:
        needed = 2 * (d + 2)
        channels = f"{d} channel{'s' * (d != 1)}"
        return (
            f"half of the samples are fitted and half scored: at least {needed} are needed for "
            f"{channels}, and there are {n}",
        )
    scores, varies = _regress((x[0::2], y[0::2]), (x[1::2], y[1::2]))
    return (
        plain(scores[varies].mean())
        if varies.any()
        else "the output does not vary over the samples to be scored",
    )


def _regress(fitted: tuple[Tensor, Tensor], scored: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return R² of each output on a sample that was not fitted, and whether that output varies."""
    mean_x, mean_y = (sample.mean(dim=0) for sample in fitted)
    left, spread, right = torch.linalg.svd(fitted[0] - mean_x, full_matrices=False)
    inverse = torch.where(spread > RANK_TOLERANCE * spread[0], spread.reciprocal(), 0)
    slopes = right.T @ (inverse[:, None] * (left.T @ (fitted[1] - mean_y)))
    missed = (scored[1] - mean_y - (scored[0] - mean_x) @ slopes).square().sum(dim=0)
    total = (scored[1] - scored[1].mean(dim=0)).square().sum(dim=0)
    # Compared with its first row, since the mean of equal numbers may be rounded.
    varies = (scored[1] != scored[1][0]).any(dim=0) & (total > 0)
    return 1 - missed / total, varies


METRICS: dict[str, MetricRow] = {
    "cka": MetricRow(("cka",), _cka),
    "norm": MetricRow(("norm", "norm_per_sample"), _norm),
    "sparsity": MetricRow(("sparsity_before", "sparsity_after", "sparsity"), _sparsity),
    "entropy": MetricRow(("entropy_before", "entropy_after", "entropy"), _entropy),
    "r2": MetricRow(("r2",), _r2),
}
