"""Watching a few activation calls whose places are known, at the price of a hook each.

`sigmascope.recording` sees every function of a network to find out where activations are and which
axes are channels. A training step cannot afford that every time. Here an activation that is a
module gets two hooks; a function that a module calls itself is seen by a mode, which is off while
the children of that module run.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from sigmascope.capture.activations import (
    chosen_kinds,
    kind_of_function,
    kind_of_layer,
    may_be_activation,
)
from sigmascope.capture.entered import input_of
from sigmascope.capture.guard import COMPILED, plain_path
from sigmascope.capture.mode import WatchingMode
from sigmascope.capture.observer import Finish
from sigmascope.capture.walk import modules_of

Key = tuple[str, int]
"""The path of a module, and which of its calls in a forward pass it is."""


@contextmanager
def chosen_calls(
    network: nn.Module, chosen: Collection[Key], observe: Callable[[Key, Tensor], Finish | None]
) -> Iterator[None]:
    """Pass the chosen activation calls inside the context to an observer, and no others.

    Calls are numbered as `recording` numbers them, from 0 in each forward pass of the network.
    Nothing remains on the network when the context ends, however it ends.
    """
    watching = _Watching(chosen, observe)
    handles: list[Any] = []
    try:
        handles += watching.watch_root(network)
        paths = {path for path, _ in chosen}
        for path, module in modules_of(network):
            if plain_path(path) in paths:
                is_module = kind_of_layer(module) is not None
                handles += (watching.watch_module if is_module else watching.watch_functions)(
                    module, plain_path(path)
                )
        yield
    finally:
        for handle in handles:
            handle.remove()
        watching.stop()


def inside_compiled(network: nn.Module) -> set[str]:
    """Return the paths whose hooks do not run, since `torch.compile` has compiled them.

    A function that a module calls beside a child that was compiled in place is among them: the mode
    that sees the function would be seen by the compiler.
    """
    modules = modules_of(network)
    roots = [path for path, one in modules if one._compiled_call_impl is not None]
    within = {
        plain_path(path)
        for path, _ in modules
        if COMPILED in path.split(".")
        or any(path == root or not root or path.startswith(f"{root}.") for root in roots)
    }
    beside = {
        path
        for path, module in modules
        if any(one._compiled_call_impl is not None for one in module.children())
    }
    return within | beside


@dataclass(eq=False, slots=True)
class _Running:
    """A module that runs.

    Attributes:
        path: its path; None for one inside of a watched module, whose functions are its own.
        above: how many modes it had entered when it called another one.
    """

    module: nn.Module
    path: str | None
    above: int = 0


def _inside(module: nn.Module) -> list[nn.Module]:
    """Return the modules inside another one, but for what is compiled, where hooks are not free.

    Those in a list are among them, since the list does not run itself.
    """
    found = modules_of(module)[1:]
    compiled = {
        part
        for _, one in found
        if one._compiled_call_impl is not None
        for _, part in modules_of(one)
    }
    return [one for path, one in found if one not in compiled and COMPILED not in path.split(".")]


def _place(running: _Running) -> tuple[nn.Module, str | None]:
    return running.module, running.path


class _Watching(WatchingMode):
    """Counts the calls of a pass, and passes on those that were chosen."""

    def __init__(
        self, chosen: Collection[Key], observe: Callable[[Key, Tensor], Finish | None]
    ) -> None:
        super().__init__()
        self._chosen, self._observe = frozenset(chosen), observe
        self._kinds = chosen_kinds("pointwise")
        self._calls: Counter[str] = Counter()
        self._owner = threading.get_ident()
        # The modules that run, of those that call a chosen function or are inside of one.
        self._running: list[_Running] = []
        self._open: list[tuple[nn.Module, Finish | None]] = []
        self._may_be: dict[object, bool] = {}

    def watch_root(self, network: nn.Module) -> list[Any]:
        """Count from 0 again when the network starts."""

        def before(*_: object) -> None:
            if threading.get_ident() == self._owner:
                self._calls.clear()
                self._open.clear()

        return [network.register_forward_pre_hook(before, prepend=True)]

    def watch_module(self, module: nn.Module, path: str) -> list[Any]:
        """Pass on the calls of a module that is an activation."""

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if threading.get_ident() == self._owner:
                self._open.append((module, self._begin(path, input_of(args, kwargs))))

        def after(_: nn.Module, __: object, output: object) -> None:
            if threading.get_ident() != self._owner:
                return
            while self._open:
                opened, finish = self._open.pop()
                if opened is module:
                    if finish is not None and isinstance(output, Tensor):
                        finish(output)
                    return

        return _hooked(module, before, after)

    def watch_functions(self, module: nn.Module, path: str) -> list[Any]:
        """Pass on the activation functions that a module calls itself."""
        handles = self._watch_running(module, path)
        for inside in _inside(module):
            handles += self._watch_running(inside, None)
        return handles

    def _watch_running(self, module: nn.Module, path: str | None) -> list[Any]:
        def before(*_: object) -> None:
            if threading.get_ident() == self._owner:
                if self._running:
                    self._running[-1].above = self.stop()
                self._running.append(_Running(module, path))
                self._see()

        def after(*_: object) -> None:
            here = (module, path)
            if threading.get_ident() == self._owner and here in map(_place, self._running):
                while _place(self._running.pop()) != here:
                    pass
                self.stop()
                self._see()

        return _hooked(module, before, after)

    def _see(self) -> None:
        """See functions where the innermost of the running modules calls chosen ones.

        Modes that this module has entered itself see them first, as before it called another one.
        """
        if self._running and self._running[-1].path is not None:
            self.start(below=self._running[-1].above)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        may_be = self._may_be.get(func)
        if may_be is None:
            may_be = self._may_be[func] = may_be_activation(func)
        path = self._running[-1].path if may_be and self._running else None
        if path is None or kind_of_function(func, args, kwargs) not in self._kinds:
            return func(*args, **kwargs)
        finish = self._begin(path, input_of(args, kwargs))
        result = func(*args, **kwargs)
        if finish is not None and isinstance(result, Tensor):
            finish(result)
        return result

    def _begin(self, path: str, x: object) -> Finish | None:
        key = path, self._calls[path]
        self._calls[path] += 1
        return self._observe(key, x) if key in self._chosen and isinstance(x, Tensor) else None


def _hooked(module: nn.Module, before: Callable[..., Any], after: Callable[..., Any]) -> list[Any]:
    """Add hooks that see the input last and the output first, also of a call that fails."""
    return [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, prepend=True, always_call=True),
    ]
