"""The activation calls of a forward pass as pooled matrices; no feature map outlives its call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sigmascope.capture.activations import chosen_kinds
from sigmascope.capture.call_site import CallInput, is_chosen
from sigmascope.capture.crosscheck import crosscheck, notes_of
from sigmascope.capture.density import density_of
from sigmascope.capture.gates import NO_TAG, Tag
from sigmascope.capture.gating import ALONE
from sigmascope.capture.guard import unwrapped
from sigmascope.capture.marks import Descent
from sigmascope.capture.observer import Call, Finish
from sigmascope.capture.pooling import PADDED, Pooling
from sigmascope.capture.pools import Axes, NotSamplesError, UnreadableError
from sigmascope.capture.recorder import Recorder
from sigmascope.capture.recording import recording
from sigmascope.capture.repeating import Repeating
from sigmascope.capture.unforeseen import NESTED
from sigmascope.capture.unseen_layers import UnseenLayers

SELECTED = Descent("selected")


@dataclass
class PooledCall:
    """One activation call of a batch with its input and output as matrices.

    Attributes:
        call: which call it is, and its input before pooling.
        x, y: (n, d), the pooled input and output; None where there is a reason.
        density: the shares of nonzero entries before pooling, in input and output, if asked for.
        reason: why there are no matrices.
        skipped: whether the call is not an activation of the samples at all.
        index: (n,), the sample of the batch that each row belongs to; None where row i is sample i.
    """

    call: CallInput
    x: Tensor | None = None
    y: Tensor | None = None
    density: list[Tensor] = field(default_factory=list)
    reason: str = ""
    skipped: bool = False
    index: Tensor | None = None


@contextmanager
def capturing(
    model: nn.Module,
    *,
    activations: str | Collection[str] = "pointwise",
    densities: bool = False,
    fuse: bool = True,
    sites: Collection[str] = (),
    gates: str = ALONE,
) -> Iterator[Capture]:
    """Watch a network inside the context, as `recording` does, and yield a `Capture` to run it.

    `densities` tells whether to count the nonzero entries of inputs and outputs, `sites` which
    ones are read, see `is_chosen`.
    """
    capture = Capture(densities, unwrapped(model, sharded=True), chosen_kinds(activations), sites)
    with recording(
        model, capture.observe, activations=activations, fuse=fuse, gates=gates
    ) as recorder:
        recorder.stop()
        capture.watch_with(recorder)
        yield capture


class _Site(NamedTuple):
    """A call as it was first seen, and how its tensors are read, or the reason why they are not."""

    call: Call
    dtype: torch.dtype
    seen: CallInput
    axes: Axes | None
    reason: str
    skipped: bool


class Capture:
    """Runs forward passes and returns their activation calls as matrices; see `capturing`."""

    recorder: Recorder
    _repeated: Repeating
    _pooling: Pooling

    def __init__(
        self,
        densities: bool,
        network: nn.Module,
        kinds: Collection[str],
        sites: Collection[str] = (),
    ) -> None:
        self._densities, self._network, self._kinds = densities, network, kinds
        self._chosen, self._layers = tuple(sites), UnseenLayers(network, kinds, sites)
        self.others: dict[str, None] = {}  # names of sites that were not chosen
        self._is_first, self._padded = True, False  # pass; whether padding was scored
        self._calls: list[PooledCall] = []
        self._sites: dict[tuple[str, int], _Site] = {}
        self._reading: tuple[object, ...] = ()
        self._tags: dict[tuple[str, int], Tag] = {}

    def watch_with(self, recorder: Recorder) -> None:
        """Take the recorder of the network."""
        self.recorder, self._repeated = recorder, Repeating(self._network, recorder.following)

    def run(
        self,
        forward: Callable[[], object],
        inputs: Iterable[Tensor | list[Tensor]],
        pooling: Pooling,
    ) -> list[PooledCall]:
        """Run a forward pass on inputs that hold the samples; return its calls in order.

        `forward` is called again where the network writes activations as formulas that are not
        known yet, so it should set the seed of what is random. A list among the inputs holds one
        sample in each of its tensors.
        """
        if pooling.reading != self._reading:
            self._sites, self._reading = {}, pooling.reading
        self._pooling, inputs = pooling, list(inputs)
        # Formulas are known when a pass has ended: where there are new ones, it is run again.
        repeated, again = self._repeated, True
        repeated.begin(inputs)
        while again:
            self._calls = []
            first, self._is_first = self._is_first, False
            with (
                self.recorder.forward_pass(
                    inputs, batch_axis=pooling.batch_axis, size=pooling.size
                ),
                crosscheck(self._network, self.recorder, inputs) if first else nullcontext(),
                self._layers.watching(self.recorder) if first else nullcontext(),
                repeated.watching(),
            ):
                forward()
            again = repeated.again(changed=self.recorder.changed)
        self._padded |= self.recorder.following.routing.padded and pooling.keeps_padding
        calls, self._calls = self._calls, []
        if self._layers.ran:
            self._layers.compare({*self.recorder.parts, *(one.call.path for one in calls)})
        if self.recorder.gating.tags is not self._tags:
            self._tags = self.recorder.gating.tags
            for call in calls:
                self._tag(call)
        return calls

    def _tag(self, pooled: PooledCall) -> None:
        """Say of a call what it is in the network, also when it comes again."""
        place = pooled.call.path, pooled.call.call
        role, multiplies = self._tags.get(place, NO_TAG)
        if (pooled.call.role, pooled.call.multiplies) == (role, multiplies):
            return
        pooled.call = replace(pooled.call, role=role, multiplies=multiplies)
        if place in self._sites:
            self._sites[place] = self._sites[place]._replace(seen=pooled.call)

    def observe(self, call: Call, x: Tensor) -> Finish | None:
        """Pool the input of a call, and return the function that pools its output."""
        if self._chosen and not is_chosen(call.name, call.kind, self._chosen):
            self.others[call.name] = None
            return None
        known = len(self._calls)
        try:
            return self._observed(call, x)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the network goes on whatever its tensors are
            del self._calls[known:]
            seen = CallInput(call.path, call.call, call.kind, (), "float32", None, "")
            self._calls.append(PooledCall(seen, reason=_unforeseen(error)))
            return None

    def notes(self) -> list[str]:
        """Return which activations of the passes so far were not seen, or may not have been."""
        notes = [*notes_of(self._network, self._kinds), *self.recorder.following.notes()]
        notes += [*self._layers.notes(), *[PADDED] * self._padded]
        elsewhere = [path or "the network" for path in self.recorder.elsewhere]
        if elsewhere:
            count = f"{len(elsewhere)} module{'s' * (len(elsewhere) != 1)}"
            notes.append(
                f"{count} ran in another thread, where activations are not seen ({elsewhere[0]}); "
                "run the network in one thread"
            )
        return notes

    def _observed(self, call: Call, x: Tensor) -> Finish | None:
        routing = self.recorder.following.routing
        if call.descent.state == "lost" and self._pooling.takes_selected:
            rows = routing.rows_of(x)
            if rows is not None and rows.are_samples:
                call = replace(call, descent=SELECTED)
        _, _, seen, axes, reason, skipped = self._site(call, x)
        pooled = PooledCall(seen, reason=reason, skipped=skipped)
        self._calls.append(pooled)
        if axes is None:
            return None
        if axes.samples is None or call.descent is SELECTED:
            rows = routing.slots_of(x) if axes.channels == x.ndim - 1 != 0 else None
            axes = replace(axes, rows=rows or routing.rows_of(x))
        try:
            ahead = self._both(x, axes, call)
            pooled.x = self._matrix(x, axes) if ahead is None else ahead[0]
            pooled.index = self._pooling.index(x, axes, len(pooled.x))
        except UnreadableError as error:
            pooled.reason, pooled.skipped = str(error), isinstance(error, NotSamplesError)
            return None
        pooled.reason = "the call did not return"
        if self._densities:
            pooled.density.append(density_of(x))

        def finish(y: Tensor) -> None:
            try:
                self._take_output(pooled, y, axes, ahead)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                pooled.x, pooled.reason = None, _unforeseen(error)

        return finish

    def _take_output(
        self, pooled: PooledCall, y: Tensor, axes: Axes, ahead: tuple[Tensor, Tensor] | None
    ) -> None:
        """Pool the output of a call, unless it is known `ahead`."""
        shape = pooled.call.shape
        if y.is_nested or y.shape != shape:
            pooled.reason = (
                f"input {list(shape)} and output {list(_shape(y))} differ in shape, so no affine "
                "map compares them"
            )
            pooled.x, pooled.skipped = None, True
            return
        try:
            pooled.y = self._matrix(y, axes) if ahead is None else ahead[1]
        except UnreadableError as error:
            pooled.x, pooled.reason = None, str(error)
            return
        pooled.reason = ""
        if self._densities:
            pooled.density.append(density_of(y))

    def _matrix(self, tensor: Tensor, axes: Axes) -> Tensor:
        kind = tensor.device.type
        if tensor.requires_grad:
            tensor = tensor.detach()
        if not torch.is_grad_enabled() and not torch.is_autocast_enabled(kind):
            return self._pooling.matrix(tensor, axes)
        # The gradients and types that the network asks for do not apply to averages.
        with torch.no_grad(), torch.autocast(kind, enabled=False):
            return self._pooling.matrix(tensor, axes)

    def _both(self, x: Tensor, axes: Axes, call: Call) -> tuple[Tensor, Tensor] | None:
        return self._pooling.both(x, axes, call.kind) if call.plain and x.is_cuda else None

    def _site(self, call: Call, x: Tensor) -> _Site:
        """Return how to read a call, from the batch before where it is the same."""
        known = self._sites.get((call.path, call.call))
        if (
            known is not None
            and (known.call is call or known.call == call)
            and known.dtype is x.dtype
            and _is_plain(x)
            and known.seen.shape == x.shape
        ):
            return known
        axes, reason, skipped = None, "", False
        try:
            axes = self._axes(call, x)
        except UnreadableError as error:
            reason, skipped = str(error), isinstance(error, NotSamplesError)
        dtype = str(x.dtype).removeprefix("torch.")
        channels, how = (None, "") if axes is None else (axes.channels, axes.reason)
        role, multiplies = self._tags.get((call.path, call.call), NO_TAG)
        seen = CallInput(
            call.path,
            call.call,
            call.kind,
            _shape(x),
            dtype,
            channels,
            how,
            formula=call.formula,
            role=role,
            multiplies=multiplies,
        )
        site = _Site(call, x.dtype, seen, axes, reason, skipped)
        if _is_plain(x):
            self._sites[call.path, call.call] = site
        return site

    def _axes(self, call: Call, x: Tensor) -> Axes:
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise UnreadableError(
                "inside a transformation of torch.func, where tensors hide their samples; call "
                "the layer plainly"
            )
        if x.is_nested:
            raise NotSamplesError(NESTED)
        if not x.dtype.is_floating_point or not _is_plain(x):
            kind = str(x.dtype).removeprefix("torch.")
            raise NotSamplesError(
                f"a {kind} tensor of layout {x.layout}, for which no score is defined"
            )
        return self._pooling.axes(call, x)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor; of a nested one, whose rows differ, the number of rows."""
    return (tensor.size(0),) if tensor.is_nested else tuple(tensor.shape)


def _unforeseen(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"the tensor was not understood, reading it raised {type(error).__name__}: {text[:200]}"


def _is_plain(tensor: Tensor) -> bool:
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return not wrapped and tensor.layout == torch.strided and not tensor.is_nested
