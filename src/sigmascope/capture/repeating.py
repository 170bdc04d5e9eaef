"""The state of a network before a pass, so that the pass can be repeated as if it had not run.

Formulas are known when a pass has ended. A network may keep state even in evaluation mode, such as
a counter or a cache, or overwrite its input: before the pass is run again, all of it is put back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from sigmascope.capture import activations
from sigmascope.capture.crosscheck import ORDINARY, unsupported
from sigmascope.capture.ending import ending
from sigmascope.capture.following import Following
from sigmascope.capture.mode import entered
from sigmascope.capture.nested import tensors_in
from sigmascope.capture.sharded import sharded_parts, shards_kept
from sigmascope.capture.walk import modules_of, tensors_of

RUNS = 4  # of a pass at most, until its formulas are known
MOST = 20_000  # objects that are looked into
INTERNAL = {*nn.Module().__dict__} - {"_buffers", "_modules", "_parameters"}
# Objects that hold no state of a forward pass, or share it with other code.
FUNCTIONS = (BuiltinFunctionType, FunctionType, MethodType)
SHARDING = "torch.distributed."  # which frees and fills tensors of its own
OPAQUE = (*FUNCTIONS, ModuleType, nn.Module, torch.Generator, torch.Size, type)


class Repeating:
    """Runs each pass of a network at most `RUNS` times, of which only the last leaves a trace."""

    def __init__(self, network: nn.Module, following: Following) -> None:
        self._network, self._following = network, following
        self._sharded = bool(sharded_parts(network))
        self._modules: list[nn.Module] | None = None  # that passes change, once it is known
        self._inputs_too = True
        self._state: State | None = None
        self._runs = 0
        self._watches = False

    def begin(self, inputs: Sequence[object]) -> None:
        """Begin a pass: keep what it may change."""
        self._runs, self._state, mode = 0, None, self._network.training
        changes = self._following.changes.get(mode)  # known from an earlier measurement
        if not self._following.searches or changes is False or self._modules == []:
            return
        self._watches = changes is None and not unsupported(self._network, inputs)
        modules = self._modules
        if modules is None:
            modules = [module for _, module in modules_of(self._network)]
        self._state = State(modules, inputs if self._inputs_too else (), copies=not self._watches)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Return the context of a run."""
        watches, self._watches = self._watches, False
        with ExitStack() as stack:
            if self._sharded:
                stack.enter_context(shards_kept(self._network))
            if watches and self._state:
                stack.enter_context(self._state.watching())
            yield

    def again(self, *, changed: bool) -> bool:
        """Return whether to run the pass again, since formulas have `changed`; then undo it."""
        self._runs += 1
        state, again = self._state, changed and self._runs < RUNS
        if state is not None and self._modules is None:
            self._modules, self._inputs_too = state.changed_modules(), state.wrote_inputs()
            if self._inputs_too and not self._modules:
                self._modules = [self._network]
            self._following.changes[self._network.training] = bool(self._modules)
        if again and state is not None:
            state.restore()
        return again


