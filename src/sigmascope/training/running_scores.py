r"""Scores of activations in a training step, with a gradient to the samples of that step.

The score is a function of the joint covariance of inputs and outputs. Where a batch has too few
rows for its channels, covariances are those of sums that decay over 4 rows per channel. The
gradient takes $\partial\rho/\partial\Sigma$ at these sums and $d\Sigma$ from the batch at full
weight: an estimate of the gradient of the score of the distribution. With 4 rows per channel (and
64 in all) or more nothing is kept of earlier batches, and it is that of the batch's own score.

Gradients of earlier steps cannot stand in for those of this one: where features hardly vary in some
directions, as in a wide layer after a narrow one, one step of delay was seen to turn a rise of the
score into a fall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    return max(0.0, 1 - rows / _horizon(channels))


def _horizon(channels: int) -> int:
    return max(LEAST, HORIZON * channels)


class RunningScores:
    """The scores of sites with equally many channels.

    Args:
        channels: d.
        eps: added to the diagonals of covariances, in units of the mean variance.

    Attributes:
        rows: how many rows the sums hold, older ones counting less.
        sums: count (s,), rows (s, 2d) and their products (s, 2d, 2d); empty before the first rows.
    """

    def __init__(self, channels: int, *, eps: float) -> None:
        self.channels, self.eps, self.rows = channels, eps, 0.0
        self.sums: tuple[Tensor, ...] = ()
        self._shift: Tensor | None = None

    @property
    def needed(self) -> int:
        """The number of rows that a score needs."""
        return samples_needed(self.channels)

    @property
    def is_ready(self) -> bool:
        """Whether there are rows enough."""
        return self.rows >= self.needed

    def note(self, rows: int) -> None:
        """Count rows that are about to be added, so that it is known whether they are enough."""
        self.rows = kept_share(rows, self.channels) * self.rows + rows

    def add(self, rows: Tensor) -> Tensor:
        """Add rows (s, n, 2d) to the sums; return them as they were added, shifted."""
        kept = kept_share(rows.shape[1], self.channels)
        if self._shift is None or not kept:
            # One of the samples, from which a constant column, however large, differs by nothing.
            self._shift = rows[:, :1].clone()
        rows = rows - self._shift
        new = sums_of(rows)
        if not self.sums or not kept:
            self.sums = new
        else:
            for old, one in zip(self.sums, new, strict=True):
                old.mul_(kept).add_(one)  # in place, so that a CUDA graph goes on with them
        return rows

    def scored(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores (s,) and their slopes (s, n, 2d) for what `add` returned."""
        count, first, second = self.sums
        scores, gradients = scores_with_gradient(count, first, second, eps=self.eps)
        return scores, slopes(rows, gradients, count, first)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the sums."""
        shift = None if self._shift is None else self._shift.clone()
        return {"rows": self.rows, "shift": shift, "sums": [one.clone() for one in self.sums]}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Go on with copies of the sums of `state_dict`."""
        shift, sums = state["shift"], state["sums"]
        self._shift = None if shift is None else shift.to(device, copy=True)
        self.sums = tuple(one.to(device, copy=True) for one in sums)
        self.rows = float(state["rows"])


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


def attached(value: Tensor, gradient: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Return a scalar whose gradient with respect to rows is already known.

    Args:
        value: of the scalar.
        gradient: of all rows, one after the other, flat.
        rows: tensors of any shapes.
    """
    if not any(one.requires_grad for one in rows):
        return value
    result: Tensor = _Attached.apply(value, gradient, *rows)  # type: ignore[no-untyped-call]
    return result


class _Attached(torch.autograd.Function):
    """The value, and the known gradient in the backward pass."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradient: Tensor, *rows: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        ctx.rows = [(one.shape, one.dtype) for one in rows]
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise GradientError(
                "the penalty has first derivatives only. Call backward() without create_graph=True."
            )
        (gradient,) = ctx.saved_tensors
        parts = (upstream[0] * gradient).split([shape.numel() for shape, _ in ctx.rows])
        given = zip(parts, ctx.rows, strict=True)
        return None, None, *(part.reshape(shape).to(dtype) for part, (shape, dtype) in given)
