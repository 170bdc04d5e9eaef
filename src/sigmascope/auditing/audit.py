"""The audit of one network and batch: the verb."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from sigmascope.auditing.matching import SeenSite, unmatched
from sigmascope.auditing.operators import Operator
from sigmascope.auditing.passes import Passes, Plain, Seen, Watched, one_line
from sigmascope.auditing.result import Audit, Finding
from sigmascope.auditing.samples import (
    exchanges_samples,
    is_same_batch,
    mixes_samples,
    sample_findings,
    untrue_reasons,
)
from sigmascope.auditing.state import same_bits
from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.pooled import PooledCall
from sigmascope.errors import NoActivationError, SigmascopeError
from sigmascope.measure.batches import Forward, run_forward
from sigmascope.measure.subject import HIDDEN

FUSED = tuple(kind for kind in HIDDEN if kind is not nn.TransformerEncoderLayer)


def audit(
    model: nn.Module,
    batch: Any,
    *,
    name: str | None = None,
    forward: Forward | None = None,
    softmax: bool = False,
) -> Audit:
    """Return whether every activation of a network is seen, once, on its true axes, harmlessly.

    The activation operators that torch computes are counted by its dispatcher, independently of
    what `signature` sees. The audit checks that each belongs to a site or has a reason, that
    outputs are the same to the bit, that parameters, buffers, hooks, attributes, training flags and
    random numbers are untouched, that replacing a sample of the batch changes the rows of that
    sample only, and that the channels after a layer are its output channels.

    Args:
        model: any network; it runs in evaluation mode about six times.
        batch: one batch, as for `signature`, of two samples or more that differ.
        name: of the network; by default its class.
        forward: as for `signature`.
        softmax: whether to count the softmax family too.

    Returns:
        An `Audit`, which prints itself as a table.

    Raises:
        InputError: the network itself does not run on this batch.

    >>> print(audit(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(8, 3), name="small"))
    network  tried  complete  refused  raw error  missed  false  wrong axis  changed
    small        1         1        0          0       0      0           0        0
    <BLANKLINE>
    1 activation operators computed; 1 sites, 0 of them without a score for a reason; 0 operators \