class State:
    """What modules hold before a pass, and the inputs."""

    def __init__(
        self, modules: Sequence[nn.Module], inputs: Iterable[object], *, copies: bool
    ) -> None:
        self._inputs = [*filter(_is_plain, tensors_in([*inputs]))]
        known: set[int] = set()
        self._parts = [(module, _Holders(module, known)) for module in modules]
        buffers = {id(one): one for module in modules for one in module._buffers.values()}
        self._values = [(one, _copied(one)) for one in buffers.values() if _is_plain(one)]
        held = [tensor for _, holders in self._parts for tensor in holders.tensors]
        own = tensors_of([("", module) for module in modules])
        self._storages = [(one, one.detach()) for one in own if _is_plain(one)]
        if copies:
            self._values += [(one, _copied(one)) for one in (*self._inputs, *held)]
        self._others = [*self._inputs, *held, *(one for one, _ in self._storages)]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Copy tensors of the state inside the context before anything writes into them."""
        copied = {id(one) for one, _ in self._values}
        mode = _Writes(one for one in self._others if id(one) not in copied)
        with entered(mode), ending() as steps:
            steps.append(partial(setattr, activations, "own_modes", activations.own_modes))
            activations.own_modes += 1
            try:
                yield
            finally:
                self._values += mode.before

    def _written(self) -> set[int]:
        """Return the `id` of tensors whose values or memory are others than before."""
        found = {id(one) for one, before in self._values if not _is_equal(one, before)}
        return found | {id(one) for one, before in self._storages if _has_moved(one, before)}

    def changed_modules(self) -> list[nn.Module]:
        """Return the modules that a pass has changed."""
        written = self._written()
        return [
            module
            for module, holders in self._parts
            if holders.have_changed()
            or any(id(one) in written for one in (*holders.tensors, *tensors_of([("", module)])))
        ]

    def wrote_inputs(self) -> bool:
        """Return whether a pass has written into its inputs."""
        written = self._written()
        return any(id(one) in written for one in self._inputs)

    def restore(self) -> None:
        """Put everything back."""
        for _, holders in self._parts:
            holders.restore()
        with torch.no_grad():
            for tensor, before in self._storages:
                if _has_moved(tensor, before):
                    tensor.data = before
            for tensor, before in self._values:
                if not _is_equal(tensor, before):
                    tensor.copy_(before)


def _is_plain(tensor: Tensor | None) -> TypeGuard[Tensor]:
    """Return whether a tensor can be copied, compared and written to."""
    if tensor is None or type(tensor) not in ORDINARY:
        return False
    return tensor.layout is torch.strided and not tensor.is_nested


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def _is_equal(tensor: Tensor, before: Tensor) -> bool:
    return tensor.shape == before.shape and torch.equal(tensor, before)


def _has_moved(tensor: Tensor, before: Tensor) -> bool:
    """Return whether a tensor was given other data, as by `tensor.data = …`."""
    return bool(tensor.untyped_storage()._cdata != before.untyped_storage()._cdata)


class _Holders:
    """The attributes of a module and what they hold, as far as plain Python tells.

    Attributes:
        tensors: that are neither parameters nor buffers.
    """

    def __init__(self, module: nn.Module, known: set[int]) -> None:
        own = module.__dict__
        self.tensors: list[Tensor] = []
        self._held: list[tuple[Any, Any]] = [(own, {**own})]  # containers, and what is in them
        self._known = known
        self._waiting = [
            value for name, value in own.items() if name not in INTERNAL and name != "forward"
        ]
        while self._waiting and len(self._known) < MOST:
            self._add(self._waiting.pop())

    def _add(self, value: Any) -> None:
        if id(value) in self._known or isinstance(value, OPAQUE):
            return
        if type(value).__module__.startswith(SHARDING):
            return
        if isinstance(value, Tensor):
            self._known.add(id(value))
            if _is_plain(value) and not isinstance(value, (nn.Parameter, nn.Buffer)):
                self.tensors.append(value)
            return
        inside = value if isinstance(value, (dict, list, set, deque)) else vars_of(value)
        if isinstance(value, (tuple, frozenset)):
            self._waiting += value
        elif inside is not None:
            self._known.add(id(value))
            items = {**inside} if isinstance(inside, dict) else [*inside]
            self._held.append((inside, items))
            self._waiting += items.values() if isinstance(items, dict) else items

    def have_changed(self) -> bool:
        """Return whether any of them holds something else."""
        return any(_differ(holder, before) for holder, before in self._held)

    def restore(self) -> None:
        """Let all of them hold what they held."""
        for holder, before in self._held:
            if _differ(holder, before):
                holder.clear()
                put: Callable[..., object] = getattr(holder, "extend", None) or holder.update
                put(before)


def vars_of(value: object) -> dict[str, Any] | None:
    """Return the attributes of an object; None for one that has none of its own."""
    own = getattr(value, "__dict__", None)
    return own if isinstance(own, dict) else None


def _differ(holder: Any, before: Any) -> bool:
    if len(holder) != len(before):
        return True
    if isinstance(holder, dict):
        return any(
            one is not other or value is not before[other]
            for (one, value), other in zip(holder.items(), before, strict=True)
        )
    return any(one is not other for one, other in zip(holder, before, strict=True))


class _Writes(TorchDispatchMode):
    """Copies tensors before an operator writes into them, if only through a view."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.before: list[tuple[Tensor, Tensor]] = []
        self._owners: dict[int, list[Tensor]] = {}
        self._written: dict[object, tuple[list[int], list[str]]] = {}
        for tensor in tensors:
            self._owners.setdefault(tensor.untyped_storage()._cdata, []).append(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            if func not in self._written:
                self._written[func] = _written_by(func)
            places, names = self._written[func]
            if places or names:
                given = [args[place] for place in places if place < len(args)]
                self._keep([*given, *(kwargs.get(name) for name in names)])
            return func(*args, **kwargs)

    def _keep(self, written: list[Any]) -> None:
        for tensor in tensors_in(written):
            storage = tensor.untyped_storage()._cdata
            self.before += [(one, _copied(one)) for one in self._owners.pop(storage, ())]


def _written_by(func: Any) -> tuple[list[int], list[str]]:
    """Return the positions and the names of the arguments that an operator writes into."""
    given = [
        (place, one)
        for place, one in enumerate(func._schema.arguments)
        if one.alias_info is not None and one.alias_info.is_write
    ]
    return [place for place, _ in given], [one.name for _, one in given]
