"""Training stitches at one site of one pair of networks, all of them on the same batches.

The front runs once for each batch, without a gradient, whatever the number of stitches. The whole
network is in training mode and only the stitch gets gradients, so that batch norm follows the
features that it is given.
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

from sigmascope.stitching.assembly import Joint
from sigmascope.stitching.data import Feed
from sigmascope.stitching.features import FrontCache
from sigmascope.stitching.layer import act
from sigmascope.stitching.replay import Step
from sigmascope.stitching.seam import Seam, Snapshot, buffers_of, put_buffers
from sigmascope.stitching.settings import Settings

__all__ = ["Training", "accuracy_of"]

BATCH = 500
"""Of evaluations."""
ORDER, PASS, NETWORK = range(3)  # what random numbers are for


class Training:
    """Stitches of one pair and site in training.

    Args:
        joint: the halves of the networks.
        seams: the stitches.
        train: the samples to train on.
        chosen: the samples by which the best epoch is chosen.
        settings: what the stitches have in common.
        seed: of the order, the augmentation and random layers.
        cache: what the front puts out, where that is kept.
    """

    def __init__(
        self,
        joint: Joint,
        seams: Sequence[Seam],
        train: Feed,
        chosen: Feed,
        settings: Settings,
        *,
        seed: int = 0,
        cache: FrontCache | None = None,
    ) -> None:
        self.front = joint.front.before
        self.seams = list(seams)
        self.done = 0
        self.cache = cache
        self._train, self._chosen, self._settings, self._seed = train, chosen, settings, seed
        self._step: Step | None = None

    @property
    def steps(self) -> int:
        """How many batches an epoch trains on."""
        return self._train.steps(self._settings.batch)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.done >= self._settings.epochs or not any(seam.is_active for seam in self.seams)

    def epoch(self, advance: Callable[[], None] = lambda: None) -> None:
        """Train all stitches for one epoch and evaluate them."""
        active = [seam for seam in self.seams if seam.is_active]
        changed = [seam.begin(self.done) for seam in active]
        if any(changed) or self._step is None:
            self._step = self._new_step(active)
        self.set_mode(active, training=True)
        torch.manual_seed(self._random(NETWORK))
        for numbers, inputs, labels in self._train.shuffled(
            self._settings.batch, self._random(ORDER)
        ):
            self._step(*(self.cache(numbers) if self.cache else (inputs,)), labels)
            advance()
        for seam in active:
            seam.check(self.done)
        self._judge([seam for seam in active if seam.is_active])
        if not all(seam.is_active for seam in active):
            self._step = None  # it would go on with those that have diverged
        self.done += 1

    def evaluate_untrained(self) -> None:
        """Give the stitches that are not trained their snapshot."""
        for seam in self.seams:
            if not seam.family.is_trained:
                seam.stitch.scaled = True
                # for each, so that it is as if it were alone
                torch.manual_seed(self._random(NETWORK))
                with self._adapted([seam] if seam.adapts else []) as before:
                    [accuracy] = self.accuracies([seam], self._chosen)
                    seam.best = seam.snapshot(
                        0, accuracy, buffers_of(self.front), before.get(seam, buffers_of(seam.back))
                    )

    def _judge(self, seams: list[Seam]) -> None:
        """Evaluate stitches as they are, and those that need it after a pass that adapts batch
        norm; then go on as before.
        """
        for group in (
            [one for one in seams if not one.adapts],
            [one for one in seams if one.adapts],
        ):
            if not group:
                continue
            with self._adapted([one for one in group if one.adapts]) as before:
                front = buffers_of(self.front)
                for seam, accuracy in zip(group, self.accuracies(group, self._chosen), strict=True):
                    seam.note(
                        self.done,
                        self.steps,
                        accuracy,
                        front,
                        before.get(seam, buffers_of(seam.back)),
                    )

    def _new_step(self, seams: list[Seam]) -> Step:
        def run(*given: Tensor) -> None:
            *inputs, labels = given
            with torch.no_grad():
                value, *others = inputs if self.cache else self.front(*inputs)
            for seam in seams:
                # The back may work in place on what goes past the site.
                seam.step((value, *(_copies(others) if len(seams) > 1 else others)), labels)

        return Step(
            run, lambda: [*self.front.buffers(), *(one for seam in seams for one in seam.tensors())]
        )

    @contextmanager
    def _adapted(self, seams: list[Seam]) -> Iterator[dict[Seam, dict[str, Tensor]]]:
        """Adapt the statistics of batch norm to exact stitches, without gradients; put all back at the end.

        Gives the buffers of each back as they were.
        """
        before = {seam: buffers_of(seam.back) for seam in seams}
        front = buffers_of(self.front)
        try:
            if seams:
                self._adapt(seams, [self._train], self._random(PASS), self._settings.pass_batches)
            yield before
        finally:
            put_buffers(self.front, front)
            for seam, buffers in before.items():
                put_buffers(seam.back, buffers)

    @torch.no_grad()
    def _adapt(
        self, seams: list[Seam], feeds: Sequence[Feed], seed: int, limit: int | None
    ) -> None:
        """Pass over feeds, one after the other, up to a limit of batches of each."""
        networks = [
            *([self.front] if self._settings.front_mode == "train" else []),
            *(seam.back for seam in seams),
        ]
        self.set_mode(seams, training=True)
        matrices = [seam.stitch.matrix(exact=True) for seam in seams]
        batches = chain.from_iterable(
            feed.shuffled(self._settings.batch, seed, limit=limit) for feed in feeds
        )
        with _averaging(networks, self._settings.averaging):
            for numbers, inputs, _ in batches:
                value, *others = self.cache(numbers) if self.cache else self.front(inputs)
                for seam, matrix in zip(seams, matrices, strict=True):
                    seam.back(act(matrix, value, seam.stitch.style), *_copies(others))

    @torch.no_grad()
    def accuracies(self, seams: Sequence[Seam], feed: Feed) -> list[float]:
        """Return the accuracy of exact stitches in percent: correct answers / all answers."""
        self.set_mode(seams, training=False)
        matrices = [seam.stitch.matrix(exact=True) for seam in seams]
        correct = [torch.zeros((), dtype=torch.long, device=feed.labels.device) for _ in seams]
        # held-out samples are training samples
        kept = self.cache if feed.inputs is self._train.inputs else None
        for numbers, inputs, labels in feed.batches(BATCH):
            value, *others = kept(numbers) if kept else self.front(inputs)
            for seam, matrix, count in zip(seams, matrices, correct, strict=True):
                logits = seam.back(act(matrix, value, seam.stitch.style), *_copies(others))
                count += (logits.argmax(dim=1) == labels).sum()
        return [100 * int(count) / len(feed) for count in correct]

    def set_mode(self, seams: Sequence[Seam], *, training: bool) -> None:
        """Put the networks into training mode, the front only if it is to be, or into evaluation mode."""
        self.front.train(training and self._settings.front_mode == "train")
        for seam in seams:
            seam.back.train(training)

    def load(self, seam: Seam, snapshot: Snapshot) -> None:
        """Go back to a snapshot, to evaluate it."""
        seam.stitch.scaled = snapshot.scaled
        seam.restore(snapshot.stitch, snapshot.back)
        put_buffers(self.front, snapshot.front)

    def finish(self, seam: Seam) -> Snapshot | None:
        """Go back to the best epoch and return it, with the statistics of a final pass if one is
        wanted; None without any.
        """
        best = seam.best
        if best is None:
            return None
        self.load(seam, best)
        # By the epoch of the stitch, so that neither an interruption nor other stitches change what
        # is drawn.
        torch.manual_seed(self._random(NETWORK, best.epoch))
        if not (seam.adapts and seam.settings.final_pass):
            return best
        held_out = [self._chosen] if self._settings.select_on == "validation" else []
        self._adapt([seam], [self._train, *held_out], self._random(PASS, best.epoch), None)
        return replace(best, front=buffers_of(self.front), back=buffers_of(seam.back))

    def _random(self, purpose: int, epoch: int | None = None) -> int:
        """Return a seed that depends on the epoch only, by default the next, so that a run can go
        on from any.
        """
        return (self._seed * 1_000_003 + (self.done if epoch is None else epoch)) * 3 + purpose


def _copies(values: Sequence[Any]) -> Sequence[Any]:
    """Copy what goes past the site; that may be a size or a tuple of tensors too."""
    copies: Sequence[Any] = tree_map_only(Tensor, torch.clone, values)
    return copies


@torch.no_grad()
def accuracy_of(network: Callable[[Tensor], Tensor], feed: Feed) -> float:
    """Return the accuracy of a network in percent, as it is."""
    correct = torch.zeros((), dtype=torch.long, device=feed.labels.device)
    for _, inputs, labels in feed.batches(BATCH):
        correct += (network(inputs).argmax(dim=1) == labels).sum()
    return 100 * int(correct) / len(feed)


@contextmanager
def _averaging(networks: Sequence[nn.Module], how: str) -> Iterator[None]:
    """Let batch norms average their statistics anew, where "cumulative" is asked for."""
    norms = [
        one
        for network in networks
        for one in network.modules()
        if isinstance(one, nn.modules.batchnorm._BatchNorm)
    ]
    norms = [one for one in norms if one.track_running_stats and how == "cumulative"]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
