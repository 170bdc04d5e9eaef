"""Running a network over data, and scoring its activation calls batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import cast

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import randomness_kept
from sigmascope.capture.pooled import Capture, PooledCall, capturing
from sigmascope.capture.pooling import NOT_SAMPLES, Pooling, SampleFunction
from sigmascope.capture.positions import Draws
from sigmascope.errors import InputError, OptionError, ResumeError
from sigmascope.measure.accumulating import PopulationSums, SumsFile
from sigmascope.measure.batch_scores import BatchReadings, Reading, read
from sigmascope.measure.batches import (
    Batch,
    Forward,
    Sketch,
    fingerprint_of_batch,
    inputs_of,
    to_model,
)
from sigmascope.measure.digests import digest_of_batch
from sigmascope.measure.kept_features import KeptFeatures
from sigmascope.measure.numbering import Numbered, Order, Place
from sigmascope.measure.options import Options
from sigmascope.measure.progress import progress_bar, steps_of
from sigmascope.measure.ranks import Ranks
from sigmascope.measure.refusals import no_call, no_samples, none_chosen
from sigmascope.store import Journal, encode

SAME_DATA = "Use the same data in the same order, or a new file."
HELD = 2**28  # bytes of matrices on an accelerator that wait to be scored together
WAITING = 64  # batches on an accelerator whose fingerprints are fetched together


class Run:
    """One run of a network over data.

    Attributes:
        network: what is run.
        name: of the network.
        options: how it is measured.
        parts: paths of activations that are part of a formula.
        notes: what a reader of the result should know.
        earlier: batches whose readings are known.
        sums: what the population score is computed from.
        journal: where batches are noted as they are scored, to resume the run.
        kept: where their matrices are kept.
        order: how batches and samples are numbered.
        ranks: the processes that hold shards of the network.
    """

    order: Order = Place()
    journal: Journal | None = None
    kept: KeptFeatures | None = None
    ranks: Ranks | None = None
    parts: frozenset[str] = frozenset()
    _sums_file: SumsFile | None = None
    _unseen: Callable[[], list[str]]

    def __init__(
        self,
        network: nn.Module,
        name: str,
        options: Options,
        pool: str | Callable[[Tensor], Tensor],
        forward: Forward,
    ) -> None:
        self.name = name
        self.notes: list[str] = []
        self.earlier: list[BatchReadings] = []
        self.sums = PopulationSums(options)
        self.sample_function: SampleFunction | None = None
        self.network = network
        self.options = options
        self._pool = pool
        self._forward = forward
        self._first, self._step = 0, 1  # the number of a batch's first sample, and to the next one
        self._sketches: dict[int, Sketch] = {}
        self._digests: dict[int, str] = {}
        self._waiting: dict[int, list[PooledCall]] = {}  # batches to be scored
        self._held = 0  # bytes of these
        self._scored: dict[int, tuple[Reading, ...]] = {}  # and those that have waited
        self._last: tuple[Reading, ...] = ()
        self._seen: list[object] = []  # of which calls these are the readings

    def continue_sums(self, file: SumsFile) -> None:
        """Begin with the sums of a file that belong to the batches known; write them there."""
        if self.options.population:
            self.sums = file.restore(self.options, [one.fingerprint for one in self.earlier])
            self._sums_file = file

    def over(self, batches: Iterable[object], *, shown: bool) -> list[BatchReadings]:
        """Return the readings of every batch, and add up the sums of all."""
        options = self.options
        found: list[BatchReadings] = []
        total, densities = steps_of(batches, options.max_batches), "sparsity" in options.metrics
        with (
            progress_bar(self.name, total, shown=shown) as advance,
            capturing(
                self.network,
                activations=options.activations,
                densities=densities,
                fuse=options.fuse,
                sites=options.sites,
                gates=options.gates,
            ) as capture,
        ):
            self._unseen = capture.notes
            try:
                some = islice(batches, options.max_batches)
                for one in self.order.numbered(some, options, self.notes):
                    self._first = self._first if one.first is None else one.first
                    self._step = one.step
                    found.append(self._batch(capture, one))
                    self._first += found[-1].size
                    advance()
            finally:
                self._write_sums()
            self.parts = frozenset(capture.recorder.parts)
            self.notes += self._unseen()
        count = sum(one.complete for one in found)
        if count < len(self.earlier):
            raise ResumeError(
                f"the earlier run scored {len(self.earlier)} batches, and there are {count}. "
                f"{SAME_DATA}"
            )
        return self._completed(found)

    def _completed(self, found: list[BatchReadings]) -> list[BatchReadings]:
        """Return readings with what was put off."""
        self._score_waiting()
        self._fetch_digests()
        return [
            replace(
                one,
                fingerprint=self._digests.get(one.batch, one.fingerprint),
                readings=self._scored.get(one.batch, one.readings),
            )
            for one in found
        ]

    def _batch(self, capture: Capture, numbered: Numbered) -> BatchReadings:
        """Return the readings of a batch; it is run only for what is not known of it."""
        options, item = self.options, numbered.item
        index, complete = numbered.batch, numbered.complete
        earlier = self.earlier[index] if complete and index < len(self.earlier) else None
        # all of it, before the network can change it
        resumable = self.journal is not None or self.kept is not None
        digest = digest_of_batch(item) if resumable else ""
        if earlier is not None:
            self._check_same(earlier, item, digest)
            if not options.population or index < len(self.sums.batches):
                return earlier
        batch = to_model(item, self.network, batch_axis=options.batch_axis)
        calls = self._calls(capture, index, batch)
        batch = replace(batch, size=batch.size or capture.recorder.samples, digest=digest)
        readings = earlier or self._readings(index, batch, calls, complete=complete)
        if options.population:
            if not complete:  # with more data it would count, and is run again
                self._write_sums()
                self._sums_file = None
            self.sums.add(calls, self._first, readings.fingerprint, step=self._step)
            self._write_sums(at_once=False)
        return readings

    def _readings(
        self, index: int, batch: Batch, calls: list[PooledCall], *, complete: bool
    ) -> BatchReadings:
        """Score the calls of a batch; note and keep them."""
        later = batch.sketch.waits and not self.journal and self.kept is None
        if later:
            self._sketches[index] = batch.sketch
            if len(self._sketches) == WAITING:
                self._fetch_digests()
        fingerprint = "" if later else batch.sketch.digest()
        if self.kept is not None:
            self.kept.unseen = tuple(self._unseen())
            self.kept.add(index, batch, calls, complete=complete)
        # without published scores all batches are alike: kept once, however many there are
        seen: list[object] = [
            (call.call, call.reason, call.skipped, None if call.x is None else call.x.shape)
            for call in calls
        ]
        if complete and self.options.published and not self.journal and _on_accelerator(calls):
            self._wait(index, calls)
        elif self.options.published or self.options.metrics or seen != self._seen:
            self._last, self._seen = read(calls, self.options, complete=complete), seen
        about = index, batch.size, fingerprint
        readings = BatchReadings(*about, self._last, complete, batch.digest)
        if self.journal and complete:
            self.journal.append(cast(dict[str, object], encode(readings)))
        return readings

    def _wait(self, index: int, calls: list[PooledCall]) -> None:
        """Score a batch later, with others: an accelerator decomposes many matrices as fast."""
        self._waiting[index] = calls
        self._held += _bytes_of(calls)
        if self._held > HELD:
            self._score_waiting()

    def _score_waiting(self) -> None:
        together = [call for calls in self._waiting.values() for call in calls]
        found = iter(read(together, self.options) if together else ())
        for index, calls in self._waiting.items():
            self._scored[index] = tuple(islice(found, len(calls)))
        self._waiting.clear()
        self._held = 0

    def _fetch_digests(self) -> None:
        """Fetch fingerprints from an accelerator, rarely, for that waits for all it has to do."""
        self._digests |= {index: sketch.digest() for index, sketch in self._sketches.items()}
        self._sketches.clear()

    def _write_sums(self, *, at_once: bool = True) -> None:
        if self._sums_file is not None:
            self._sums_file.write(self.sums, at_once=at_once)

    def _check_same(self, earlier: BatchReadings, item: object, digest: str) -> None:
        if earlier.fingerprint != fingerprint_of_batch(item) or earlier.digest not in ("", digest):
            raise ResumeError(
                f"batch {earlier.batch} is not the one that the earlier run scored. {SAME_DATA}"
            )

    def _draws(self, index: int, batch: Batch) -> Draws | None:
        """Return which positions of a batch are samples, where they are."""
        options = self.options
        if options.averages:
            return None
        return Draws(
            options.samples == "tokens",
            batch.size,
            options.max_tokens,
            torch.Generator().manual_seed(_seed(options.seed, index)),
            first=self._first,
            most=options.max_positions,
            seed=options.seed,
            step=self._step,
        )

    def _calls(self, capture: Capture, index: int, batch: Batch) -> list[PooledCall]:
        """Return the activation calls of a batch as matrices."""
        options, network = self.options, self.network
        pooling = Pooling(
            self._pool,
            "batch" if options.averages else options.samples,
            options.channel_axis,
            options.batch_axis,
            size=batch.size,
            masks=batch.masks,
            draws=self._draws(index, batch),
            sample_axis=options.sample_axis,
            graphs=batch.graphs,
            sample_function=self.sample_function,
        )

        def forward() -> None:
            torch.manual_seed(_seed(options.seed, index))
            self._forward(network, batch.content)

        with randomness_kept():
            calls = capture.run(forward, inputs_of(batch.content), pooling)
        if self.ranks is not None:
            self.ranks.alone()
        # later batches may take an exit before the first activation
        if not calls and index == 0 and capture.others:
            raise OptionError(none_chosen(options, capture.others))
        if not calls and index == 0:
            raise no_call(network, options, capture.notes())
        if index == 0 and all(call.reason == NOT_SAMPLES["features"] for call in calls):
            raise InputError(no_samples(batch, options.batch_axis))
        return calls


def _seed(seed: int, batch: int) -> int:
    """Return a seed that depends on the seed of a run and the number of a batch."""
    return int.from_bytes(hashlib.sha256(f"{seed} {batch}".encode()).digest()[:8]) >> 1


def _on_accelerator(calls: list[PooledCall]) -> bool:
    return any(call.x is not None and not call.x.is_cpu for call in calls)


def _bytes_of(calls: list[PooledCall]) -> int:
    return sum(2 * call.x.numel() * call.x.itemsize for call in calls if call.x is not None)
