"""Running a network over data, and scoring its activation calls batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn

from sigmascope.capture.activations import chosen_kinds
from sigmascope.capture.guard import preserve_state, randomness_kept, unwrapped
from sigmascope.capture.pooled import Capture, capturing
from sigmascope.capture.pooling import Pooling
from sigmascope.checks import options_from
from sigmascope.errors import InputError, NoActivationError, OptionError, ResumeError
from sigmascope.measure.batch_scores import BatchReadings, read
from sigmascope.measure.batches import (
    Forward,
    batch_size,
    batches_of,
    fingerprint_of_batch,
    run_forward,
    tensors_in,
    to_model,
)
from sigmascope.measure.kept_features import KeptFeatures
from sigmascope.measure.merging import assembled
from sigmascope.measure.options import FUNCTION, Options, SignatureOptions
from sigmascope.measure.progress import progress_bar, steps_of
from sigmascope.measure.result import Signature
from sigmascope.measure.subject import Subject, identified, subject_of
from sigmascope.store import Journal, decode, encode

SAME_DATA = "Use the same data in the same order, or a new file."


def signature(
    model: nn.Module,
    batches: Any,
    *,
    name: str | None = None,
    forward: Forward | None = None,
    keep: str | Path | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
    options: Options | None = None,
    **changes: Unpack[SignatureOptions],
) -> Signature:
    """Return the affinity score of every activation call that a network makes on data.

    The non-linearity signature of Bouniot et al., CVPR 2025, arXiv:2310.11439. The network is not
    changed: neither its outputs while it is watched, nor its training mode, hooks and random state.

    Args:
        model: any `nn.Module`. A compiled one is measured through its eager original.
        batches: a loader, a list of batches, or one batch. A batch is a tensor, a tuple (inputs,
            labels, ...) whose first entry is given to the network, or a mapping of arguments by
            name. Device and dtype follow the network.
        name: of the network; by default its class.
        forward: a function of the network and a batch that runs the network, for batches of any
            other form.
        keep: a directory for the pooled inputs and outputs, see `rescore`.
        resume: a file for the batches scored so far. A run that was interrupted continues there.
        progress: whether to show a progress bar, on a terminal.
        options: those of an earlier measurement, `earlier.options`, to repeat it.
        **changes: single options, on top of `options` or the defaults; see `SignatureOptions`:
            covariance="ledoit-wolf", eps=None, degenerate="nan", metrics=(), compat=False,
            pool="channels", samples="batch", activations="pointwise", channel_axis=None,
            batch_axis=0, max_batches=None, max_tokens=2048, mode="eval", seed=0.

    Returns:
        A `Signature`, with one site per activation call, in order of execution.

    Raises:
        NetworkError: a network whose calls cannot be watched.
        NoActivationError: no activation call was seen.
        InputError, InputTypeError, OptionError: bad input, naming the remedy.
        ResumeError: the file belongs to another run.

    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh())
    >>> signature(network, torch.randn(256, 8), name="toy").scores.round(3).tolist()
    [0.669, 0.952]
    """
    network, chosen = unwrapped(model), options_from(Options, changes, base=options)
    pool = _pool(changes.get("pool"), chosen)
    subject = subject_of(network, chosen, name)
    # needed at once, or changed by a forward pass
    if resume is not None or keep is not None or chosen.mode == "as-is":
        subject = identified(subject, network)
    run = _Run(network, subject, chosen, pool, forward or run_forward)
    with ExitStack() as stack:
        if resume is not None:
            run.journal = stack.enter_context(Journal.open(resume, _header(subject, chosen)))
            run.earlier = _earlier(run.journal, str(resume))
        if keep is not None:
            run.kept = KeptFeatures(keep, chosen)
            run.kept.check(subject, None if resume is None else run.earlier)
        stack.enter_context(preserve_state(network, mode=chosen.mode))
        torch.manual_seed(chosen.seed)
        scored = list(run.scored(batches_of(batches), shown=progress))
    return assembled(run.subject, chosen, scored, run.notes)


def _pool(given: object, options: Options) -> str | Callable[[Tensor], Tensor]:
    """Return the pool, or the function given for it, of which the options keep only the name."""
    if callable(given):
        return cast(Callable[[Tensor], Tensor], given)
    if options.pool.startswith(FUNCTION):
        raise OptionError(
            f"pool is the {options.pool} in these options, which keep only its name. Pass the "
            "function again, as pool=..."
        )
    return options.pool


def _header(subject: Subject, options: Options) -> dict[str, object]:
    """Return what a run must have in common with the one it resumes."""
    return {
        "model": subject.model,
        "options": encode(options),
        "versions": subject.versions,
        "device": subject.device,
    }


def _earlier(journal: Journal, source: str) -> list[BatchReadings]:
    """Return the batches that the run to resume has scored."""
    return [
        decode(BatchReadings, record, f"{source}: line {line}")
        for line, record in enumerate(journal.records, start=2)
    ]


class _Run:
    """One run of a network over data.

    Attributes:
        subject: the network, identified when the first batch has run.
        notes: what a reader of the result should know.
        earlier: batches that need not be run again.
        journal: where batches are noted as they are scored, to resume the run.
        kept: where their matrices are kept.
    """

    journal: Journal | None = None
    kept: KeptFeatures | None = None

    def __init__(
        self,
        network: nn.Module,
        subject: Subject,
        options: Options,
        pool: str | Callable[[Tensor], Tensor],
        forward: Forward,
    ) -> None:
        self.subject = subject
        self.notes: list[str] = []
        self.earlier: list[BatchReadings] = []
        self._network = network
        self._options = options
        self._pool = pool
        self._forward = forward

    def scored(self, batches: Iterable[object], *, shown: bool) -> Iterator[BatchReadings]:
        """Yield the readings of every batch, those of an earlier run first."""
        options, count = self._options, 0
        total, densities = steps_of(batches, options.max_batches), "sparsity" in options.metrics
        with (
            progress_bar(self.subject.name, total, shown=shown) as advance,
            capturing(
                self._network, activations=options.activations, densities=densities
            ) as capture,
        ):
            for index, item in enumerate(self._complete(islice(batches, options.max_batches))):
                if index < len(self.earlier):
                    readings = self._same(self.earlier[index], item)
                else:
                    readings = self._batch(capture, index, item)
                    if self.journal:
                        self.journal.append(cast(dict[str, object], encode(readings)))
                yield readings
                advance()
                count = index + 1
        if count < len(self.earlier):
            raise ResumeError(
                f"the earlier run scored {len(self.earlier)} batches, and there are {count}. "
                f"{SAME_DATA}"
            )

    def _complete(self, items: Iterator[object]) -> Iterator[object]:
        """Yield the items, but not a last one that is smaller than the first."""
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
            left = f"{size} sample{'s' * (size != 1)}"
            self.notes.append(f"the last batch of {left} was left out, the first has {full}")

    def _same(self, earlier: BatchReadings, item: object) -> BatchReadings:
        if earlier.fingerprint != fingerprint_of_batch(item):
            raise ResumeError(
                f"batch {earlier.batch} is not the one that the earlier run scored. {SAME_DATA}"
            )
        return earlier

    def _batch(self, capture: Capture, index: int, item: object) -> BatchReadings:
        options, network = self._options, self._network
        batch = to_model(item, network, batch_axis=options.batch_axis)
        pooling = Pooling(
            self._pool,
            options.samples,
            options.channel_axis,
            options.batch_axis,
            size=batch.size,
            masks=batch.masks,
            limit=options.max_tokens,
            generator=torch.Generator().manual_seed(_seed(options.seed, index)),
        )
        with randomness_kept():
            torch.manual_seed(_seed(options.seed, index))
            calls = capture.run(
                lambda: self._forward(network, batch.content), tensors_in(batch.content), pooling
            )
        # only now: an accelerator computes while the host gathers what it needs
        if not self.subject.model:
            self.subject = identified(self.subject, network)
        # later batches may take an exit before the first activation
        if not calls and index == 0:
            raise NoActivationError(_no_call(network, options))
        if self.kept is not None:
            self.kept.add(self.subject, index, batch, calls)
        size = batch.size or capture.recorder.samples
        return BatchReadings(index, size, batch.fingerprint, read(calls, options))


def _seed(seed: int, batch: int) -> int:
    """Return a seed that depends on the seed of a run and the number of a batch."""
    return int.from_bytes(hashlib.sha256(f"{seed} {batch}".encode()).digest()[:8]) >> 1


def _no_call(network: nn.Module, options: Options) -> str:
    kinds = ", ".join(sorted(chosen_kinds(options.activations)))
    return (
        f"{type(network).__name__} made no activation call that could be seen. Looked for "
        f"functions and modules of the kinds {kinds}. Register an activation of another name with "
        "sigmascope.register_activation; softmax is found with activations='all'."
    )
