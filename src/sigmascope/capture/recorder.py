"""The activation calls of a forward pass, in order of execution, watched without changing it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from torch import Tensor, nn, overrides
from torch.nn.functional import multi_head_attention_forward

from sigmascope.capture.activations import (
    chosen_kinds,
    function_name,
    is_plain,
    kind_of_function,
    kind_of_module,
    may_be_activation,
)
from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.call_site import CallSite
from sigmascope.capture.channel_axis import Layout
from sigmascope.capture.following import Following
from sigmascope.capture.guard import plain_path, unwrapped
from sigmascope.capture.marks import Descent
from sigmascope.capture.nested import inputs_in
from sigmascope.capture.walk import modules_of, tensors_of


@dataclass(frozen=True)
class Call(CallSite):
    """One call of an activation, as an observer sees it.

    Attributes:
        layout: where the channels of the input are.
        descent: where its samples are.
        sequence_first: whether the call belongs to a layer that expects (time, batch, channels).
        plain: whether torch's own function of this kind computes the output.
    """

    layout: Layout
    descent: Descent
    sequence_first: bool
    plain: bool = False

    @property
    def others(self) -> tuple[object, ...]:
        """All that is known of it but the path and the number."""
        return self.kind, self.layout, self.descent, self.sequence_first, self.plain

    @property
    def number(self) -> int:
        """Which call of its module it is, from 0; the same as `call`."""
        return self.call


# Layers that call neither an activation nor another layer, of which a network has many.
LEAVES = {nn.Linear, nn.Embedding, nn.LayerNorm, nn.GroupNorm, nn.Dropout, nn.Identity, nn.Flatten}
LEAVES |= {nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d}
LEAVES |= {nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d}
# What is known of the functions that a network calls, for the next time that it is watched.
_followed: WeakKeyDictionary[nn.Module, Following] = WeakKeyDictionary()

Finish: TypeAlias = Callable[[Tensor], None]
Observer: TypeAlias = Callable[[Call, Tensor], Finish | None]
"""Receives the input before the activation runs, which may overwrite it; returns a function that
receives the output, or None.
"""


@contextmanager
def recording(
    model: nn.Module, observe: Observer, *, activations: str | Collection[str] = "pointwise"
) -> Iterator[Recorder]:
    """Pass every activation call that a network makes inside the context to an observer.

    The network computes exactly what it computes otherwise, with one exception: the fused path of
    `nn.TransformerEncoderLayer`, which hides its activations, is not taken. Activations in other
    threads, in functions compiled by `torch.jit.script` and inside the fused kernels of recurrent
    layers are not seen.

    Args:
        model: any network. Its hooks are restored when the context ends, however it ends.
        observe: see `Observer`.
        activations: which kinds to pass on, see `chosen_kinds`.

    Raises:
        NetworkError: a network whose calls cannot be watched.

    >>> import torch
    >>> def show(call, x):
    ...     return lambda y: print(call.path, call.number, call.kind, tuple(x.shape))
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    >>> with recording(model, show):
    ...     _ = model(torch.zeros(2, 3))
    1 0 relu (2, 4)
    """
    network = unwrapped(model)
    following = _followed.pop(network, None) or Following()
    modules = modules_of(network)
    following.begin(tensors_of(modules))
    recorder = Recorder(observe, chosen_kinds(activations), following)
    handles = []
    try:
        for path, module in modules:
            handles += recorder.watch(module, plain_path(path))
        recorder.start()
        yield recorder
    finally:
        recorder.stop()
        for handle in handles:
            handle.remove()
        following.begin_pass()
        _followed[network] = following


class Recorder(overrides.TorchFunctionMode):
    """Sees every torch function that is called, and every module that is entered and left.

    Only the thread that enters the context is watched, and only while a watched module runs.
    """

    def __init__(self, observe: Observer, kinds: frozenset[str], following: Following) -> None:
        super().__init__()
        self._observe = observe
        self._kinds = kinds
        self._entered: list[_Entered] = []
        self._calls: Counter[str] = Counter()
        self._known: dict[tuple[str, int], Call] = {}
        # function -> its name, and whether it may be an activation
        self._roles: dict[object, tuple[str, bool]] = {}
        self.following = following
        self._batch_axis = 0
        self._watching = False
        self._observing = False
        self._quiet = 0  # how many activations that call others are running
        self._thread = 0

    def start(self, *, below: int = 0) -> None:
        """Start to see functions, below that many modes which the network has entered itself."""
        if self._watching:
            return
        others = [overrides._pop_mode() for _ in range(below)]  # type: ignore[no-untyped-call]
        for mode in (self, *reversed(others)):
            overrides._push_mode(mode)  # type: ignore[no-untyped-call]
        self._watching, self._thread = True, threading.get_ident()

    def stop(self) -> int:
        """Stop seeing functions; return how many other modes were above the recorder."""
        stack = overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if not self._watching or self not in stack:
            return 0
        self._watching = False
        others = [overrides._pop_mode() for _ in stack[stack.index(self) :]][:-1]  # type: ignore[no-untyped-call]
        for mode in reversed(others):
            overrides._push_mode(mode)  # type: ignore[no-untyped-call]
        return len(others)

    @contextmanager
    def forward_pass(
        self, inputs: Iterable[Tensor | list[Tensor]] = (), *, batch_axis: int = 0, size: int = 0
    ) -> Iterator[None]:
        """See functions inside the context only, and count calls from 0 again.

        The `size` samples are entries of axis `batch_axis` of the `inputs`, or tensors of a list.
        """
        self._entered.clear()
        self._calls.clear()
        self._quiet, self._batch_axis = 0, batch_axis
        self.following.begin_pass(inputs, batch_axis=batch_axis, size=size)
        self.start()
        try:
            yield
        finally:
            self.stop()

    @property
    def samples(self) -> int:
        """The number of samples that the network received."""
        return self.following.lineage.size

    def watch(self, module: nn.Module, path: str) -> list[Any]:
        """Add hooks to a module that tell when it runs; return their handles."""
        # a plain container calls nothing itself
        if path and (type(module) in LEAVES or type(module).forward is nn.Sequential.forward):
            return []
        kind, sequence_first = kind_of_module(module), _expects_sequence_first(module)

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if threading.get_ident() == self._thread:
                inside = bool(self._entered) and self._entered[-1].sequence_first
                here = _Entered(module, path, sequence_first or inside)
                self._enter(here, kind, args, kwargs)

        def after(_: nn.Module, __: tuple[Any, ...], output: Any) -> None:
            self._leave(module, output)

        # Last to see the input and first to see the output: other hooks act outside.
        return [
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, prepend=True, always_call=True),
        ]

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._observing:
            return func(*args, **kwargs)
        role = self._roles.get(func)
        if role is None:
            role = function_name(func), may_be_activation(func)
            self._roles[func] = role
        name, kind = role[0], None
        if role[1] and self._entered and not self._quiet:
            kind = kind_of_function(func, args, kwargs)
        if kind is None:
            result = func(*args, **kwargs)
            self._note(name, args, kwargs, result)
            return result
        finish = None
        if kind in self._kinds:
            finish = self._begin(kind, args, kwargs, plain=is_plain(func, kind))
        self._quiet += 1
        try:
            result = func(*args, **kwargs)
        finally:
            self._quiet -= 1
        self._note(name, args, kwargs, result)
        if finish is not None and isinstance(result, Tensor):
            finish(result)
        return result

    def _note(self, name: str, args: Any, kwargs: dict[str, Any], result: object) -> None:
        """Record where channels and samples are in the result of a function."""
        if isinstance(result, Tensor):
            outputs = [result]
        elif name == "__setitem__":
            outputs = [args[0]]
        elif isinstance(result, (tuple, list)):
            outputs = [tensor for tensor in result if isinstance(tensor, Tensor)]
        else:
            return
        if not args and outputs:  # the tensors were given by name
            kwargs = dict(kwargs)
            args = tuple(kwargs.pop(key) for key in ("input", "self", "tensors") if key in kwargs)
        if outputs:
            self.following.note(Applied(name, args, kwargs), outputs)

    def _begin(
        self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, plain: bool = False
    ) -> Finish | None:
        """Pass the input of an activation to the observer."""
        candidates = (*args, kwargs.get("input"), *kwargs.values())
        x = next((value for value in candidates if isinstance(value, Tensor)), None)
        if x is None or not self._watching:
            return None
        here = self._entered[-1]
        number = self.following.routing.number(here.path, x, self._calls)
        where = self.following.layouts.of(x), self.following.lineage.of(x)
        call = self._known.get((here.path, number))
        # The same object where it is the same, which an observer can tell at once.
        if call is None or call.others != (kind, *where, here.sequence_first, plain):
            call = Call(here.path, number, kind, *where, here.sequence_first, plain)
            self._known[here.path, number] = call
        return self._observe(call, x)

    def _enter(self, here: _Entered, kind: str | None, args: Any, kwargs: dict[str, Any]) -> None:
        if not self._entered:
            self.following.add_inputs(inputs_in((*args, *kwargs.values())), self._batch_axis)
        self._entered.append(here)
        if kind is not None:
            if kind in self._kinds and not self._quiet:
                with self._aside():
                    here.finish = self._begin(kind, args, kwargs)
            here.quiet = True
            self._quiet += 1
        attends = isinstance(here.module, nn.MultiheadAttention)
        if attends and type(here.module).forward is nn.MultiheadAttention.forward:
            # Where it is watched it takes another, slightly different path; its only activation is
            # a softmax.
            here.unwatched, here.args = self._watching, (*args, *kwargs.values())
            here.below = self.stop()

    def _leave(self, module: nn.Module, output: Any) -> None:
        # Not so in another thread, or where another hook failed before the module was entered.
        if threading.get_ident() != self._thread or not self._is_entered(module):
            return
        while self._entered:
            here = self._entered.pop()
            self._quiet -= here.quiet
            if here.unwatched:
                self.start(below=here.below)
            if here.module is module:
                break
        if here.unwatched:
            with self._aside():
                self._note(multi_head_attention_forward.__name__, here.args, {}, output)
        if here.finish is not None and isinstance(output, Tensor):
            with self._aside():
                here.finish(output)

    def _is_entered(self, module: nn.Module) -> bool:
        innermost = bool(self._entered) and self._entered[-1].module is module
        return innermost or any(here.module is module for here in self._entered)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Do not see the functions that an observer calls."""
        self._observing = True
        try:
            yield
        finally:
            self._observing = False


@dataclass(slots=True)
class _Entered:
    """A module that is running; `sequence_first` also where one around it is."""

    module: nn.Module
    path: str
    sequence_first: bool
    finish: Finish | None = None
    quiet: bool = False
    unwatched: bool = False
    below: int = 0
    args: tuple[Any, ...] = ()


def _expects_sequence_first(module: nn.Module) -> bool:
    layer = isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer))
    return layer and not getattr(getattr(module, "self_attn", None), "batch_first", True)
