"""The inputs and outputs of chosen activation calls of a training step, as rows with gradients."""

from __future__ import annotations

import fnmatch
import math
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from sigmascope.capture.chosen_calls import Key, chosen_calls, inside_compiled
from sigmascope.capture.observer import Call, Finish
from sigmascope.capture.pooling import Pooling
from sigmascope.capture.pools import POOLS, Axes, UnreadableError, precise
from sigmascope.capture.recording import recording
from sigmascope.errors import NetworkError, OptionError

Sizes: TypeAlias = tuple[tuple[int, ...], ...]
"""The shapes of the inputs of the network, without their first axes."""
POSITIONS = 16  # of a sample, where positions are samples
COMPILED = "compiled by torch.compile, where hooks do not run; put sg.nn.Scored around it instead"
FOLDED = (
    "its samples share an axis with windows or other positions, and the inputs have another size "
    "than in the first pass"
)
NO_GRADIENT = (
    "ran without gradients, as under torch.no_grad; pass use_reentrant=False to "
    "torch.utils.checkpoint"
)


@dataclass(frozen=True)
class Site:
    """A chosen call: its name, and how its tensors are read, or the reason why they are not."""

    name: str
    axes: Axes | None
    ndim: int
    reason: str = ""


@dataclass(frozen=True)
class Pair:
    """The input and output of a call, (n, d) each, with gradients.

    Where positions are averaged these are sums over `positions` of them. The backward pass of a sum
    is a view, made without Python, where that of a mean writes a number for every position.
    """

    x: Tensor
    y: Tensor
    positions: int = 1

    def averaged(self) -> Pair:
        """Return means over positions."""
        return (
            self if self.positions == 1 else Pair(self.x / self.positions, self.y / self.positions)
        )


def together(pairs: Sequence[Pair]) -> Pair:
    """Return the pairs of all forward passes of a context as one."""
    if len(pairs) == 1:
        return pairs[0]
    means = [pair.averaged() for pair in pairs]
    return Pair(torch.cat([one.x for one in means]), torch.cat([one.y for one in means]))


@dataclass
class Collected:
    """What a context has seen.

    Attributes:
        pairs: site -> its inputs and outputs, one pair for each forward pass.
        skipped: site -> why it has none.
        dtype, device: of the activations that were last; float32 under autocast.
        has_run: whether the network has run at all.
        sizes: of the last forward pass.
    """

    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    device: torch.device | None = None
    has_run: bool = False
    sizes: Sizes = ()


