"""The training loop of a tuning: epochs over batches, with or without a teacher."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.guard import flags_kept
from sigmascope.errors import GradientError, InputError, InputTypeError
from sigmascope.linearize.data import Data, labels_of, logits_of
from sigmascope.linearize.judging import Judgment, class_axis, judged
from sigmascope.linearize.maps import Affine
from sigmascope.linearize.tuned import TunedEpoch, TuneSettings
from sigmascope.measure.batches import Batch, place_of, to_model
from sigmascope.measure.copies import copy_of
from sigmascope.measure.digests import digest_of, digest_of_batch
from sigmascope.measure.progress import steps_of
from sigmascope.training.data import StitchData
from sigmascope.training.evaluation import diverged
from sigmascope.training.feed import Feed


class Epochs:
    """The training batches of every epoch.

    Two tensors (inputs, labels) are shuffled and augmented anew in every epoch. A loader yields its
    own batches, after torch, NumPy and Python were seeded.
    """

    def __init__(
        self, batches: Any, data: Data, settings: TuneSettings, network: nn.Module
    ) -> None:
        self._data, self._settings, self._network = data, settings, network
        self._feed = _feed_of(batches, settings, network)
        if self._feed is None and settings.augment != "none":
            raise InputError(
                f"augment={settings.augment!r} needs all samples as two tensors (inputs, labels). "
                "Pass those, or augment in the loader."
            )

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        if self._feed is not None:
            return self._feed.steps(self._settings.batch)
        return steps_of(self._data.items, None) or sum(1 for _ in self._data.items)

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield the batches of an epoch on the device of the network."""
        if self._feed is None:
            yield from self._data.batches(self._network)
            return
        for _, inputs, labels in self._feed.shuffled(self._settings.batch, seed):
            yield to_model((inputs, labels), self._network, batch_axis=0)

    def digest(self) -> str:
        """Return what tells the data from others: all samples, or those of the first batch."""
        if self._feed is not None:
            return digest_of([self._feed.inputs, self._feed.labels])
        first = next(iter(self._data.items), None)
        if first is None:
            raise InputError("batches holds no batch. Pass at least one.")
        return digest_of_batch(first)


def _feed_of(batches: Any, settings: TuneSettings, network: nn.Module) -> Feed | None:
    """Return the samples in two tensors, or None for batches of any other form."""
    if not isinstance(batches, tuple | list) or len(batches) != 2:
        return None
    if not all(isinstance(one, Tensor) for one in batches):
        return None
    inputs, labels = batches
    if labels.ndim != 1 or labels.is_floating_point() or len(labels) != len(inputs):
        return None
    if inputs.ndim == 1 and not inputs.is_floating_point():
        return None  # two batches of tokens
    samples = (inputs, labels)
    return Feed(samples, StitchData(samples, samples, augment=settings.augment), *place_of(network))


