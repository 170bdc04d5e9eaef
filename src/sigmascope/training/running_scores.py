r"""Scores of activations in a training step, with a gradient to the samples of that step.

The score is a function of the joint covariance of inputs and outputs. Where a batch has too few
rows for its channels, covariances are those of sums that decay over 4 rows per channel. The
gradient takes $\partial\rho/\partial\Sigma$ at these sums and $d\Sigma$ from the batch at full
weight: an estimate of the gradient of the score of the distribution. With 4 rows per channel (and
64 in all) or more nothing is kept of earlier batches, and it is that of the batch's own score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sigmascope.errors import GradientError
from sigmascope.maths.paired_score import (
    covariances_of,
    score_and_gradient,
    score_and_gradient_by_products,
)
from sigmascope.maths.population import samples_needed
from sigmascope.training.cuda_graph import Step

# Of the mean variance, added to the diagonals. With less, directions in which features hardly vary
# rule the gradient while the features move.
EPS = 1e-3
HORIZON, LEAST = 4, 64  # rows per channel, and in all, over which sums decay


def scores_with_gradient(
    count: Tensor, first: Tensor, second: Tensor, *, eps: float
) -> tuple[Tensor, Tensor]:
    """Return the scores (s,) of sums and their gradients (s, 2d, 2d) to the joint covariances.

    A site that has no score, such as a constant output, has NaN and a gradient of 0.
    """
    covariances = covariances_of(count, first, second)
    if first.device.type == "cpu":
        scores, gradients = score_and_gradient(*covariances, eps=None, relative=eps)
    else:
        scores, gradients = score_and_gradient_by_products(*covariances, relative=eps)
    sound = torch.isfinite(scores) & torch.isfinite(gradients).all(dim=2).all(dim=1)
    return scores.masked_fill(~sound, torch.nan), gradients.where(sound[:, None, None], 0)


def kept_share(rows: int, channels: int) -> float:
    """Return the share of the sums that is kept when a batch is added; 0 for a large batch.

    >>> kept_share(128, 64), kept_share(256, 64)
    (0.5, 0.0)
    """
    return max(0.0, 1 - rows / max(LEAST, HORIZON * channels))


class RunningScores:
    """The scores of sites with equally many channels.

    Args:
        channels: d.
        eps: added to the diagonals of covariances, in units of the mean variance.

    Attributes:
        scores: (s,), of the last rows; NaN where there is none.
        rows: how many rows the sums hold, older ones counting less.
    """

    scores: Tensor

    def __init__(self, channels: int, *, eps: float) -> None:
        self.channels, self.eps, self.rows = channels, eps, 0.0
        self._shift: Tensor | None = None
        self._sums: tuple[Tensor, Tensor, Tensor] | None = None
        self._results: tuple[Tensor, ...] = ()
        # On a GPU hundreds of small products, which take longer to launch than to compute.
        self._step = Step(self._solve, lambda: [*self._results])

    @property
    def needed(self) -> int:
        """The number of rows that a score needs."""
        return samples_needed(self.channels)

    def take(self, rows: Tensor) -> Tensor | None:
        """Add rows (s, n, 2d); return d score / d rows, or None while there are too few."""
        rows, kept = rows.detach(), kept_share(rows.shape[1], self.channels)
        if self._shift is None or not kept:
            # One of the samples, from which a constant column, however large, differs by nothing.
            self._shift = rows[:, :1]
        rows = rows - self._shift
        count, first, second = self._added(rows, kept)
        self.rows = kept * self.rows + rows.shape[1]
        if self.rows < self.needed:
            return None
        if not self._results:
            self._results = torch.zeros_like(count), torch.zeros_like(second)
        if rows.is_cuda and torch.cuda.is_current_stream_capturing():
            self._solve(count, first, second)  # a graph cannot be captured inside of another
        else:
            self._step(count, first, second)
        self.scores, gradients = self._results[0].clone(), self._results[1]
        return slopes(rows, gradients, count, first)

    def _solve(self, count: Tensor, first: Tensor, second: Tensor) -> None:
        found = scores_with_gradient(count, first, second, eps=self.eps)
        for place, value in zip(self._results, found, strict=True):
            place.copy_(value)

    def _added(self, rows: Tensor, kept: float) -> tuple[Tensor, Tensor, Tensor]:
        new = sums_of(rows)
        if self._sums is None or not kept:
            self._sums = new
        else:
            for old, one in zip(self._sums, new, strict=True):
                old.mul_(kept).add_(one)  # in place, so that a CUDA graph goes on with them
        return self._sums


def sums_of(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the count (s,), the sum (s, 2d) and the sum of products (s, 2d, 2d) of rows."""
    count = rows.new_full(rows.shape[:1], float(rows.shape[1]))
    return count, rows.sum(dim=1), rows.mT @ rows


def slopes(rows: Tensor, gradients: Tensor, count: Tensor, first: Tensor) -> Tensor:
    """Return d score / d rows (s, n, 2d) from the gradients to the covariances of the sums."""
    factor = 2 * count / (count - 1) / rows.shape[1]
    return factor[:, None, None] * ((rows - (first / count[:, None])[:, None]) @ gradients)


def stacked(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the inputs and outputs (n, d) of sites as one tensor (s, n, 2d) of float64."""
    together = torch.cat([one for pair in pairs for one in pair], dim=1)
    rows = together.reshape(len(together), len(pairs), -1).movedim(1, 0)
    return rows.to(torch.float32 if rows.device.type == "mps" else torch.float64)


def term(scores: Tensor, target: float | None) -> tuple[Tensor, Tensor]:
    """Return what a site adds to the penalty, and its derivative; both 0 where it has no score.

    >>> [one.tolist() for one in term(torch.tensor([0.75, torch.nan]), None)]
    [[0.25, 0.0], [-1.0, 0.0]]
    >>> [one.tolist() for one in term(torch.tensor([0.75]), 0.5)]
    [[0.0625], [0.5]]
    """
    sound = torch.isfinite(scores)
    known = scores.where(sound, 0.0)
    if target is None:
        return (1 - known) * sound, 0.0 - sound.to(scores.dtype)
    return (known - target).square() * sound, 2 * (known - target) * sound


def attached(rows: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return a scalar whose gradient with respect to the rows (s, n, 2d) is already known."""
    if not rows.requires_grad:
        return value
    result: Tensor = _Attached.apply(rows, value, gradient)  # type: ignore[no-untyped-call]
    return result


class _Attached(torch.autograd.Function):
    """The value, and the known gradient in the backward pass."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise GradientError(
                "the penalty has first derivatives only. Call backward() without create_graph=True."
            )
        (gradient,) = ctx.saved_tensors
        return upstream[0][..., None, None] * gradient, None, None
