"""Training and tuning for the experiment with linearized activations: all images on the device, and
a teacher's answers to all views of them are kept.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from linearize_networks import Recipe
from linearize_views import Images, Views
from torch import Tensor, nn

from sigmascope.training.cuda_graph import Step, optimizer_tensors

Maps = Mapping[str, tuple[Tensor, Tensor, int]]  # site -> scale, shift, axis of the channels


class OutOfTime(Exception):  # noqa: N818 (not an error: the run goes on later)
    """The deadline has passed; what is needed to go on is written."""


class Fading(nn.Module):
    """Turns from an activation into an affine map of the channels as `share` goes from 0 to 1.

    Parameters are rounded to the dtype of the input, so that half precision stays half. Where a
    flag `removed` is 0 it stays an activation, whatever the share.
    """

    def __init__(
        self,
        activation: nn.Module,
        scale: Tensor,
        shift: Tensor,
        axis: int,
        share: Tensor,
        *,
        removed: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.activation, self.axis, self.share = activation, axis, share
        self.scale = nn.Parameter(scale.detach().float().clone())
        self.shift = nn.Parameter(shift.detach().float().clone())
        self.register_buffer("removed", removed, persistent=False)
        self.is_done = False

    def forward(self, x: Tensor) -> Tensor:
        shape = (-1, *(1,) * (x.ndim - 1 - self.axis % x.ndim))
        scale, shift = self.scale.to(x.dtype).view(shape), self.shift.to(x.dtype).view(shape)
        mapped = torch.addcmul(shift, x, scale)
        if self.is_done:
            return mapped
        share = self.share if self.removed is None else self.share * self.removed
        return torch.lerp(self.activation(x), mapped, share.to(x.dtype))


def replaced(
    model: nn.Module, maps: Maps, build: Callable[[nn.Module, Tensor, Tensor, int], nn.Module]
) -> nn.Module:
    """Return a copy with another module, built from activation and map, at each site."""
    made = copy.deepcopy(model)
    device = next(model.parameters()).device
    for name, (scale, shift, axis) in maps.items():
        parent, _, leaf = name.rpartition(".")
        new = build(made.get_submodule(name), scale.to(device), shift.to(device), axis)
        setattr(made.get_submodule(parent), leaf, new)
    return made


def linearized(model: nn.Module, sites: list[str], maps: Maps) -> tuple[nn.Module, Tensor]:
    """Return a copy with fading activations at the sites, and the share, a 0-d tensor of 1."""
    share = torch.ones((), device=next(model.parameters()).device)
    chosen = {name: maps[name] for name in sites}
    made = replaced(model, chosen, lambda *parts: Fading(*parts, share))
    for name in sites:
        made.get_submodule(name).is_done = True
    return made, share


def one_cycle(done: float, recipe: Recipe) -> float:
    """Return the rate after a share of all steps."""
    if done < recipe.warm:
        return recipe.rate * (0.04 + 0.96 * done / recipe.warm)
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * (done - recipe.warm) / (1 - recipe.warm)))


class Training:
    """Trains a network by a recipe; on a GPU the step is captured once and replayed.

    Args:
        model: is changed.
        recipe: how.
        images: all of them.
        seed: of the views.
        teacher: (epochs, n, classes), the logits of the original for these views; None without.
        share: of the activations that fade; None if there are none.
        compile_with: the backend of torch.compile; empty for none.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        images: Images,
        *,
        seed: int,
        teacher: Tensor | None = None,
        share: Tensor | None = None,
        compile_with: str = "",
    ) -> None:
        self.device = images.labels.device
        self.on_gpu = self.device.type == "cuda"
        self.model = model.to(memory_format=torch.channels_last)
        self.forward: Any = self.model
        if compile_with:
            torch._dynamo.reset()  # the last network counts as another version of this one
            # for each batch size anew: with dynamic shapes the kernels are slower
            self.forward = torch.compile(self.model, backend=compile_with, dynamic=False)
        self.recipe, self.images, self.share = recipe, images, share
        # those that are removed for good become maps; those with a flag keep their operators
        fading = (one for one in model.modules() if isinstance(one, Fading))
        self.fading = [one for one in fading if one.removed is None]
        self.rate = torch.zeros((), device=self.device)
        self.loss = torch.zeros((), device=self.device)
        self.parameters = list(model.parameters())
        self.optimizer = self._optimizer()
        self._captured: dict[tuple[object, ...], Step] = {}
        self.begin(recipe, seed=seed, teacher=teacher)

    def begin(self, recipe: Recipe, *, seed: int, teacher: Tensor | None = None) -> None:
        """Start anew from the weights that the network has now; the optimizer must be the same."""
        assert (recipe.optimizer, recipe.decay) == (self.recipe.optimizer, self.recipe.decay)
        self.recipe, self.seed = recipe, seed
        self.teacher = None if recipe.distill == 0 else teacher
        self.batches = len(self.images) // recipe.batch
        self.steps, self.step, self.seconds = max(1, round(recipe.epochs * self.batches)), 0, 0.0
        self.losses: list[float] = []
        with torch.no_grad():  # in place: a captured step knows these tensors
            for moment in optimizer_tensors(self.optimizer):
                moment.zero_()

    def _one_step(self) -> Step:
        """Return the step, which is captured once for each form of the loss."""
        recipe = self.recipe
        form = (self.teacher is None, recipe.batch, recipe.smoothing, recipe.clip)
        form += (recipe.distill, recipe.temperature)
        if form not in self._captured:
            self._captured[form] = Step(self._run, self._changed)
        return self._captured[form]

    def _optimizer(self) -> torch.optim.Optimizer:
        decayed = [p for p in self.parameters if p.ndim > 1]
        others = [p for p in self.parameters if p.ndim <= 1]
        groups = [
            {"params": decayed, "weight_decay": self.recipe.decay},
            {"params": others, "weight_decay": 0.0},
        ]
        fused = self.on_gpu
        if self.recipe.optimizer == "sgd":
            return torch.optim.SGD(groups, lr=self.rate, momentum=0.9, nesterov=True, fused=fused)
        return torch.optim.AdamW(groups, lr=self.rate, capturable=fused, fused=fused)

    def _run(self, chosen: Tensor, rows: Tensor, columns: Tensor, told: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=False)
        x, labels = self.images.view(chosen, rows, columns), self.images.labels[chosen]
        with torch.autocast(
            self.device.type, torch.bfloat16, cache_enabled=False, enabled=self.on_gpu
        ):
            logits = self.forward(x).float()
        loss = F.cross_entropy(logits, labels, label_smoothing=self.recipe.smoothing)
        if self.teacher is not None:
            heat, share = self.recipe.temperature, self.recipe.distill
            wanted = (told.float() / heat).softmax(1)
            apart = F.kl_div((logits / heat).log_softmax(1), wanted, reduction="batchmean")
            loss = (1 - share) * loss + share * heat**2 * apart
        loss.backward()
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip, foreach=True)
        self.optimizer.step()
        self.loss.add_(loss.detach())

    def _changed(self) -> list[Tensor]:
        held = [*self.model.parameters(), *self.model.buffers(), self.loss]
        held += [p.grad for p in self.parameters if p.grad is not None]
        return [*held, *optimizer_tensors(self.optimizer)]

    def _fade(self) -> bool:
        """Set the share for the next step; return whether the step has become another one."""
        if self.share is None:
            return False
        faded = self.step / (self.recipe.fade * self.steps) if self.recipe.fade else 1.0
        self.share.fill_(1 - max(0.0, 1 - faded) ** self.recipe.ease)
        if not self.fading:
            return False
        was, now = all(one.is_done for one in self.fading), faded >= 1
        for one in self.fading:
            one.is_done = now
        return was != now

    def run(self, *, deadline: float = math.inf, partial: Path | None = None) -> None:
        """Train to the end, or until the deadline, and go on from a partial file that is there.

        Raises:
            OutOfTime: an epoch has ended after the deadline.
        """
        if partial is not None and partial.exists():
            self._restore(partial)
        started, before = time.monotonic(), self.seconds
        self.model.train()
        while self.step < self.steps:
            epoch = self.step // self.batches
            views = Views.of(len(self.images), self.seed, epoch, self.device)
            self.loss.zero_()
            first = self.step
            for batch in views.batches(self.recipe.batch, whole=True):
                if self._fade():
                    self._captured.clear()  # the network runs other operators
                self.rate.fill_(one_cycle(self.step / self.steps, self.recipe))
                told = batch[0] if self.teacher is None else self.teacher[epoch][batch[0]]
                self._one_step()(*batch, told)
                self.step += 1
                if self.step == self.steps:
                    break
            self.losses.append(round(float(self.loss) / (self.step - first), 4))
            self.seconds = before + time.monotonic() - started
            if self.step < self.steps and time.monotonic() > deadline:
                if partial is not None:
                    self._save(partial)
                raise OutOfTime("the deadline has passed")
        for one in self.fading:
            one.is_done = True
        if partial is not None:
            partial.unlink(missing_ok=True)

    def _save(self, path: Path) -> None:
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimizer": [dict(self.optimizer.state[p]) for p in self.parameters],
            "step": self.step,
            "steps": self.steps,
            "seconds": self.seconds,
            "losses": self.losses,
        }
        save_whole(state, path)

    def _restore(self, path: Path) -> None:
        held = torch.load(path, map_location=self.device, weights_only=True)
        if held["steps"] != self.steps:
            raise SystemExit(f"{path}: written with another number of epochs; remove it")
        self.model.load_state_dict(held["model"])
        for parameter, state in zip(self.parameters, held["optimizer"], strict=True):
            for name, value in state.items():
                kept = self.optimizer.state[parameter].setdefault(name, value)
                if isinstance(kept, Tensor) and kept is not value:
                    kept.copy_(value)  # in place: a captured step knows it
        self.step, self.seconds, self.losses = held["step"], held["seconds"], held["losses"]


