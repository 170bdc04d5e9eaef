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
    return max(0.0, 1 - rows / _horizon(channels))


def _horizon(channels: int) -> int:
    return max(LEAST, HORIZON * channels)


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
        self.sums: tuple[Tensor, ...] = ()  # count (s,), rows (s, 2d), their products (s, 2d, 2d)
        self.results: tuple[Tensor, ...] = ()  # scores (s,), gradients (s, 2d, 2d)
        self._shift: Tensor | None = None

    @property
    def needed(self) -> int:
        """The number of rows that a score needs."""
        return samples_needed(self.channels)

    @property
    def is_ready(self) -> bool:
        """Whether there are rows enough."""
        return self.rows >= self.needed

    def add(self, rows: Tensor) -> Tensor:
        """Add rows (s, n, 2d) to the sums; return them as they were added, shifted."""
        rows, kept = rows.detach(), kept_share(rows.shape[1], self.channels)
        if self._shift is None or not kept:
            # One of the samples, from which a constant column, however large, differs by nothing.
            self._shift = rows[:, :1]
        rows = rows - self._shift
        new = sums_of(rows)
        if not self.sums or not kept:
            self.sums = new
        else:
            for old, one in zip(self.sums, new, strict=True):
                old.mul_(kept).add_(one)
        self.rows = kept * self.rows + rows.shape[1]
        return rows

    def solve(self, count: Tensor, first: Tensor, second: Tensor) -> None:
        """Compute the results of sums, those of `sums` or equal ones, in place."""
        found = scores_with_gradient(count, first, second, eps=self.eps)
        for place, value in zip(self.results, found, strict=True):
            place.copy_(value)

    def slope(self, rows: Tensor) -> Tensor:
        """Return d score / d rows (s, n, 2d) of what `add` returned, from the results."""
        count, first, _ = self.sums
        return slopes(rows, self.results[1], count, first)

    def prepare(self) -> None:
        """Make room for results, if there is none."""
        if not self.results:
            count, _, second = self.sums
            self.results = torch.zeros_like(count), torch.zeros_like(second)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the sums."""
        shift = None if self._shift is None else self._shift.clone()
        return {"rows": self.rows, "shift": shift, "sums": [one.clone() for one in self.sums]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with copies of the sums of `state_dict`, on the device where they are."""
        self.rows = float(state["rows"])
        self._shift = None if state["shift"] is None else state["shift"].clone()
        self.sums, self.results = tuple(one.clone() for one in state["sums"]), ()


class Solver:
    """Computes the results of several `RunningScores`.

    On a GPU these are hundreds of small products, which take longer to launch than to compute: they
    are captured once, side by side, and replayed.
    """

    def __init__(self) -> None:
        self._steps: dict[tuple[int, ...], Step] = {}
        self._streams: list[torch.cuda.Stream] = []

    def __call__(self, running: Sequence[RunningScores]) -> None:
        """Compute the results of those that have rows enough."""
        ready = [one for one in running if one.is_ready]
        for one in ready:
            one.prepare()
        for device in dict.fromkeys(one.sums[0].device for one in ready):
            self._solve([one for one in ready if one.sums[0].device == device])
        for one in ready:
            one.scores = one.results[0].clone()

    def _solve(self, due: Sequence[RunningScores]) -> None:
        # no capture inside of another
        if not due[0].sums[0].is_cuda or torch.cuda.is_current_stream_capturing():
            for one in due:
                one.solve(*one.sums)
            return
        key = tuple(map(id, due))
        if key not in self._steps:
            self._steps[key] = Step(
                lambda *sums: self._side_by_side(due, sums),
                lambda: [result for one in due for result in one.results],
            )
        self._steps[key](*(value for one in due for value in one.sums))

    def _side_by_side(self, due: Sequence[RunningScores], sums: Sequence[Tensor]) -> None:
        """Solve each on a stream of its own, since one alone leaves most of a GPU idle."""
        while len(self._streams) < len(due):
            self._streams.append(torch.cuda.Stream())  # type: ignore[no-untyped-call]
        main = torch.cuda.current_stream()
        for number, (one, stream) in enumerate(zip(due, self._streams, strict=False)):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                one.solve(*sums[3 * number : 3 * number + 3])
        for stream in self._streams[: len(due)]:
            main.wait_stream(stream)


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
