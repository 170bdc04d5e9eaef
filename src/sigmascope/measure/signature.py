"""The signature of a network on data: the verb, its options and what it continues from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import torch
from torch import nn

from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.sharded import original_class, sharded_parts
from sigmascope.capture.turns import one_at_a_time
from sigmascope.checks import options_from
from sigmascope.errors import OptionError
from sigmascope.measure import grouped_experts
from sigmascope.measure.accumulating import SumsFile
from sigmascope.measure.batch_scores import BatchReadings
from sigmascope.measure.batches import Forward, batches_of, run_forward
from sigmascope.measure.digests import digest_of_weights
from sigmascope.measure.kept_features import KeptFeatures
from sigmascope.measure.merging import assembled
from sigmascope.measure.options import FUNCTION, MeasuringOptions, Options, checked_flag
from sigmascope.measure.ranks import SameBatches, begin_together, ranks_of, telling
from sigmascope.measure.result import Signature
from sigmascope.measure.running import Run
from sigmascope.measure.subject import Subject, check_device, identified, subject_of
from sigmascope.measure.together import signature_of_ranks
from sigmascope.store import Journal, decode, encode


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
    **changes: Unpack[MeasuringOptions],
) -> Signature:
    """Return the affinity score of every activation call that a network makes on data.

    The non-linearity signature of Bouniot et al., CVPR 2025, arXiv:2310.11439. The network is not
    changed: neither its outputs while it is watched, nor its training mode, hooks and random state.

    Threads that measure take turns, since random numbers come from one state for all of them: two
    take as long as one that does all. Another thread that trains the network waits meanwhile; one
    that only reads `model.training`, or copies the network, finds evaluation mode.

    Args:
        model: any `nn.Module`. A compiled one is measured through its eager original, one wrapped
            in DistributedDataParallel or DataParallel through the network inside. One in shards of
            `torch.distributed.fsdp.fully_shard` is measured by all ranks together, on the same
            batches: on one rank alone it waits 5 minutes for the others, and raises. Tensor
            parallel networks are refused.
        batches: a loader, a list of batches, or one batch. A batch is a tensor, a tuple (inputs,
            labels, ...) whose first entry is given to the network, or a mapping of arguments by
            name. The first entry may be a list of images; a list of more than two floating tensors
            with three axes each is one itself. Device and dtype follow the network.
        name: of the network; by default its class.
        forward: a function of the network and a batch that runs the network, for batches of any
            other form. It is called again for a batch in which the network was found to write
            activations as formulas.
        keep: a directory for the pooled inputs and outputs, see `rescore`.
        resume: a file for the batches scored so far, and beside it one for the sums of all of them.
            A run that was interrupted continues there.
        progress: whether to show a progress bar, on a terminal.
        options: those of an earlier measurement, `earlier.options`, to repeat it.
        **changes: single options, on top of `options` or the defaults; see `SignatureOptions`:
            estimator="both", covariance="ledoit-wolf", eps=None, degenerate="nan", metrics=(),
            compat=False, pool="channels", samples="batch", activations="pointwise",
            channel_axis=None, sample_axis=None, batch_axis=0, max_batches=None, max_tokens=2048,
            max_positions=64, fuse=True, gates="alone", sites=(), mode="eval", seed=0. And
            distributed=False: whether all ranks of the process group, as `torchrun` starts them,
            measure together, each on its own batches; see `MeasuringOptions`.

    Returns:
        A `Signature`, with one site per activation call, in order of execution. The `score` of a
        site is the published one: the mean over the batches, which depends on their size. Its
        `population` score is that of all samples together, with an interval.

    Raises:
        NetworkError: a network whose calls cannot be watched, or that another thread changes.
        NoActivationError: no activation call was seen.
        InputError, InputTypeError, OptionError: bad input, naming the remedy.
        ResumeError: the file belongs to another run.
        RankError: with distributed=True, another rank failed.

    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh())
    >>> signature(network, torch.randn(256, 8), name="toy").scores.round(3).tolist()
    [0.669, 0.952]
    """
    given = cast(dict[str, Any], changes)
    together = checked_flag("distributed", given.pop("distributed", False))
    prepare = partial(prepared, model, given, name=name, forward=forward, options=options)
    if together:
        return signature_of_ranks(
            lambda: _without_files(keep, resume, prepare()), batches, shown=progress
        )
    ranks = ranks_of(model) if isinstance(model, nn.Module) else None
    with telling(ranks):
        run = prepare()
        if ranks is not None:
            _without_files(keep, resume, run)
            run.ranks = ranks
            begin_together(ranks, run.options)
        return _of_one(run, batches, keep, resume, shown=progress)


def _of_one(
    run: Run, batches: Any, keep: str | Path | None, resume: str | Path | None, *, shown: bool
) -> Signature:
    """Return the signature of what this process runs; see `signature`."""
    network, chosen, ranks, subject = run.network, run.options, run.ranks, None
    with one_at_a_time(f"measures {run.name:.80}"), ExitStack() as stack:
        # needed at once, or changed by a forward pass
        if resume is not None or keep is not None or chosen.mode == "as-is":
            subject = identified(subject_of(network, chosen, run.name), network)
        if subject is not None and resume is not None:
            header = _header(subject, chosen) | {"weights": digest_of_weights(network)}
            run.journal = stack.enter_context(Journal.open(resume, header))
            run.earlier = _earlier(run.journal, str(resume))
            run.continue_sums(SumsFile(resume, header))
        if subject is not None and keep is not None:
            run.kept = KeptFeatures(keep, subject, chosen, digest_of_weights(network))
            run.kept.check(None if resume is None else run.earlier)
        stack.enter_context(preserve_state(network, mode=chosen.mode))
        torch.manual_seed(chosen.seed)
        given = batches_of(batches)
        given = given if ranks is None else SameBatches(given, ranks)
        scored = run.over(given, shown=shown)
        population = run.sums.scores()
        if ranks is not None:
            ranks.check_others()
        # only now: an accelerator should have something to do at once
        subject = subject or identified(subject_of(network, chosen, run.name), network)
        expected = tuple(path for path in subject.expected if path not in run.parts)
        subject = replace(subject, expected=expected)
    experts = grouped_experts.notes_of(network, scored[0].readings if scored else ())
    return assembled(subject, chosen, scored, population, [*run.notes, *experts])


def prepared(
    model: nn.Module,
    changes: Mapping[str, Any],
    *,
    name: str | None = None,
    forward: Forward | None = None,
    options: Options | None = None,
) -> Run:
    """Return a run of a network, with its options checked; see `signature`."""
    network, chosen = unwrapped(model, sharded=True), options_from(Options, changes, base=options)
    pool = _given("pool", changes.get("pool"), chosen.pool)
    samples = _given("samples", changes.get("samples"), chosen.samples)
    check_device(network)
    called = name or original_class(network).__name__
    run = Run(network, called, chosen, pool, forward or run_forward)
    run.sample_function = samples if callable(samples) else None
    return run


def _without_files(keep: object, resume: object, run: Run) -> Run:
    """Return a run of several processes, which neither keep features nor resume."""
    if keep is None and resume is None:
        return run
    if sharded_parts(run.network):
        raise OptionError(
            "keep and resume are for networks of one process, and this one is in shards of several."
        )
    raise OptionError(
        "keep and resume are for one process. Leave them out, or divide the data with "
        "sigmascope.runs.split_signature(..., out=DIR), which continues what it has written."
    )


def _given(option: str, given: object, kept: str) -> Any:
    """Return the value of an option, or the function given for it, of which only the name is kept.

    Raises:
        OptionError: it is a function of an earlier measurement.
    """
    if callable(given):
        return given
    if kept.startswith(FUNCTION):
        raise OptionError(
            f"{option} is the {kept} in these options, which keep only its name. Pass the function "
            f"again, as {option}=..."
        )
    return kept


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
