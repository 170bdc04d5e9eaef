"""Running a network over data, and scoring its activation calls batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from sigmascope.capture.activations import chosen_kinds
from sigmascope.capture.guard import preserve_state, randomness_kept, unwrapped
from sigmascope.capture.pooling import Pooling
from sigmascope.capture.record import Call, Finish, Recorder, recording
from sigmascope.errors import InputError, NoActivationError, ResumeError
from sigmascope.measure.assembly import assembled
from sigmascope.measure.batches import (
    Forward,
    batch_size,
    batches_of,
    fingerprint_of_batch,
    run_forward,
    tensors_in,
    to_model,
)
from sigmascope.measure.keep import check_folder, keep_batch
from sigmascope.measure.options import Options, checked_options
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.readings import BatchReadings, Collector, read
from sigmascope.measure.signature import Signature
from sigmascope.measure.subject import Subject, identified, subject_of
from sigmascope.store import Journal, decode, encode

__all__ = ["signature"]

SAME_DATA = "Use the same data in the same order, or a new file."


def signature(
    model: nn.Module,
    batches: Any,
    *,
    covariance: str = "ledoit-wolf",
    pool: str | Callable[[Tensor], Tensor] = "channels",
    samples: str = "batch",
    metrics: str | Sequence[str] = (),
    compat: bool = False,
    activations: str | Collection[str] = "pointwise",
    channel_axis: Mapping[str, int] | None = None,
    batch_axis: int = 0,
    forward: Forward | None = None,
    max_batches: int | None = None,
    max_tokens: int = 2048,
    eps: float = 1e-6,
    degenerate: str = "nan",
    mode: str = "eval",
    seed: int = 0,
    keep: str | Path | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
    name: str | None = None,
) -> Signature:
    """Run a network over data and score every activation call it makes.

    The network is left as it was: its outputs while it is watched, its training mode, hooks and
    random state afterwards.

    Args:
        model: any `nn.Module`. A compiled one is measured through its eager original.
        batches: a loader, a list of batches, or one batch. A batch is a tensor, a tuple (inputs,
            labels, ...) whose first entry is given to the network, or a mapping of arguments by
            name. Device and floating type follow the network.
        covariance: the estimator, see `affinity`.
        pool: "channels" averages all axes but samples and channels; "sum"; "flatten"; "released"
            averages the axes that the published code averages; or a function from a tensor to a
            matrix (n, d).
        samples: "batch", or "tokens" where every token is a sample. Tokens that the batch's
            `attention_mask` hides are left out, of averages too.
        metrics: companion metrics beside the score: "all", or some of "cka", "norm", "sparsity",
            "entropy", "r2".
        compat: whether these follow the published formulas to the letter.
        activations: "pointwise"; "all" with softmax; names of kinds or families, see
            `known_activations`.
        channel_axis: pattern of a path -> axis, where the evidence for the axis of the channels is
            overruled.
        batch_axis: the axis of the samples in the inputs.
        forward: a function of the network and the batch that runs the network, for batches of any
            other form.
        max_batches: stop after so many.
        max_tokens: with samples="tokens", how many rows to draw from a batch at most.
        eps: see `affinity`.
        degenerate: see `affinity`.
        mode: "eval", or "as-is" to leave training mode on where it is on.
        seed: of the loader, of random networks and of the tokens drawn.
        keep: a folder for the pooled inputs and outputs, see `rescore`.
        resume: a file for the batches scored so far. A run that was cut off goes on where it
            stopped.
        progress: whether to show a progress bar, on a terminal.
        name: of the network; by default its class.

    Returns:
        A `Signature`, with one site per activation call, in order of execution.

    Raises:
        NetworkError: a network that hides its calls.
        NoActivationError: no activation call was seen.
        InputError, InputTypeError, OptionError: bad input, naming the remedy.
        ResumeError: the file belongs to another run.

    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh())
    >>> signature(network, torch.randn(256, 8), name="toy").scores.round(3).tolist()
    [0.669, 0.952]
    """
    given = {**locals(), "channel_axis": {} if channel_axis is None else channel_axis}
    network, options = unwrapped(model), checked_options(given)
    subject = subject_of(network, options, name)
    # needed at once, or changed by a forward pass
    if resume is not None or keep is not None or options.mode == "as-is":
        subject = identified(subject, network)
    run = _Run(network, subject, options, pool, forward or run_forward)
    with ExitStack() as stack:
        journal = (
            None
            if resume is None
            else stack.enter_context(Journal.open(resume, _header(subject, options)))
        )
        run.earlier = [] if journal is None else _earlier(journal, str(resume))
        folder = (
            None
            if keep is None
            else check_folder(keep, subject, options, None if journal is None else run.earlier)
        )
        stack.enter_context(preserve_state(network, mode=options.mode))
        torch.manual_seed(options.seed)
        scored = list(run.scored(batches_of(batches), journal, folder, shown=progress))
    return assembled(run.subject, options, scored, run.notes)


def _header(subject: Subject, options: Options) -> dict[str, object]:
    """Say what a run must have in common with one that it continues."""
    return {
        "model": subject.model,
        "options": encode(options),
        "versions": subject.versions,
        "device": subject.device,
    }


def _earlier(journal: Journal, source: str) -> list[BatchReadings]:
    """Return the batches that the run to be continued has scored."""
    return [
        decode(BatchReadings, record, f"{source}: line {line}")
        for line, record in enumerate(journal.records, start=2)
    ]


class _Run:
    """One run of a network over data.

    Attributes:
        notes: what a reader of the result should know.
        earlier: batches that need not be run again.
        subject: the network, identified when the first batch has run.
    """

    def __init__(
        self,
        network: nn.Module,
        subject: Subject,
        options: Options,
        pool: str | Callable[[Tensor], Tensor],
        forward: Forward,
    ) -> None:
        self.notes: list[str] = []
        self.earlier: list[BatchReadings] = []
        self._network = network
        self.subject = subject
        self._options = options
        self._pool = pool
        self._forward = forward
        self._collector: Collector | None = None

    def scored(
        self,
        batches: Iterable[object],
        journal: Journal | None,
        folder: Path | None,
        *,
        shown: bool,
    ) -> Iterator[BatchReadings]:
        """Yield the readings of every batch, those of an earlier run first."""
        limit, count = self._options.max_batches, 0
        with (
            progress_bar(self.subject.name, _length(batches, limit), shown=shown) as advance,
            recording(
                self._network, self._observe, activations=self._options.activations
            ) as recorder,
        ):
            recorder.stop()
            for index, item in enumerate(self._complete(islice(batches, limit))):
                if index < len(self.earlier):
                    found = self._same(self.earlier[index], item)
                else:
                    found = self._batch(recorder, index, item, folder)
                    if journal:
                        journal.append(_record(found))
                yield found
                advance()
                count = index + 1
        if count < len(self.earlier):
            raise ResumeError(
                f"the earlier run scored {len(self.earlier)} batches, and there are {count}. "
                f"{SAME_DATA}"
            )

    def _complete(self, items: Iterator[object]) -> Iterator[object]:
        """Pass the items on, but not a last one that is smaller than the first."""
        full: int | None = None
        smaller: list[object] = []  # one that may be the last
        for item in items:
            yield from smaller
            size = batch_size(item, self._options.batch_axis)
            full = size if full is None else full
            smaller = [item] if size < full else []
            if not smaller:
                yield item
        if full is None:
            raise InputError("batches is empty. Pass a loader or a list with at least one batch.")
        if smaller:
            self.notes.append(
                f"the last batch of {size} samples was left out, the first has {full}"
            )

    def _same(self, earlier: BatchReadings, item: object) -> BatchReadings:
        if earlier.fingerprint != fingerprint_of_batch(item):
            raise ResumeError(
                f"batch {earlier.batch} is not the one that the earlier run scored. {SAME_DATA}"
            )
        return earlier

    def _batch(
        self, recorder: Recorder, index: int, item: object, folder: Path | None
    ) -> BatchReadings:
        options = self._options
        batch = to_model(item, self._network, batch_axis=options.batch_axis)
        generator = torch.Generator().manual_seed(_seed(options.seed, index))
        pooling = Pooling(
            self._pool,
            options.samples,
            options.channel_axis,
            options.batch_axis,
            size=batch.size,
            masks=batch.masks,
            limit=options.max_tokens,
            generator=generator,
        )
        self._collector = collector = Collector(pooling, count_zeros="sparsity" in options.metrics)
        with randomness_kept():
            torch.manual_seed(_seed(options.seed, index))
            with recorder.forward_pass(
                tensors_in(batch.content), batch_axis=options.batch_axis, size=batch.size
            ):
                self._forward(self._network, batch.content)
        # only now: an accelerator computes while the host gathers what it needs
        if not self.subject.model:
            self.subject = identified(self.subject, self._network)
        # later ones may take an exit before the first activation
        if not collector.observed and index == 0:
            raise NoActivationError(_nothing_found(self._network, options))
        if folder is not None:
            keep_batch(folder, self.subject, options, index, batch, collector.observed)
        return BatchReadings(
            index,
            batch.size or recorder.samples,
            batch.fingerprint,
            read(collector.observed, options),
        )

    def _observe(self, call: Call, x: Tensor) -> Finish | None:
        return None if self._collector is None else self._collector.observe(call, x)


def _length(batches: object, limit: int | None) -> int | None:
    """Return how many batches there will be at most, if that is known."""
    try:
        count = len(batches)  # type: ignore[arg-type]
    except TypeError:  # a generator, or a loader that has a length in name only
        return limit
    return count if limit is None else min(count, limit)


def _record(found: BatchReadings) -> dict[str, object]:
    return cast(dict[str, object], encode(found))


def _seed(seed: int, batch: int) -> int:
    """Mix the seed of a run and the number of a batch."""
    return int.from_bytes(hashlib.sha256(f"{seed} {batch}".encode()).digest()[:8]) >> 1


def _nothing_found(network: nn.Module, options: Options) -> str:
    kinds = ", ".join(sorted(chosen_kinds(options.activations)))
    return (
        f"{type(network).__name__} made no activation call that could be seen. Looked for "
        "functions and modules of the kinds "
        f"{kinds}. Make an activation of another name known with "
        "sigmascope.register_activation; softmax is found with "
        "activations='all'."
    )
