"""Epochs over several stitches of one pair of networks at one site, all on the same batches.

The front runs once per batch, without a gradient, whatever the number of stitches. The whole
network is in training mode and only the stitches get gradients, so that batch norms follow the
features they receive (Godfrey et al., NeurIPS 2022, arXiv:2205.14258).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from sigmascope.stitching.front_cache import FrontCache
from sigmascope.stitching.layer import act
from sigmascope.stitching.settings import Settings
from sigmascope.stitching.trainer import Buffers, Snapshot, StitchTrainer, buffers_of, set_buffers
from sigmascope.training import evaluation
from sigmascope.training.cuda_graph import Step
from sigmascope.training.feed import Feed, Feeds

ORDER, PASS, NETWORK = range(3)  # what random numbers are for


class TrainingLoop:
    """Trains stitches behind the first half of a front, for `done` epochs so far.

    The `settings` are those that the stitches have in common.
    """

    def __init__(
        self,
        front: nn.Module,
        trainers: Sequence[StitchTrainer],
        feeds: Feeds,
        settings: Settings,
        seed: int = 0,
        cache: FrontCache | None = None,
    ) -> None:
        self.front, self.trainers, self.cache, self.done = front, list(trainers), cache, 0
        self._feeds, self._settings, self._seed = feeds, settings, seed
        self._step: Step | None = None

    @property
    def steps(self) -> int:
        """Number of batches in an epoch."""
        return self._feeds.train.steps(self._settings.batch)

    @property
    def epochs_left(self) -> int:
        """Number of epochs left to train."""
        active = any(trainer.is_active for trainer in self.trainers)
        return max(0, self._settings.epochs - self.done) if active else 0

    def epoch(self, advance: Callable[[], None] = lambda: None) -> None:
        """Train all stitches for one epoch and evaluate them."""
        active = [trainer for trainer in self.trainers if trainer.is_active]
        changed = [trainer.begin(self.done) for trainer in active]
        if any(changed) or self._step is None:
            self._step = self._new_step(active)
        self._set_mode(active, training=True)
        torch.manual_seed(self._random(NETWORK))
        order = self._random(ORDER)
        for places, inputs, labels in self._feeds.train.shuffled(self._settings.batch, order):
            self._step(*(self.cache(places) if self.cache else (inputs,)), labels)
            advance()
        for trainer in active:
            trainer.check(self.done)
        self._evaluate([trainer for trainer in active if trainer.is_active])
        if not all(trainer.is_active for trainer in active):
            self._step = None  # it would continue those that have diverged
        self.done += 1

    def evaluate_starts(self) -> None:
        """Give a snapshot to the stitches that are not trained, and to those that were matched."""
        for trainer in self.trainers:
            if trainer.is_matched or not trainer.family.is_trained:
                trainer.stitch.scaled = True
                # one by one, so that each gets what it would get alone
                torch.manual_seed(self._random(NETWORK))
                with self._adapted([trainer] if trainer.adapts else []) as before:
                    [accuracy] = self.accuracies([trainer], self._feeds.chosen)
                    back = before.get(trainer, buffers_of(trainer.back))
                    trainer.best = trainer.snapshot(0, accuracy, buffers_of(self.front), back)

    def _evaluate(self, trainers: list[StitchTrainer]) -> None:
        """Evaluate stitches, those that need it with adapted batch norms; then restore these."""
        for adapts in (False, True):
            group = [trainer for trainer in trainers if trainer.adapts is adapts]
            if not group:
                continue
            with self._adapted(group if adapts else []) as before:
                front = buffers_of(self.front)
                accuracies = self.accuracies(group, self._feeds.chosen)
                for trainer, accuracy in zip(group, accuracies, strict=True):
                    back = before.get(trainer, buffers_of(trainer.back))
                    trainer.note(self.done, self.steps, accuracy, front, back)

    def _new_step(self, trainers: list[StitchTrainer]) -> Step:
        def run(*given: Tensor) -> None:
            *inputs, labels = given
            with torch.no_grad():
                value, *others = inputs if self.cache else self.front(*inputs)
            for trainer in trainers:
                # The back may change in place what bypasses the site.
                trainer.step((value, *(_copies(others) if len(trainers) > 1 else others)), labels)

        def state() -> list[Tensor]:
            own = chain.from_iterable(trainer.tensors() for trainer in trainers)
            return [*self.front.buffers(), *own]

        return Step(run, state)

    @contextmanager
    def _adapted(self, trainers: list[StitchTrainer]) -> Iterator[dict[StitchTrainer, Buffers]]:
        """Adapt batch norms to exact stitches; yield the buffers of the backs; restore all."""
        before = {trainer: buffers_of(trainer.back) for trainer in trainers}
        front = buffers_of(self.front)
        try:
            if trainers:
                limit = self._settings.pass_batches
                self._adapt(trainers, [self._feeds.train], self._random(PASS), limit)
            yield before
        finally:
            set_buffers(self.front, front)
            for trainer, buffers in before.items():
                set_buffers(trainer.back, buffers)

    @torch.no_grad()
    def _adapt(
        self, trainers: list[StitchTrainer], feeds: Sequence[Feed], seed: int, limit: int | None
    ) -> None:
        """Pass over feeds, one after the other, over at most `limit` batches of each."""
        trains_front = self._settings.front_mode == "train"
        networks = [*([self.front] if trains_front else []), *(one.back for one in trainers)]
        self._set_mode(trainers, training=True)
        matrices = [trainer.stitch.matrix(exact=True) for trainer in trainers]
        batches = chain.from_iterable(
            feed.shuffled(self._settings.batch, seed, limit=limit) for feed in feeds
        )
        with _averaging(networks, self._settings.averaging):
            for places, inputs, _ in batches:
                value, *others = self.cache(places) if self.cache else self.front(inputs)
                for trainer, matrix in zip(trainers, matrices, strict=True):
                    trainer.back(act(matrix, value, trainer.stitch.style), *_copies(others))

    @torch.no_grad()
    def accuracies(self, trainers: Sequence[StitchTrainer], feed: Feed) -> list[float]:
        """Return the accuracies of exact stitches, in percent of all samples."""
        self._set_mode(trainers, training=False)
        matrices = [trainer.stitch.matrix(exact=True) for trainer in trainers]
        correct = [torch.zeros((), dtype=torch.long, device=feed.labels.device) for _ in trainers]
        # held-out samples are training samples
        cache = self.cache if feed.inputs is self._feeds.train.inputs else None
        for places, inputs, labels in feed.batches(evaluation.BATCH):
            value, *others = cache(places) if cache else self.front(inputs)
            for trainer, matrix, count in zip(trainers, matrices, correct, strict=True):
                logits = trainer.back(act(matrix, value, trainer.stitch.style), *_copies(others))
                count += (logits.argmax(dim=1) == labels).sum()
        return [100 * int(count) / len(feed) for count in correct]

    def _set_mode(self, trainers: Sequence[StitchTrainer], *, training: bool) -> None:
        self.front.train(training and self._settings.front_mode == "train")
        for trainer in trainers:
            trainer.back.train(training)

    def finish(self, trainer: StitchTrainer) -> Snapshot | None:
        """Restore and return the best epoch, if any, with statistics of a final pass if wanted."""
        best = trainer.best
        if best is None:
            return None
        trainer.stitch.scaled = best.scaled
        trainer.restore(best.stitch, best.back)
        set_buffers(self.front, best.front)
        # Seeded by its epoch, so that neither an interruption nor other stitches change the draws.
        torch.manual_seed(self._random(NETWORK, best.epoch))
        if not (trainer.adapts and trainer.settings.final_pass):
            return best
        held_out = [self._feeds.chosen] if self._settings.select_on == "validation" else []
        feeds = [self._feeds.train, *held_out]
        self._adapt([trainer], feeds, self._random(PASS, best.epoch), None)
        return replace(best, front=buffers_of(self.front), back=buffers_of(trainer.back))

    def _random(self, purpose: int, epoch: int | None = None) -> int:
        """Return a seed that depends only on the epoch, so that a run can continue from any."""
        seed = self._seed * 1_000_003 + (self.done if epoch is None else epoch)
        return (seed * 3 + purpose) % 2**64


def _copies(values: Sequence[Any]) -> Sequence[Any]:
    """Return copies of what bypasses the site, which may be sizes or tuples of tensors too."""
    copies: Sequence[Any] = tree_map_only(Tensor, torch.clone, values)
    return copies


@contextmanager
def _averaging(networks: Sequence[nn.Module], how: str) -> Iterator[None]:
    """Restart the running statistics of batch norms as cumulative means, if asked for."""
    norms = [
        module
        for network in networks
        for module in network.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        and module.track_running_stats
        and how == "cumulative"
    ]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
