"""The activation calls of a network, and the sums of their inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from sigmascope.capture.activations import kind_of_layer
from sigmascope.capture.call_site import CallSite
from sigmascope.capture.chosen_calls import Key, chosen_calls
from sigmascope.capture.guard import preserve_state
from sigmascope.capture.observer import Call, Finish
from sigmascope.capture.pooling import Pooling
from sigmascope.capture.pools import UnreadableError
from sigmascope.capture.recording import recording
from sigmascope.capture.walk import modules_of
from sigmascope.linearize.data import Data
from sigmascope.linearize.sums import PairSums
from sigmascope.measure.batches import Batch


@dataclass(frozen=True)
class ActivationCall(CallSite):
    """An activation call as the first batch shows it.

    Attributes:
        shape: of its input.
        dtype: of its input, such as "float32".
        axis: of its channels, from the end: -1 for the last one; None without.
        samples: the axis of the samples; None where every row is one of its own.
        parts: how often the samples are repeated as a whole, and how many entries each has.
        elements: values of its output for one sample.
        inplace: whether the output overwrites the input.
        is_module: whether the activation is a module rather than a function.
        calls: of the same module in the pass.
        scope: the innermost module around all of these calls that runs once in a pass.
        reason: why it cannot be replaced; empty where it can.
    """

    shape: tuple[int, ...]
    dtype: str
    axis: int | None
    samples: int | None
    parts: tuple[int, int]
    elements: int
    inplace: bool
    is_module: bool
    calls: int
    scope: str
    reason: str

    @property
    def key(self) -> Key:
        """The path and the number of the call."""
        return self.path, self.call

    @property
    def channels(self) -> int:
        """The number of channels."""
        return 1 if self.axis is None else self.shape[self.axis]


@dataclass
class Seen:
    """What one pass over the first batch shows: the calls in order, and what each module did."""

    calls: dict[Key, ActivationCall] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)


def activation_calls(network: nn.Module, data: Data) -> list[ActivationCall]:
    """Return the activation calls of a network in evaluation mode, in order of execution."""
    seen = Seen()
    with preserve_state(network, mode="eval"):
        batch = data.first(network)

        def observe(call: Call, x: Tensor) -> Finish:
            found = _described(call, x, batch)
            return lambda y: seen.calls.update({found.key: _finished(found, x, y)})

        with counting(network, seen.runs), recording(network, observe, fuse=False):
            data.forward(network, batch.content)
    return _with_scopes(network, seen)


def _described(call: Call, x: Tensor, batch: Batch) -> ActivationCall:
    """Return what is known before an activation runs."""
    pooling = Pooling("channels", "tokens", {}, 0, batch.size, batch.masks)
    axis, samples, parts, reason = None, None, (1, 1), ""
    if not x.is_floating_point():
        reason = f"its input is of {x.dtype}"
    else:
        try:
            axes = pooling.axes(call, x)
            axis, samples, parts = axes.channels, axes.samples, (axes.outer, axes.inner)
        except UnreadableError as error:
            reason = str(error)
    dtype = str(x.dtype).removeprefix("torch.")
    axis = None if axis is None else axis - x.ndim  # a sample alone has no axis of samples
    return ActivationCall(
        path=call.path,
        call=call.call,
        kind=call.kind,
        shape=tuple(x.shape),
        dtype=dtype,
        axis=axis,
        samples=samples,
        parts=parts,
        elements=round(x.numel() / max(1, batch.size)),
        inplace=False,
        is_module=False,
        calls=1,
        scope="",
        reason=reason,
    )


def _finished(found: ActivationCall, x: Tensor, y: Tensor) -> ActivationCall:
    """Return what is known when it has run."""
    reason = found.reason
    if tuple(y.shape) != found.shape:
        reason = f"it turns {list(found.shape)} into {list(y.shape)}"
    elif not reason and not y.dtype.is_floating_point:
        reason = f"its output is of {y.dtype}"
    return replace(found, inplace=y.data_ptr() == x.data_ptr(), reason=reason)


@contextmanager
def counting(network: nn.Module, runs: Counter[str]) -> Iterator[None]:
    """Count how often each module runs."""
    handles = [
        module.register_forward_pre_hook(lambda *_, path=path: runs.update([path]))
        for path, module in modules_of(network)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _with_scopes(network: nn.Module, seen: Seen) -> list[ActivationCall]:
    modules = dict(modules_of(network))
    calls = Counter(path for path, _ in seen.calls)
    return [
        replace(
            call,
            is_module=kind_of_layer(modules[call.path]) is not None,
            calls=calls[call.path],
            scope=_scope(network, call.path, seen.runs),
        )
        for call in seen.calls.values()
    ]


def _scope(network: nn.Module, path: str, runs: Counter[str]) -> str:
    """Return the path of the innermost module that runs once and holds all uses of another one."""
    target = network.get_submodule(path)
    uses = [name for name, one in network.named_modules(remove_duplicate=False) if one is target]
    parts = path.split(".") if path else []
    for length in range(len(parts), 0, -1):
        around = ".".join(parts[:length])
        holds_all = all(use == around or use.startswith(f"{around}.") for use in uses)
        if holds_all and runs[around] == 1:
            return around
    return ""


def sums_of_calls(
    network: nn.Module, data: Data, calls: list[ActivationCall], *, full: bool
) -> dict[Key, PairSums]:
    """Return the sums of the inputs and outputs of calls over all batches, from one pass."""
    chosen = {call.key: call for call in calls}
    sums = {
        call.key: PairSums(call.channels, full=full and call.axis is not None) for call in calls
    }
    masks: dict[str, Tensor] = {}

    def observe(key: Key, x: Tensor) -> Finish | None:
        call = chosen[key]
        before = x.detach().clone() if call.inplace else x.detach()
        mask = _mask_of(before, call, masks)

        def finish(y: Tensor) -> None:
            if y.shape == before.shape:
                sums[key].add(before, y.detach(), call.axis, mask)

        return finish

    with preserve_state(network, mode="eval"), chosen_calls(network, chosen, observe):
        for batch in data.batches(network):
            masks.clear()
            masks.update(batch.masks)
            data.forward(network, batch.content)
    return {key: one for key, one in sums.items() if one.count}


def _mask_of(x: Tensor, call: ActivationCall, masks: dict[str, Tensor]) -> Tensor | None:
    """Return which of the first axes of (n, t, c) are not padding, if that is known."""
    part = "decoder" if "decoder" in masks and "decoder" in call.path else ""
    mask = masks.get(part)
    fits = mask is not None and call.axis == -1 and x.shape[:-1] == mask.shape
    return mask.to(x.device, torch.bool) if fits and mask is not None else None
