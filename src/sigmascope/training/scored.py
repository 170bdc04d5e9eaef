"""An activation with its score, as an explicit module for training steps that are compiled."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from sigmascope.errors import InputError, NoActivationError, OptionError
from sigmascope.maths.population import samples_needed
from sigmascope.training.running_scores import (
    EPS,
    attached,
    kept_share,
    scores_with_gradient,
    slopes,
    stacked,
    sums_of,
)
from sigmascope.training.site_rows import dtype_of_loss, on_grid


class Scored(nn.Module):
    r"""An activation that computes its own affinity score, with a gradient, in training mode.

    It has no hooks and no modes, so that a step around it can be compiled as a whole. The score is
    that of `sigmascope.AffinityPenalty` with block=None, computed in every step unless
    `sigmascope.nn.set_scoring` says otherwise. Add the penalty of all such modules by
    `sigmascope.nn.affinity_penalty(model)`.

    Args:
        activation: a module whose output has the shape of its input.
        channels: the number of channels, for running sums where a batch has fewer than 4 samples
            per channel; by default the batch alone is scored, and must have 2.5 per channel.
        channel_axis: the axis of the channels; that of the samples is 0.
        samples: "batch" for the mean over all positions, or "positions" for up to 16 positions of
            each sample on a fixed grid.
        eps: see `sigmascope.AffinityPenalty`.

    Attributes:
        score: of the last forward pass in training mode; NaN where there is none, as of a constant
            output, or while running sums hold too few samples.
        active: whether scores are computed, see `sigmascope.nn.set_scoring`.

    >>> model = nn.Sequential(nn.Linear(4, 8), Scored(nn.ReLU()), nn.Linear(8, 2))
    >>> loss = model(torch.randn(64, 4)).square().mean() + affinity_penalty(model, weight=0.1)
    >>> loss.backward()
    """

    count: Tensor
    first: Tensor
    second: Tensor
    shift: Tensor

    def __init__(
        self,
        activation: nn.Module,
        channels: int | None = None,
        *,
        channel_axis: int = 1,
        samples: Literal["batch", "positions"] = "batch",
        eps: float = EPS,
    ) -> None:
        super().__init__()
        if samples not in ("batch", "positions"):
            raise OptionError(f"samples must be 'batch' or 'positions', got {samples!r:.80}.")
        if channel_axis == 0:
            raise OptionError("channel_axis=0 is the axis of the samples. Pass another one.")
        self.activation, self.channels = activation, channels
        self.channel_axis, self.samples, self.eps = channel_axis, samples, eps
        self.score: Tensor | None = None
        self.active = True
        if channels is not None:
            sizes = {"count": (), "first": (2 * channels,), "second": (2 * channels, 2 * channels)}
            for name, size in {**sizes, "shift": (2 * channels,)}.items():
                zeros = torch.zeros(1, *size, dtype=torch.float64)
                self.register_buffer(name, zeros, persistent=False)

    def extra_repr(self) -> str:
        """Return what is not the default, for `repr`."""
        return f"channel_axis={self.channel_axis}, samples={self.samples!r}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "score": None}  # it belongs to a graph, which cannot be copied

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of x, and keep its score in training mode."""
        if not self.training:
            y: Tensor = self.activation(x)
            return y
        if not self.active:
            self.score = None  # that of an earlier step belongs to a graph which is gone
            y = self.activation(x)
            return y
        before, dtype = self._rows(x), dtype_of_loss(x)  # first: it may be overwritten
        y = self.activation(x)
        with torch.autocast(x.device.type, enabled=False):
            self.score = self._scored(stacked([(before, self._rows(y))])).to(dtype)
        return y

    def _rows(self, tensor: Tensor) -> Tensor:
        moved = tensor.movedim(self.channel_axis, -1)
        precise = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        if self.samples == "positions":
            return on_grid(moved, 0.5).flatten(0, -2).to(precise, copy=True)
        if moved.ndim == 2:
            return moved.to(precise, copy=True)
        return moved.flatten(1, -2).mean(1, dtype=precise)

    def _scored(self, rows: Tensor) -> Tensor:
        """Return the score of rows (1, n, 2d), a scalar."""
        n, channels = rows.shape[1], rows.shape[2] // 2
        kept, needed = kept_share(n, channels), samples_needed(channels)
        if self.channels is None and n < needed:
            raise InputError(
                f"{n} samples are too few for {channels} channels: {needed} would do. Pass "
                f"channels={channels} for running sums, or samples='positions'."
            )
        known = rows.detach()
        if self.channels is None or not kept:
            known = known - known[:, :1]
            count, first, second = sums_of(known)
        else:
            with torch.no_grad():
                started = self.count > 0
                self.shift.copy_(torch.where(started[:, None], self.shift, known[:, 0]))
                known = known - self.shift[:, None]
                for old, new in zip(self._sums(), sums_of(known), strict=True):
                    old.mul_(kept).add_(new)
            count, first, second = (one.clone() for one in self._sums())
        score, gradients = scores_with_gradient(count, first, second, eps=self.eps)
        score = score.where(count >= needed, torch.nan)[0]
        slope = torch.nan_to_num(slopes(known, gradients, count, first))
        slope = slope * torch.isfinite(score)
        return attached(score, slope.flatten(), [rows])

    def _sums(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.count, self.first, self.second


def affinity_penalty(
    model: nn.Module, *, weight: float = 0.1, target: float | None = None
) -> Tensor:
    """Return the penalty of all `Scored` activations of a network after a forward pass.

    It is `weight` times the mean of 1 - score, or of (score - target)², over those with a score,
    and 0 while `set_scoring` has turned all of them off.

    Raises:
        NoActivationError: the network has no `Scored` activation that ran in training mode.

    >>> network = nn.Sequential(nn.Linear(4, 8), Scored(nn.ReLU()), nn.Linear(8, 2))
    >>> loss = network(torch.randn(64, 4)).square().mean()
    >>> (loss + affinity_penalty(network, weight=0.1)).backward()
    """
    found = [one for one in model.modules() if isinstance(one, Scored)]
    scores = [one.score for one in found if one.score is not None]
    active = [one.active for one in found]
    if active and not any(active):
        tensor = next(model.parameters(), None)
        return torch.zeros((), device=None if tensor is None else tensor.device)
    if not scores:
        raise NoActivationError(
            "no sg.nn.Scored activation of the network has run in training mode. Put it around the "
            "activations, and run the network first."
        )
    together = torch.stack([score.to(scores[-1].device) for score in scores])
    sound = torch.isfinite(together)
    known = together.where(sound, 0.0)
    terms = 1 - known if target is None else (known - target).square()
    return weight * (terms * sound).sum() / sound.sum().clamp_min(1)


def set_scoring(model: nn.Module, active: bool) -> None:
    """Turn the scores of all `Scored` activations of a network on or off, to save time.

    Call it between steps, not in a compiled one, to have a penalty in each k-th step only. There is
    no count of steps in the modules themselves, since a number that changes would make
    `torch.compile` compile every step anew; with this there are two graphs, with scores and
    without. Make the weight k times as large.

    >>> model = nn.Sequential(nn.Linear(4, 8), Scored(nn.ReLU()), nn.Linear(8, 2))
    >>> for step in range(8):
    ...     set_scoring(model, step % 4 == 0)
    ...     loss = model(torch.randn(64, 4)).square().mean() + affinity_penalty(model, weight=0.4)
    >>> model[1].score is None
    True
    """
    for one in model.modules():
        if isinstance(one, Scored):
            one.active = active