not seen for a reason. Axes checked: samples of 1 sites, channels of 1.
    """
    blank = Audit(name or type(model).__name__)
    try:
        network = unwrapped(model)
    except SigmascopeError as error:
        return replace(blank, refused=one_line(error))
    subject = Passes(network, batch, forward or run_forward, softmax)
    plain = subject.plain()
    try:
        watched = subject.watched()  # first, for then all formulas are known
        seen = subject.seen()
    except SigmascopeError as error:
        return _refused(blank, subject, error)
    except Exception as error:  # any other is a finding, whatever it is
        return replace(blank, operators=len(subject.computed()), error=one_line(error))
    return _judged(blank, subject, plain, seen, watched)


def _refused(blank: Audit, subject: Passes, error: SigmascopeError) -> Audit:
    """Return the audit of a network that was refused; what nobody saw is missed, not refused."""
    computed = subject.computed()
    result = replace(blank, operators=len(computed), refused=one_line(error))
    if not isinstance(error, NoActivationError) or not computed:
        return result
    if any(isinstance(module, FUSED) for module in subject.network.modules()):
        return replace(result, explained=len(computed))
    missed, explained = _missed(computed, subject.network, error.notes)
    if not missed:
        return replace(result, explained=explained)
    detail = f"{len(missed)} activation operators were computed, and none was seen"
    findings = (Finding("missed", "(network)", detail),)
    return replace(result, refused="", explained=explained, findings=findings)


def _judged(blank: Audit, subject: Passes, plain: Plain, seen: Seen, watched: Watched) -> Audit:
    first, notes = watched.calls[0], list[str]()
    left, false = unmatched(seen.sites, seen.operators)
    missed, explained = _missed(left, subject.network, watched.signature.coverage.notes)
    channels, with_channels = _channel_findings(seen.sites, first)
    tagged = subject.tagged(first)
    if tagged is None:
        notes.append("channels were checked only after the layers that make them")
    else:
        channels += tagged.findings
        with_channels |= tagged.read
    samples, with_samples = _sample_findings(subject, plain, watched, notes)
    findings = [*missed, *false, *_other_calls(seen.sites, first), *samples, *channels]
    return replace(
        blank,
        operators=sum(one.activation for one in seen.operators),
        sites=len(first),
        skipped=sum(bool(call.reason) for call in first),
        explained=explained,
        samples=with_samples,
        channels=len(with_channels),
        findings=(*findings, *_changes(subject, plain, watched)),
        notes=tuple(notes),
    )


def _sample_findings(
    subject: Passes, plain: Plain, watched: Watched, notes: list[str]
) -> tuple[list[Finding], int]:
    """Return the sites whose rows are not the samples, and how many were checked; add notes."""
    if subject.size < 2 or is_same_batch(subject.batch, subject.other):
        notes.append("the axis of samples was not checked: pass two samples or more that differ")
        return [], 0
    outputs = plain.output, plain.replaced, subject.size
    mixes, exchanges = mixes_samples(*outputs), exchanges_samples(*outputs)
    if mixes:
        notes.append("the network itself mixes samples, so other rows may change")
    found, checked = sample_findings(
        watched.calls[0], watched.calls[1], subject.size, mixes=mixes, exchanges=exchanges
    )
    if any(call.reason for call in watched.calls[0]):
        sums = subject.sample_sums(subject.batch), subject.sample_sums(subject.other)
        found += untrue_reasons(watched.calls[0], *sums)
    return found, checked


def _missed(
    left: Sequence[Operator], network: nn.Module, notes: Sequence[str]
) -> tuple[list[Finding], int]:
    """Return the operators that nothing explains, and how many the coverage names as not seen."""
    modules = dict(network.named_modules())
    missed, named = [], _named_as_not_seen(notes)
    for one in left:
        if named[one.name] > 0:
            named[one.name] -= 1
            continue
        module = modules.get(one.path, network)
        kind = type(module).__name__
        if isinstance(module, FUSED) and any(kind in note for note in notes):
            continue
        where = one.path or "(network)"
        # other notes say where: the coverage names the module itself
        if any(f"{one.path} " in note and "not seen" in note for note in notes if one.path):
            continue
        missed.append(Finding("missed", where, f"{one.name} was computed in {kind}"))
    return missed, len(left) - len(missed)


def _named_as_not_seen(notes: Sequence[str]) -> Counter[str]:
    """Return how many operators of each kind the coverage says were computed without being seen."""
    found: Counter[str] = Counter()
    for note in notes:
        if "computed inside" in note and "not seen" in note:
            for count, kind in re.findall(r"(\d+) (\w+)", note.partition(" computed inside")[0]):
                found[kind] += int(count)
    return found


def _other_calls(sites: Sequence[SeenSite], calls: Sequence[PooledCall]) -> Iterator[Finding]:
    """Yield the calls that an observer meets and a signature does not have, or the reverse."""
    seen, kept = [one.name for one in sites], [one.call.name for one in calls]
    for name in seen:
        if name not in kept:
            yield Finding("missed", name, "recording meets it, a signature does not have it")
    for name in kept:
        if name not in seen:
            yield Finding("false", name, "a signature has it, recording does not meet it")


def _channel_findings(
    sites: Sequence[SeenSite], calls: Sequence[PooledCall]
) -> tuple[list[Finding], set[str]]:
    """Return the sites whose channels are not those of the layer before, and which have one."""
    expected = {site.name: site.channels for site in sites if site.channels is not None}
    findings, checked = [], set[str]()
    for call in calls:
        want = expected.get(call.call.name)
        if want is None or call.x is None:
            continue
        checked.add(call.call.name)
        if call.call.channel_axis != want[0] or call.x.shape[1] != want[1]:
            detail = (
                f"the layer before has {want[1]} channels on axis {want[0]}, the site "
                f"{call.x.shape[1]} on axis {call.call.channel_axis}"
            )
            findings.append(Finding("wrong axis", call.call.name, detail))
    return findings, checked


def _changes(subject: Passes, plain: Plain, watched: Watched) -> Iterator[Finding]:
    """Yield what watching has changed: outputs, then state."""
    for which, before, batch in zip(
        range(2), (plain.output, plain.replaced), (subject.batch, subject.other), strict=True
    ):
        if same_bits(before, watched.outputs[which]):
            continue
        # the one exception that `recording` documents: fused paths of attention are not taken
        with preserve_state(subject.network, mode="eval"), _fused_attention_off():
            again = subject.run(batch)
        if not same_bits(again, watched.outputs[which]):
            yield Finding("changed", f"output of batch {which}", "not the same to the bit")
    for key in sorted(watched.moved - plain.moved):
        yield Finding("changed", key, "not the same after the network was watched")


@contextmanager
def _fused_attention_off() -> Iterator[None]:
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