class Tuner:
    """Trains a network, for `done` epochs so far.

    Attributes:
        network: is changed.
        before: how good it was.
        history: the epochs so far.
        samples: seen in the last epoch.
    """

    def __init__(
        self,
        network: nn.Module,
        epochs: Epochs,
        data: Data,
        settings: TuneSettings,
        *,
        teacher: nn.Module | None = None,
        held_out: Data | None = None,
        seed: int = 0,
    ) -> None:
        self.network, self.settings = network, settings
        self.before, self.history, self.samples = Judgment(), list[TunedEpoch](), 0
        self._epochs, self._data, self._held_out = epochs, data, held_out
        self._teacher, self.seed = teacher, seed
        self._seed_all(-1)  # for loaders that are counted by reading them
        self.steps = len(epochs)
        self.trained = [one for one in network.parameters() if one.requires_grad]
        if not self.trained:
            raise InputError("no parameter of the network is trainable. Set requires_grad on some.")
        self.optimizer = self._new_optimizer()

    @property
    def done(self) -> int:
        """The number of epochs so far."""
        return len(self.history)

    def _new_optimizer(self) -> torch.optim.Optimizer:
        settings = self.settings
        # decay would draw a map to zero, which is no better than any other one
        affine = [one for one in self.network.modules() if isinstance(one, Affine)]
        maps = {id(parameter) for one in affine for parameter in one.parameters()}
        decayed = [one for one in self.trained if one.ndim > 1 and id(one) not in maps]
        chosen = {id(one) for one in decayed}
        others = [one for one in self.trained if id(one) not in chosen]
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": settings.decay},
            {"params": others, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        assert settings.rate is not None
        if settings.optimizer == "adamw":
            return torch.optim.AdamW(groups, lr=settings.rate)
        nesterov = settings.momentum > 0
        return torch.optim.SGD(
            groups, lr=settings.rate, momentum=settings.momentum, nesterov=nesterov
        )

    def digests(self) -> dict[str, str]:
        """Return what tells the data from others."""
        self._seed_all(-1)
        found = {"train": self._epochs.digest()}
        if self._held_out is not None:
            found["held_out"] = digest_of_batch(next(iter(self._held_out.items), None))
        return found

    def judge(self) -> Judgment:
        """Return how good the network is on the held-out batches; nothing without them."""
        return Judgment() if self._held_out is None else judged(self.network, self._held_out)

    def epoch(self, advance: Callable[[], None] = lambda: None) -> None:
        """Train for one epoch and judge the network."""
        seed = self._seed_all(self.done)
        self.network.train()
        total, steps, samples = torch.zeros((), dtype=torch.float64), 0, 0
        for batch in self._epochs.batches(seed):
            rate = self.settings.rate_at(
                self.done * self.steps + steps, self.settings.epochs * self.steps
            )
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            loss = self._step(batch)
            total = total.to(loss.device) + loss
            steps, samples = steps + 1, samples + batch.size
            advance()
        self._check(total)
        self.samples = samples
        self.history.append(TunedEpoch(self.done + 1, float(total) / max(1, steps), self.judge()))

    def _step(self, batch: Batch) -> Tensor:
        """Take one step; return the loss."""
        # the network may overwrite its input, which the teacher reads
        content = batch.content if self._teacher is None else copy_of(batch.content)
        try:
            outputs = self._data.forward(self.network, content)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise InputError(
                "a batch has a single sample, which batch norm cannot be trained on. Pass larger "
                "batches, or a loader with drop_last=True."
            ) from error
        loss = self._loss(outputs, batch)
        if not loss.requires_grad:
            raise GradientError(
                "the loss has no gradient. The network or loss= must not detach its outputs."
            )
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.settings.clip:
            nn.utils.clip_grad_norm_(self.trained, self.settings.clip)
        self.optimizer.step()
        return loss.detach()

    def _loss(self, outputs: Any, batch: Batch) -> Tensor:
        share = self.settings.distill if self._teacher is not None else 0.0
        parts, labels = [], labels_of(batch.content)
        if labels is None and 0 < share < 1:
            raise InputError(
                "the batches have no labels. Pass distill=1.0 to learn from the teacher alone, or "
                "batches (inputs, labels)."
            )
        if share < 1:
            parts.append((1 - share) * self._data.loss_of_outputs(outputs, batch))
        if self._teacher is not None and share > 0:
            wanted = self._wanted(self._teacher, batch)
            soft = soft_loss(outputs, wanted, labels, self.settings.temperature)
            parts.append(share * soft)
        return torch.stack(parts).sum()

    @torch.no_grad()
    def _wanted(self, teacher: nn.Module, batch: Batch) -> Any:
        """Return the outputs of the teacher."""
        try:
            return self._data.forward(teacher, batch.content)
        except RuntimeError as error:
            raise InputError(
                f"the teacher does not run on the batches ({' '.join(str(error).split()):.200}). "
                "Pass a teacher that takes the same inputs as the network."
            ) from error

    def _check(self, total: Tensor) -> None:
        """Raise an InputError if the numbers are no longer finite."""
        if lost := diverged({"the loss": [total], "a weight": self.trained}):
            raise InputError(
                f"tuning diverged in epoch {self.done + 1}: {' and '.join(lost)} became infinite "
                f"or NaN. Pass a rate below {self.settings.rate:g}; data with NaN does this, too."
            )

    def _seed_all(self, epoch: int) -> int:
        """Seed torch, NumPy and Python for an epoch, so that a run can continue from any."""
        return seed_all((self.seed * 1_000_003 + epoch + 1) % 2**63)


def seed_all(seed: int) -> int:
    """Seed torch, NumPy and Python, and return the seed."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    return seed


@contextmanager
def teaching(teacher: nn.Module | None) -> Iterator[None]:
    """Keep a teacher in evaluation mode; restore its modes afterwards."""
    if teacher is None:
        yield
        return
    with flags_kept(teacher) as modules:
        for module in modules:
            if module.training:
                module.training = False
        yield


def soft_loss(outputs: Any, wanted: Any, labels: Any, temperature: float) -> Tensor:
    """Return T² · mean over samples of KL(softmax(t / T) ‖ softmax(s / T)).

    t are the logits of the teacher, s those of the student (Hinton et al., 2015, arXiv:1503.02531).
    The factor T² keeps the gradients in proportion to those of the labels.

    >>> logits = torch.tensor([[1.0, 0.0]])
    >>> float(soft_loss(logits, logits, None, 4.0))
    0.0
    """
    student, teacher = logits_of(outputs), logits_of(wanted)
    if not isinstance(student, Tensor) or not isinstance(teacher, Tensor):
        raise InputTypeError(
            f"outputs of type {type(outputs).__name__} have no logits to learn from. Leave "
            "teacher= out, or pass forward= that returns logits."
        )
    if student.shape != teacher.shape:
        raise InputError(
            f"the teacher returns {list(teacher.shape)}, the network {list(student.shape)}. Pass "
            "the original network as the teacher."
        )
    axis = class_axis(student, labels)
    log_student, log_teacher = (
        (one.float() / temperature).log_softmax(axis) for one in (student, teacher)
    )
    apart = F.kl_div(log_student, log_teacher, reduction="none", log_target=True).sum(axis)
    return temperature**2 * apart.mean()