class SiteRows:
    """Pools the inputs and outputs of chosen activation calls.

    The first forward pass is watched by `recording`, which finds the calls and their axes; the
    others by `chosen_calls`.
    """

    def __init__(self, network: nn.Module, patterns: Sequence[str], samples: str) -> None:
        self._network, self._patterns, self._samples = network, patterns, samples
        self._plan: dict[Key, Site] | None = None
        self._calls: dict[Key, Call] = {}  # of the first pass
        self._learned: dict[Key, Site] = {}
        self._offsets = random.Random(0)  # its own, so that training draws what it draws without
        self._now = Collected()
        self._compiled: set[str] = set()
        self._sizes: Sizes = ()  # of the pass that the plan is from
        self._expects_gradient = False

    @property
    def offsets(self) -> tuple[Any, ...]:
        """The state of what draws the positions that are samples."""
        return self._offsets.getstate()

    @offsets.setter
    def offsets(self, state: tuple[Any, ...]) -> None:
        self._offsets.setstate(state)

    @contextmanager
    def collecting(self, *, expects_gradient: bool) -> Iterator[Collected]:
        """Collect the rows of forward passes inside the context.

        Raises:
            OptionError: no call matches the patterns.
            NetworkError: all that do are compiled.
        """
        now = self._now = Collected()
        self._expects_gradient = expects_gradient
        with ExitStack() as stack:
            if self._plan is None:
                self._watch_first(stack)
            else:
                self._watch(stack)
            yield now
        if self._plan is None and self._calls:  # parts of the network ran, but never all of it
            self._settle()
        self._now = Collected()  # the rows belong to whoever has collected them

    def _watch(self, stack: ExitStack) -> None:
        """Watch the calls of the plan."""
        assert self._plan is not None
        self._note_runs(stack)
        stack.enter_context(chosen_calls(self._network, self._plan, self._observe))

    def _note_runs(self, stack: ExitStack) -> None:
        def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._now.has_run = True
            given = (one for one in (*args, *kwargs.values()) if isinstance(one, Tensor))
            self._now.sizes = tuple(tuple(one.shape[1:]) for one in given)

        handle = self._network.register_forward_pre_hook(note, prepend=True, with_kwargs=True)
        stack.callback(handle.remove)

    def _watch_first(self, stack: ExitStack) -> None:
        """Watch everything in the first forward pass, and only what it has shown from then on."""
        self._calls, self._learned = {}, {}
        self._compiled = inside_compiled(self._network)
        learning = stack.enter_context(ExitStack())
        self._note_runs(learning)
        if "torch._dynamo" in sys.modules:  # otherwise nothing is compiled
            learning.enter_context(torch.compiler.set_stance("force_eager"))
        learning.enter_context(recording(self._network, self._learn, fuse=False))

        def after(*_: object) -> None:
            if self._plan is None:
                self._now.has_run = True
                learning.close()
                self._settle()
                self._watch(stack)

        stack.callback(self._network.register_forward_hook(after).remove)

    def _settle(self) -> None:
        """Take what the first pass has shown as the plan of all others."""
        if not self._learned:
            names = ", ".join(call.name for call in self._calls.values())
            raise OptionError(
                f"sites={', '.join(self._patterns)!r} matches no activation call. "
                + (f"Choose from {names}." if names else "The network made none.")
            )
        if all(site.reason == COMPILED for site in self._learned.values()):
            raise NetworkError(f"every chosen site is {COMPILED}.")
        self._plan, self._sizes = dict(self._learned), self._now.sizes

    def _learn(self, call: Call, x: Tensor) -> Finish | None:
        """Observe a call of the first pass."""
        self._now.has_run = True
        key = call.path, call.number
        self._calls[key] = call
        if not any(
            pattern == call.kind or fnmatch.fnmatchcase(name, pattern)
            for pattern in self._patterns
            for name in (call.path, call.name)
        ):
            return None
        self._learned[key] = self._site(call, x)
        return self._observe(key, x)

    def _site(self, call: Call, x: Tensor) -> Site:
        if call.path in self._compiled:
            return Site(call.name, None, x.ndim, COMPILED)
        if not x.is_floating_point():
            return Site(call.name, None, x.ndim, f"its input is of {x.dtype}")
        size = len(x) if x.ndim else 0
        pooling = Pooling("channels", self._samples, {}, 0, size, {})
        try:
            return Site(call.name, pooling.axes(call, x), x.ndim)
        except UnreadableError as error:
            return Site(call.name, None, x.ndim, str(error))

    def _observe(self, key: Key, x: Tensor) -> Finish | None:
        """Pool the input of a chosen call, and return the function that pools its output."""
        # a checkpoint that computes its part again, in the backward pass
        if torch._C._current_graph_task_id() != -1:
            return None
        site, now = (self._plan or self._learned)[key], self._now
        now.has_run = True  # also where the network is called by its parts
        reason, axes, offset = site.reason, site.axes, self._offsets.random()
        if not reason and x.ndim != site.ndim:
            reason = f"its input has {x.ndim} axes, and {site.ndim} in the first pass"
        if not reason and self._expects_gradient and not torch.is_grad_enabled():
            reason = NO_GRADIENT
        if not reason and not x.numel():
            reason = "its batch is empty"
        if not reason and self._has_moved(site):
            reason = FOLDED
        if reason or axes is None:
            now.skipped[site.name] = reason
            return None
        now.dtype, now.device = dtype_of_loss(x), x.device
        before, shape = self._rows_of(x, axes, offset), x.shape

        def finish(y: Tensor) -> None:
            if y.shape != shape:
                now.skipped[site.name] = f"it turns {list(shape)} into {list(y.shape)}"
                return
            after = self._rows_of(y, axes, offset)
            positions = shape.numel() // before.numel() if self._sums(axes, site.ndim) else 1
            now.pairs.setdefault(site.name, []).append(Pair(before, after, positions))

        return finish

    def _has_moved(self, site: Site) -> bool:
        """Return whether samples may be elsewhere than in the first pass.

        They share an axis with positions, of which inputs of another size have another number.
        """
        axes = site.axes
        is_shared = axes is not None and axes.outer * axes.inner != 1
        return self._plan is not None and is_shared and self._now.sizes != self._sizes

    def _sums(self, axes: Axes, ndim: int) -> bool:
        """Return whether rows are sums over positions."""
        return self._samples == "batch" and axes.pair is not None and ndim > 2

    def _rows_of(self, tensor: Tensor, axes: Axes, offset: float) -> Tensor:
        """Return (n, d), float32 or float64. No tensor is saved, so that a checkpoint counts none.

        Where the activation works in place, its input is read before.
        """
        if not self._expects_gradient:
            tensor = tensor.detach()
        if self._sums(axes, tensor.ndim):
            return summed(tensor, axes)
        if self._samples == "batch":
            return POOLS["channels"](tensor, axes, None)
        return on_grid(axes.ordered(tensor), offset).flatten(0, -2).to(precise(tensor), copy=True)


def summed(tensor: Tensor, axes: Axes) -> Tensor:
    """Return the sums over all positions (n, d)."""
    assert axes.pair is not None
    positions = tuple(axis for axis in range(tensor.ndim) if axis not in axes.pair)
    total = tensor.sum(dim=positions, dtype=precise(tensor))
    return total if axes.pair[0] < axes.pair[1] else total.mT


def dtype_of_loss(x: Tensor) -> torch.dtype:
    """Return the dtype that the loss of a network with such activations most likely has."""
    return torch.float32 if torch.is_autocast_enabled(x.device.type) else x.dtype


def on_grid(ordered: Tensor, offset: float) -> Tensor:
    """Return a view of up to 16 positions of each sample of (n, ..., d), evenly spaced.

    `offset` from 0 to below 1 shifts the grid.

    >>> on_grid(torch.zeros(2, 1, 1, 32, 32, 8), 0.5).shape
    torch.Size([2, 1, 1, 4, 4, 8])
    """
    lengths = list(ordered.shape[1:-1])
    strides = [1] * len(lengths)
    while math.prod(map(_steps, lengths, strides)) > POSITIONS:
        longest = max(range(len(lengths)), key=lambda axis: _steps(lengths[axis], strides[axis]))
        strides[longest] += 1
    places = [slice(int(offset * stride), None, stride) for stride in strides]
    return ordered[(slice(None), *places)]


def _steps(length: int, stride: int) -> int:
    return -(-length // stride)
