"""Training the part of a network that runs after a layer."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.dissection.settings import FineTuning
from sigmascope.errors import InputError
from sigmascope.training.cuda_graph import Step, optimizer_tensors
from sigmascope.training.evaluation import accuracy, diverged
from sigmascope.training.feed import Feed, Feeds


def modules_behind(network: nn.Module, layer: str, inputs: Tensor) -> list[nn.Module]:
    """Return the modules that first run after a layer, with parts that are used without a call."""
    first: dict[nn.Module, int] = {}
    ended: list[int] = []

    def note(module: nn.Module, *_: object) -> None:
        first.setdefault(module, len(first))

    handles = [module.register_forward_pre_hook(note) for module in network.modules()]
    handles.append(
        network.get_submodule(layer).register_forward_hook(lambda *_: ended.append(len(first)))
    )
    try:
        with preserve_state(network, mode="eval"):
            network(inputs)
    finally:
        for handle in handles:
            handle.remove()
    if not ended:
        raise InputError(f"the layer {layer} never runs. Choose another.")
    called = [module for module, place in first.items() if place >= ended[0]]
    # Such as the projection of nn.MultiheadAttention, whose weights are used without a call.
    parts = (part for module in called for part in module.modules())
    return [*called, *dict.fromkeys(part for part in parts if part not in first)]


class FineTuner:
    """Trains the modules behind a layer; all others are frozen, batch norms included.

    Attributes:
        parameters: those that are trained.
        history: accuracies in percent, before training and after each epoch.
        best_epoch: from 1; 0 if none was better than the network before training.
    """

    def __init__(
        self, network: nn.Module, layer: str, inputs: Tensor, settings: FineTuning, seed: int
    ) -> None:
        self._network, self._settings, self._seed = network, settings, seed
        self._behind = modules_behind(network, layer, inputs)
        self.history: list[float] = []
        self.best_epoch = 0
        network.requires_grad_(False)
        groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
        for module in self._behind:
            for name, parameter in module.named_parameters(recurse=False):
                parameter.requires_grad_(True)
                groups["weight" in name].append(parameter)
        self.parameters = [*groups[True], *groups[False]]
        if not self.parameters:
            raise InputError(f"nothing behind {layer} has parameters. Choose an earlier layer.")
        options: list[dict[str, Any]] = [
            {"params": groups[True], "weight_decay": settings.decay},
            {"params": groups[False]},
        ]
        device = self.parameters[0].device
        on_gpu = device.type == "cuda"
        # A captured step knows the rate by address, so on a GPU it is a tensor.
        rate = torch.tensor(settings.rate, device=device) if on_gpu else settings.rate
        self._optimizer = torch.optim.Adam(options, lr=rate, capturable=on_gpu)
        self._loss_sum = torch.zeros((), device=device)
        self._step = Step(self._once, self._tensors)

    def epochs(self, feeds: Feeds) -> Iterator[float]:
        """Train; yield the accuracy after each epoch; in the end restore the best one."""
        self.history.append(accuracy(self._network, feeds.chosen))
        best = copy.deepcopy(self._network.state_dict())
        for epoch in range(self._settings.epochs):
            self._train(feeds.train, epoch)
            self._check(epoch)
            self.history.append(accuracy(self._network, feeds.chosen))
            earlier = self.history[self._settings.least_epoch : -1]
            if self.history[-1] > max(earlier, default=-math.inf):
                self.best_epoch, best = epoch + 1, copy.deepcopy(self._network.state_dict())
            yield self.history[-1]
        self._network.load_state_dict(best)

    def _train(self, train: Feed, epoch: int) -> None:
        rate = self._settings.rate_at(epoch)
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self._network.eval()
        for module in self._behind:
            module.training = True
        seed = (self._seed * 1_000_003 + epoch) % 2**64
        for _, inputs, labels in train.shuffled(self._settings.batch, seed):
            self._step(inputs, labels)
        self._network.eval()

    def _check(self, epoch: int) -> None:
        """Raise an InputError if the numbers are no longer finite."""
        if lost := diverged({"the loss": [self._loss_sum], "a weight": self.parameters}):
            raise InputError(
                f"training diverged in epoch {epoch + 1}: {' and '.join(lost)} became infinite or "
                f"NaN. Pass a rate below {self._settings.rate:g}, or a network in float32 if it is "
                "in half precision."
            )
        self._loss_sum.zero_()

    def _once(self, inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(self._network(inputs), labels)
        self._loss_sum.add_(loss.detach())
        # Parameters that the network does not use, such as an inactive head, get no gradient.
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self._optimizer.step()

    def _tensors(self) -> list[Tensor]:
        """Return all tensors that a step changes."""
        own = [*self.parameters, *self._network.buffers(), self._loss_sum]
        return own + optimizer_tensors(self._optimizer)
