"""One stitch in training: its layer, its own copy of the back, its optimizer and best epoch."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.stitching.families import FAMILIES, Family
from sigmascope.stitching.layer import Stitch, act
from sigmascope.stitching.permutations import projected_gradient
from sigmascope.stitching.settings import Settings
from sigmascope.training.cuda_graph import optimizer_tensors
from sigmascope.training.evaluation import diverged

Values = tuple[Tensor, ...]
"""What crosses from the front to the back, the value at the site first."""
Buffers = dict[str, Tensor]
"""Copies of the buffers of a network, by name."""


@dataclass(frozen=True)
class Epoch:
    """One epoch: its number from 1, whether scales were trained, its loss and accuracy.

    The loss is the mean cross-entropy; the accuracy, in percent, is on the samples on which the
    best epoch is selected.
    """

    number: int
    scaled: bool
    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A stitch at the end of an epoch, 0 if it is not trained, with buffers of both networks.

    `front` and `back` are as evaluated, `before` those of the back before they were adapted, from
    which training continues.
    """

    epoch: int
    accuracy: float
    scaled: bool
    stitch: dict[str, Tensor]
    front: Buffers
    back: Buffers
    before: Buffers


class StitchTrainer:
    """Trains one stitch of the family `name`, with its own copy of the second half of the back.

    Attributes:
        history: the epochs so far.
        best: the best epoch so far.
        reason: why training stopped early; empty if it did not.
        is_matched: whether it starts at a matching or a given element, itself a candidate.
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
        self.is_matched = self.family.start_at is not None and settings.start != "random"
        has_scales = self.family.scales is not None and not self.is_matched
        self.has_head_start = has_scales and settings.head_start > 0
        self.stitch.scaled = not self.has_head_start
        self.optimizer = self._new_optimizer()

    @property
    def adapts(self) -> bool:
        """Whether batch norms get new statistics before an evaluation."""
        wanted = self.settings.batch_norm_pass
        return self.family.adapts if wanted is None else wanted

    @property
    def is_active(self) -> bool:
        """Whether it is trained and has not diverged."""
        return self.family.is_trained and not self.reason

    @property
    def trained(self) -> list[Tensor]:
        """The parameters that the optimizer trains."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _new_optimizer(self) -> torch.optim.Optimizer:
        settings, scales = self.settings, self.family.scales
        rates = {} if settings.scale_rate is None else {scales: settings.scale_rate}
        decays = dict.fromkeys(self.family.decayed, settings.decay)
        groups = [
            {
                "params": [value],
                "lr": rates.get(name, settings.rate),
                "weight_decay": decays.get(name, 0.0),
            }
            for name, value in self.stitch.values.items()
            if value.requires_grad and (self.stitch.scaled or name != scales)
        ]
        on_gpu = next(self.stitch.parameters()).is_cuda
        if settings.optimizer == "adam":
            return torch.optim.Adam(groups, lr=settings.rate, capturable=on_gpu)
        return torch.optim.SGD(groups, lr=settings.rate, momentum=settings.momentum)

    def begin(self, epoch: int) -> bool:
        """Prepare an epoch, counted from 0; return whether a step now does something else."""
        if not self.has_head_start or self.stitch.scaled or epoch < self.settings.head_start:
            return False
        if self.best is not None:
            self.restore(self.best.stitch, self.best.before)
        self.stitch.scaled = True
        self.optimizer = self._new_optimizer()
        return True

    def step(self, values: Values, labels: Tensor) -> None:
        """Take one step on a batch; `values` come from the front, without a gradient."""
        value, *others = values
        logits = self.back(act(self.stitch.matrix(exact=False), value, self.stitch.style), *others)
        loss = F.cross_entropy(logits, labels)
        self.loss_sum.add_(loss.detach())
        term, trained = self.stitch.term(), self.trained
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
        self, epoch: int, steps: int, accuracy: float, front: Buffers, before: Buffers
    ) -> None:
        """Record an epoch, counted from 0, and keep it if it is the best."""
        loss = float(self.loss_sum) / max(steps, 1)
        self.loss_sum.zero_()
        scaled = self.stitch.scaled and self.family.scales is not None
        self.history.append(Epoch(epoch + 1, scaled, loss, accuracy))
        if self.best is None or accuracy > self.best.accuracy:
            self.best = self.snapshot(epoch + 1, accuracy, front, before)

    def snapshot(self, epoch: int, accuracy: float, front: Buffers, before: Buffers) -> Snapshot:
        """Return a copy of the state; `before` are the buffers of the back before adapting."""
        stitch = {name: value.detach().clone() for name, value in self.stitch.values.items()}
        scaled, back = self.stitch.scaled, buffers_of(self.back)
        return Snapshot(epoch, accuracy, scaled, stitch, front, back, before)

    @torch.no_grad()
    def restore(self, stitch: dict[str, Tensor], back: Buffers) -> None:
        """Overwrite parameters and buffers in place: a captured step knows them by address."""
        for name, value in stitch.items():
            self.stitch.values[name].copy_(value)
        set_buffers(self.back, back)

    def check(self, epoch: int) -> None:
        """Stop training, with a reason, if the numbers are no longer finite."""
        parts = {"the stitch": self.stitch.values.values(), "the loss": [self.loss_sum]}
        if lost := diverged(parts):
            verb = "are" if len(lost) > 1 else "is"
            self.reason = (
                f"training diverged in epoch {epoch + 1}: {' and '.join(lost)} {verb} not finite; "
                "a lower rate may help"
            )

    def tensors(self) -> list[Tensor]:
        """Return all tensors that a step changes."""
        own = [*self.stitch.values.values(), *self.back.buffers(), self.loss_sum]
        return own + optimizer_tensors(self.optimizer)


def buffers_of(network: nn.Module) -> Buffers:
    """Return copies of all buffers, by name."""
    return {name: value.detach().clone() for name, value in network.named_buffers()}


@torch.no_grad()
def set_buffers(network: nn.Module, buffers: Buffers) -> None:
    """Overwrite buffers in place by those of `buffers_of`."""
    own = dict(network.named_buffers())
    for name, value in buffers.items():
        own[name].copy_(value)
