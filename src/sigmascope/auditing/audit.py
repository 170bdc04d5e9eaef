"""The audit of one network and batch: the verb."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.auditing.matching import SeenSite, unmatched
from sigmascope.auditing.operators import Operator, OperatorCounter
from sigmascope.auditing.producers import Producers
from sigmascope.auditing.result import Audit, Finding
from sigmascope.auditing.samples import (
    count_samples,
    is_same_batch,
    mixes_samples,
    sample_findings,
    with_sample_replaced,
)
from sigmascope.auditing.state import differences, same_bits, seeded, state_of
from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.pooled import PooledCall
from sigmascope.capture.recorder import Call, recording
from sigmascope.errors import InputError, NoActivationError, SigmascopeError
from sigmascope.measure.batches import Forward, run_forward, to_model
from sigmascope.measure.kept_features import kept_calls
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
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
        return replace(blank, refused=_line(error))
    subject = _Subject(network, batch, forward or run_forward, softmax)
    plain = subject.plain()
    try:
        sites, operators = subject.seen()
        watched = subject.watched()
    except SigmascopeError as error:
        return _refused(blank, subject, error)
    except Exception as error:  # any other is a finding, whatever it is
        return replace(blank, operators=subject.count(), error=_line(error))
    return _judged(blank, subject, plain, _Seen(sites, operators), watched)


@dataclass
class _Plain:
    """Two passes that nobody watches."""

    output: Any
    replaced: Any
    moved: set[str]  # the state that the network itself changes


@dataclass
class _Seen:
    sites: list[SeenSite]
    operators: list[Operator]


@dataclass
class _Watched:
    """What a signature of the batch, and of the one with a sample replaced, has found."""

    signature: Signature
    calls: list[list[PooledCall]]
    outputs: list[Any]
    moved: set[str]


class _Subject:
    """A network with its batch, and the passes that an audit needs."""

    def __init__(self, network: nn.Module, batch: Any, forward: Forward, softmax: bool) -> None:
        self.network = network
        self.batch = to_model(batch, network, batch_axis=0).content
        self.size = count_samples(self.batch)
        self.other = with_sample_replaced(self.batch, self.size)
        self.activations = "all" if softmax else "pointwise"
        self._forward, self._softmax = forward, softmax

    def run(self, batch: Any) -> Any:
        return seeded(functools.partial(self._forward, self.network, batch))

    def plain(self) -> _Plain:
        before = state_of(self.network)
        try:
            with preserve_state(self.network, mode="eval"):
                output, replaced = self.run(self.batch), self.run(self.other)
        except Exception as error:  # whatever the network raises
            raise InputError(
                f"the network does not run on this batch ({type(error).__name__}: {_line(error)}). "
                "Pass a batch that it accepts, or forward=lambda model, batch: model(...)."
            ) from error
        return _Plain(output, replaced, differences(before, state_of(self.network)))

    def seen(self) -> tuple[list[SeenSite], list[Operator]]:
        """Return the sites that an observer meets, and the operators of the same pass."""
        sites: list[SeenSite] = []
        counter = OperatorCounter(self.network, softmax=self._softmax)
        producers = Producers()

        def observe(call: Call, x: Tensor) -> Callable[[Tensor], None]:
            start, channels = counter.step, producers.channels(x)
            site = SeenSite(call.name, call.path, call.kind, start, start, channels)
            sites.append(site)

            def finish(_: Tensor) -> None:
                site.stop = counter.step

            return finish

        with (
            preserve_state(self.network, mode="eval"),
            recording(self.network, observe, activations=self.activations),
            counter.counting(),
            producers.watching(),
        ):
            self.run(self.batch)
        return sites, counter.operators

    def count(self) -> int:
        """Return how many activation operators the network computes where nobody watches."""
        counter = OperatorCounter(self.network, softmax=self._softmax)
        with preserve_state(self.network, mode="eval"), counter.counting():
            self.run(self.batch)
        return sum(one.activation for one in counter.operators)

    def watched(self) -> _Watched:
        """Measure the network on the batch and on the one with a sample replaced."""
        outputs: list[Any] = []

        def forward(model: nn.Module, batch: Any) -> Any:
            outputs.append(seeded(functools.partial(self._forward, model, batch)))
            return outputs[-1]

        before = state_of(self.network)
        with tempfile.TemporaryDirectory() as keep:
            result = signature(
                self.network,
                iter([self.batch, self.other]),
                forward=forward,
                keep=keep,
                progress=False,
                estimator="published",
                activations=self.activations,
            )
            calls = kept_calls(keep)
        return _Watched(result, calls, outputs, differences(before, state_of(self.network)))


def _refused(blank: Audit, subject: _Subject, error: SigmascopeError) -> Audit:
    """Return the audit of a network that was refused; what nobody saw is missed, not refused."""
    operators = subject.count()
    result = replace(blank, operators=operators, refused=_line(error))
    if not isinstance(error, NoActivationError) or not operators:
        return result
    if any(isinstance(module, FUSED) for module in subject.network.modules()):
        return replace(result, explained=operators)
    detail = f"{operators} activation operators were computed, and none was seen"
    return replace(result, refused="", findings=(Finding("missed", "(network)", detail),))


def _judged(
    blank: Audit, subject: _Subject, plain: _Plain, seen: _Seen, watched: _Watched
) -> Audit:
    first, notes = watched.calls[0], list[str]()
    left, false = unmatched(seen.sites, seen.operators)
    missed, explained = _missed(left, subject.network, watched.signature.coverage.notes)
    channels, with_channels = _channel_findings(seen.sites, first)
    samples: list[Finding] = []
    with_samples = 0
    if subject.size < 2 or is_same_batch(subject.batch, subject.other):
        notes.append("the axis of samples was not checked: pass two samples or more that differ")
    else:
        mixes = mixes_samples(plain.output, plain.replaced, subject.size)
        if mixes:
            notes.append("the network itself mixes samples, so other rows may change")
        samples, with_samples = sample_findings(first, watched.calls[1], subject.size, mixes=mixes)
    return replace(
        blank,
        operators=sum(one.activation for one in seen.operators),
        sites=len(first),
        skipped=sum(bool(call.reason) for call in first),
        explained=explained,
        samples=with_samples,
        channels=with_channels,
        findings=(
            *missed,
            *false,
            *_other_calls(seen.sites, first),
            *samples,
            *channels,
            *_changes(subject, plain, watched),
        ),
        notes=tuple(notes),
    )


def _missed(
    left: Sequence[Operator], network: nn.Module, notes: Sequence[str]
) -> tuple[list[Finding], int]:
    """Return the operators that nothing explains, and how many the coverage names as not seen."""
    modules = dict(network.named_modules())
    missed = []
    for one in left:
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
) -> tuple[list[Finding], int]:
    """Return the sites whose channels are not those of the layer before, and how many have one."""
    expected = {site.name: site.channels for site in sites if site.channels is not None}
    findings, checked = [], 0
    for call in calls:
        want = expected.get(call.call.name)
        if want is None or call.x is None:
            continue
        checked += 1
        if call.call.channel_axis != want[0] or call.x.shape[1] != want[1]:
            detail = (
                f"the layer before has {want[1]} channels on axis {want[0]}, the site "
                f"{call.x.shape[1]} on axis {call.call.channel_axis}"
            )
            findings.append(Finding("wrong axis", call.call.name, detail))
    return findings, checked


def _changes(subject: _Subject, plain: _Plain, watched: _Watched) -> Iterator[Finding]:
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


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]