def save_whole(value: object, path: Path) -> None:
    """Write a file under a temporary name first, so that it is always complete."""
    new = path.with_name(f"{path.name}.new")
    torch.save(value, new)
    new.replace(path)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor, *, half: bool = False) -> float:
    """Return the percentage of images (n, 3, 32, 32) put into the right class; `half` on a GPU."""
    model.eval()
    right = torch.zeros((), dtype=torch.long, device=labels.device)
    for x, y in zip(images.split(2500), labels.split(2500), strict=True):
        on = half and x.is_cuda
        with torch.autocast(x.device.type, torch.bfloat16, enabled=on):
            logits = model(x.contiguous(memory_format=torch.channels_last))
        right += (logits.argmax(1) == y).sum()
    return 100 * int(right) / len(labels)


@torch.no_grad()
def answers(model: nn.Module, images: Images, *, seed: int, epochs: int) -> Tensor:
    """Return (epochs, n, classes), float16: the logits for all views of so many epochs."""
    model.eval()
    on_gpu, told = images.labels.is_cuda, []
    for epoch in range(epochs):
        views = Views.of(len(images), seed, epoch, images.labels.device)
        logits: Tensor | None = None
        for batch in views.batches(1000, whole=False):
            with torch.autocast(images.labels.device.type, torch.bfloat16, enabled=on_gpu):
                part = model(images.view(*batch)).half()
            logits = part.new_zeros(len(images), part.shape[1]) if logits is None else logits
            logits[batch[0]] = part
        assert logits is not None
        told.append(logits)
    return torch.stack(told)
