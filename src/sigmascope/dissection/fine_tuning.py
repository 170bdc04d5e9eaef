"""Training the part of a network that runs behind a layer."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.dissection.settings import FineTuning
from sigmascope.errors import InputError, NetworkError
from sigmascope.stitching.data import Feed, StitchData, check_labels, divided
from sigmascope.stitching.replay import Step

__all__ = ["Tuning", "accuracy", "check_classes", "feeds", "modules_behind"]

EVALUATION = 500


def modules_behind(network: nn.Module, layer: str, inputs: Tensor) -> list[nn.Module]:
    """Return the modules that first run after a layer has run, with those inside them that are
    used without being called.

    Raises:
        InputError: the layer does not run.
    """
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
        raise InputError(f"the layer {layer} does not run. Choose another.")
    called = [module for module, place in first.items() if place >= ended[0]]
    # Such as the projection of nn.MultiheadAttention, of which only the weights are used.
    used = dict.fromkeys(
        part for module in called for part in module.modules() if part not in first
    )
    return [*called, *used]


class Tuning:
    """Trains the modules behind a layer; all else is frozen, batch norms included.

    Attributes:
        parameters: those that are trained.
        history: accuracies in percent, before training and after each epoch.
        best_epoch: from 1; 0 if none was better than the beginning.
    """

    def __init__(
        self, network: nn.Module, layer: str, inputs: Tensor, settings: FineTuning, seed: int
    ) -> None:
        self._network, self._settings, self._seed = network, settings, seed
        self._behind = modules_behind(network, layer, inputs)
        self.history: list[float] = []
        self.best_epoch = 0
        for parameter in network.parameters():
            parameter.requires_grad_(False)
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
        on_gpu = self.parameters[0].is_cuda
        # A captured step knows the rate by address, so there it is a tensor.
        rate = (
            torch.tensor(settings.rate, device=self.parameters[0].device)
            if on_gpu
            else settings.rate
        )
        self._optimizer = torch.optim.Adam(options, lr=rate, capturable=on_gpu)
        self._loss_sum = torch.zeros((), device=self.parameters[0].device)
        self._step = Step(self._once, self._tensors)

    def epochs(self, train: Feed, chosen: Feed) -> Iterator[float]:
        """Train, yield the accuracy after each epoch, and leave the network as it was at the best one."""
        self.history.append(accuracy(self._network, chosen))
        best = copy.deepcopy(self._network.state_dict())
        for epoch in range(self._settings.epochs):
            self._train(train, epoch)
            self._check(epoch)
            self.history.append(accuracy(self._network, chosen))
            if self.history[-1] > max(
                self.history[self._settings.least_epoch : -1], default=-math.inf
            ):
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
        for _, inputs, labels in train.shuffled(
            self._settings.batch, self._seed * 1_000_003 + epoch
        ):
            self._step(inputs, labels)
        self._network.eval()

    def _check(self, epoch: int) -> None:
        """Give up if the numbers are no longer finite.

        Raises:
            InputError: they are not.
        """
        found: dict[str, Sequence[Tensor]] = {
            "the loss": [self._loss_sum],
            "a weight": self.parameters,
        }
        lost = [
            name
            for name, tensors in found.items()
            if not all(bool(one.isfinite().all()) for one in tensors)
        ]
        if lost:
            raise InputError(
                f"training diverged in epoch {epoch + 1}: {' and '.join(lost)} became "
                "infinite or NaN. Pass a lower rate than "
                f"rate={self._settings.rate:g}, or a network in float32 if it is in half precision."
            )
        self._loss_sum.zero_()

    def _once(self, inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(self._network(inputs), labels)
        self._loss_sum.add_(loss.detach())
        # One that the network does not use, such as a head that is off, gets no gradient and stays.
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self._optimizer.step()

    def _tensors(self) -> list[Tensor]:
        """Return all tensors that a step changes."""
        moments = [
            one
            for held in self._optimizer.state.values()
            for one in held.values()
            if isinstance(one, Tensor)
        ]
        return [*self.parameters, *self._network.buffers(), self._loss_sum, *moments]


def check_classes(network: nn.Module, inputs: Tensor, data: StitchData) -> None:
    """Raise unless every label is one of the classes of a network.

    Raises:
        InputError: naming the least and the largest label, and the number of classes.
        NetworkError: the network does not put out logits.
    """
    with preserve_state(network, mode="eval"):
        logits = network(inputs)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise NetworkError(
            "the network does not put out one tensor (n, classes). Wrap it so that it "
            "returns its logits."
        )
    for _, labels in (data.train, data.test):
        check_labels(labels, logits.shape[1])


def accuracy(network: nn.Module, feed: Feed) -> float:
    """Return the accuracy of a network in evaluation mode, in percent: correct answers / all answers."""
    correct = torch.zeros((), dtype=torch.long, device=feed.labels.device)
    with preserve_state(network, mode="eval"):
        for _, inputs, labels in feed.batches(EVALUATION):
            correct += (network(inputs).argmax(dim=1) == labels).sum()
    return 100 * int(correct) / len(feed)


def feeds(
    data: StitchData,
    settings: FineTuning,
    seed: int,
    device: torch.device,
    dtype: torch.dtype | None,
) -> tuple[Feed, Feed, Feed]:
    """Return the samples to train on, to choose the epoch by, and to test on."""
    test = Feed(data.test, data, device, dtype)
    if settings.select_on == "test":
        return Feed(data.train, data, device, dtype), test, test
    kept, held = divided(len(data.train[1]), settings.validation, seed)
    return (
        Feed(data.train, data, device, dtype, kept),
        Feed(data.train, data, device, dtype, held),
        test,
    )
