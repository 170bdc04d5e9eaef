"""One stitch in training: its layer, its own copy of the back, its optimizer, and its best epochs."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.stitching.birkhoff import projected_gradient
from sigmascope.stitching.families import FAMILIES, Family
from sigmascope.stitching.layer import Stitch, act
from sigmascope.stitching.settings import Settings

__all__ = ["Epoch", "Seam", "Snapshot", "buffers_of", "put_buffers"]

Values = tuple[Tensor, ...]
"""What crosses from the front to the back, the value of the site first."""


@dataclass(frozen=True)
class Epoch:
    """One epoch of training.

    Attributes:
        number: from 1.
        scaled: whether scales were trained; False during a head start and for families without
            scales.
        loss: the mean cross-entropy.
        accuracy: in percent, on the data by which the best epoch is chosen.
    """

    number: int
    scaled: bool
    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A stitch as it was at the end of an epoch, with the running statistics that belong to it.

    Attributes:
        epoch: its number; 0 for a stitch that is not trained.
        accuracy: in percent, on the data by which the best epoch is chosen.
        scaled: whether scales are applied.
        stitch: the parameters.
        front: the buffers of the front.
        back: the buffers of the back; both as they were evaluated.
        before: the buffers of the back before they were adapted, from which training goes on.
    """

    epoch: int
    accuracy: float
    scaled: bool
    stitch: dict[str, Tensor]
    front: dict[str, Tensor]
    back: dict[str, Tensor]
    before: dict[str, Tensor]


class Seam:
    """A stitch that is trained.

    Args:
        stitch: the layer, on its device.
        back: the second half of the back; it is copied.
        name: of the family.
        settings: how it is trained.
    """

    def __init__(self, stitch: Stitch, back: nn.Module, name: str, settings: Settings) -> None:
        self.stitch, self.name, self.settings = stitch, name, settings
        self.back = copy.deepcopy(back)
        self.family: Family = FAMILIES[name]
        device = next(stitch.parameters()).device
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.history: list[Epoch] = []
        self.best: Snapshot | None = None
        self.reason = ""
        self.has_head_start = self.family.scales is not None and settings.head_start > 0
        self.stitch.scaled = not self.has_head_start
        self.optimizer = self._optimizer()

    @property
    def adapts(self) -> bool:
        """Whether batch norm gets new statistics before an evaluation."""
        wanted = self.settings.batch_norm_pass
        return self.family.adapts if wanted is None else wanted

    @property
    def is_active(self) -> bool:
        """Whether it is trained and has not diverged."""
        return self.family.is_trained and not self.reason

    def _optimizer(self) -> torch.optim.Optimizer:
        settings, scales = self.settings, self.family.scales
        rates = {scales: settings.rate if settings.scale_rate is None else settings.scale_rate}
        groups = [
            {
                "params": [value],
                "lr": rates.get(name, settings.rate),
                "weight_decay": settings.decay if name in self.family.decayed else 0.0,
            }
            for name, value in self.stitch.values.items()
            if value.requires_grad and (self.stitch.scaled or name != scales)
        ]
        on_gpu = next(self.stitch.parameters()).is_cuda
        if settings.optimizer == "adam":
            return torch.optim.Adam(groups, lr=settings.rate, capturable=on_gpu)
        return torch.optim.SGD(groups, lr=settings.rate, momentum=settings.momentum)

    def begin(self, epoch: int) -> bool:
        """Prepare for an epoch, counted from 0; say whether what a step does has changed."""
        if not self.has_head_start or self.stitch.scaled or epoch < self.settings.head_start:
            return False
        if self.best is not None:
            self.restore(self.best.stitch, self.best.before)
        self.stitch.scaled = True
        self.optimizer = self._optimizer()
        return True

    def step(self, values: Values, labels: Tensor) -> None:
        """Make one step on a batch; `values` come from the front without a gradient."""
        value, *others = values
        logits = self.back(act(self.stitch.matrix(exact=False), value, self.stitch.style), *others)
        loss = F.cross_entropy(logits, labels)
        self.loss_sum.add_(loss.detach())
        term = self.stitch.term()
        trained = [
            parameter for group in self.optimizer.param_groups for parameter in group["params"]
        ]
        gradients = torch.autograd.grad(loss if term is None else loss + term, trained)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.grad = gradient
        if self.name == "relu-group" and self.settings.projection == "gradient":
            self._project_gradients(trained)
        self.optimizer.step()
        self.stitch.project()

    @torch.no_grad()
    def _project_gradients(self, trained: list[Tensor]) -> None:
        for parameter in trained:
            if parameter.grad is not None:
                parameter.grad = projected_gradient(
                    parameter, parameter.grad, doubly_stochastic=parameter.ndim == 2
                )

    def note(
        self,
        epoch: int,
        steps: int,
        accuracy: float,
        front: dict[str, Tensor],
        before: dict[str, Tensor],
    ) -> None:
        """Note how an epoch, counted from 0, went, and keep it if it is the best."""
        loss = float(self.loss_sum) / max(steps, 1)
        self.loss_sum.zero_()
        scaled = self.stitch.scaled and self.family.scales is not None
        self.history.append(Epoch(epoch + 1, scaled, loss, accuracy))
        if self.best is None or accuracy > self.best.accuracy:
            self.best = self.snapshot(epoch + 1, accuracy, front, before)

    def snapshot(
        self, epoch: int, accuracy: float, front: dict[str, Tensor], before: dict[str, Tensor]
    ) -> Snapshot:
        """Copy the state: the stitch and the buffers as they are now, and those of the back
        `before` they were adapted.
        """
        stitch = {name: value.detach().clone() for name, value in self.stitch.values.items()}
        return Snapshot(
            epoch, accuracy, self.stitch.scaled, stitch, front, buffers_of(self.back), before
        )

    @torch.no_grad()
    def restore(self, stitch: dict[str, Tensor], back: dict[str, Tensor]) -> None:
        """Go back to parameters and buffers; they are overwritten, since a captured step knows them
        by address.
        """
        for name, value in stitch.items():
            self.stitch.values[name].copy_(value)
        put_buffers(self.back, back)

    def check(self, epoch: int) -> None:
        """Give up if the numbers are no longer finite."""
        found = {
            "the stitch": all(bool(value.isfinite().all()) for value in self.stitch.values.values())
        }
        found["the loss"] = math.isfinite(float(self.loss_sum))
        if lost := [name for name, finite in found.items() if not finite]:
            verb = "are" if len(lost) > 1 else "is"
            self.reason = (
                f"training diverged in epoch {epoch + 1}: {' and '.join(lost)} {verb} not "
                "finite; a lower rate may help"
            )

    def tensors(self) -> list[Tensor]:
        """Return all tensors that a step changes."""
        moments = [
            one
            for held in self.optimizer.state.values()
            for one in held.values()
            if isinstance(one, Tensor)
        ]
        return [*self.stitch.values.values(), *self.back.buffers(), self.loss_sum, *moments]


def buffers_of(network: nn.Module) -> dict[str, Tensor]:
    """Return copies of all buffers, by name."""
    return {name: value.detach().clone() for name, value in network.named_buffers()}


@torch.no_grad()
def put_buffers(network: nn.Module, buffers: dict[str, Tensor]) -> None:
    """Overwrite buffers by those of `buffers_of`."""
    found = dict(network.named_buffers())
    for name, value in buffers.items():
        found[name].copy_(value)
