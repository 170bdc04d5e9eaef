"""The activation calls of a forward pass, in order of execution, watched without changing it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward

from sigmascope.capture.activations import (
    function_name,
    is_plain,
    kind_of_function,
    kind_of_module,
    may_be_activation,
)
from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.ending import ending
from sigmascope.capture.entered import (
    LEAVES,
    Entered,
    attends,
    by_position,
    expects_sequence_first,
    input_of,
    is_entered,
)
from sigmascope.capture.gate import wait_at_gate
from sigmascope.capture.gating import ALONE, Gating
from sigmascope.capture.layers import FUNCTIONS, Hooked, Replaced, has_own_weights, is_known
from sigmascope.capture.mode import WatchingMode
from sigmascope.capture.nested import inputs_in, outputs_of
from sigmascope.capture.observer import Call, Finish, Observer
from sigmascope.capture.plan import OpenFormulas
from sigmascope.capture.unforeseen import CarefulFollowing


class Recorder(WatchingMode):
    """Sees every torch function that is called, and every module that is entered and left.

    Only the thread that enters the context is watched, and only while a watched module runs.
    """

    def __init__(
        self,
        observe: Observer,
        kinds: frozenset[str],
        following: CarefulFollowing,
        *,
        fuse: bool = True,
        gates: str = ALONE,
    ) -> None:
        super().__init__()
        self.gating = Gating(following, gates, fuse=fuse)
        self._formulas: OpenFormulas | None = None
        self.parts: set[str] = set()  # paths of activations that were part of a formula
        self.passing = False  # whether a pass begins and ends where `forward_pass` says
        self.changed = False  # whether the last pass had other formulas than were expected
        following.where = self._where
        following.search(searches=fuse)
        self._observe, self._kinds = observe, kinds
        self._entered: list[Entered] = []
        self._calls: Counter[str] = Counter()
        self._known: dict[tuple[str, int], Call] = {}
        self._roles: dict[object, tuple[str, bool]] = {}  # what `_role` returns of functions
        self.following = following
        self._expect()
        self._batch_axis = 0
        self.elsewhere: dict[str, None] = {}  # modules that ran in another thread
        self._quiet = 0  # how many activations that call others are running

    @contextmanager
    def forward_pass(
        self, inputs: Iterable[Tensor | list[Tensor]] = (), *, batch_axis: int = 0, size: int = 0
    ) -> Iterator[None]:
        """See functions inside the context only, and count calls from 0 again.

        The `size` samples are entries of axis `batch_axis` of the `inputs`, or tensors of a list.
        """
        self._entered.clear()
        self._calls.clear()
        self._quiet, self._batch_axis, self.changed = 0, batch_axis, False
        self.following.begin_pass(inputs, batch_axis=batch_axis, size=size)
        self._expect()
        with ending() as steps:
            steps.append(self._stop_pass)
            self.start()
            self.passing = True
            yield
        self.changed = self.gating.end_pass()

    def _stop_pass(self) -> None:
        self.passing = False
        self.stop()

    def _expect(self) -> None:
        """Expect the formulas and gated units of the pass before."""
        plan = self.gating.plan()
        self._formulas = OpenFormulas(plan) if plan.formulas else None
        self.gating.begin_pass()

    def _where(self) -> tuple[str, bool]:
        # outside of the network nothing is a site
        return (self._entered[-1].path, self._quiet > 0) if self._entered else ("", True)

    @property
    def samples(self) -> int:
        """The number of samples that the network received."""
        return self.following.lineage.size

    @property
    def inside_activation(self) -> bool:
        """Whether an activation runs that may call others."""
        return self._quiet > 0

    @property
    def innermost(self) -> nn.Module | None:
        """The watched module that runs."""
        return self._entered[-1].module if self._entered else None

    def _note_thread(self, module: nn.Module, path: str) -> None:
        """Remember a module that runs in another thread than the one that is watched."""
        wait_at_gate(module)
        if self.watching and threading.get_ident() != self.thread:
            self.elsewhere[path] = None

    def watcher(self, module: nn.Module, path: str) -> Hooked | Replaced | None:
        """Return what can be added to a module to tell when it runs, if that matters."""
        kind, sequence_first = kind_of_module(module), expects_sequence_first(module)
        self.gating.paths[module] = path
        if path and kind is None and is_known(module):
            return Replaced(module, self._forward_of(module, path))
        # a plain container calls nothing itself
        if path and (type(module) in LEAVES or type(module).forward is nn.Sequential.forward):
            return None

        # without kwargs in another thread that has found the hook just before it was removed
        def before(_: nn.Module, args: Any, kwargs: Any = None) -> None:
            if threading.get_ident() != self.thread:
                return self._note_thread(module, path)
            here = self._inner(module, path)
            here.sequence_first |= sequence_first
            return self._enter(here, kind, args, kwargs)

        def after(_: nn.Module, __: tuple[Any, ...], output: Any) -> None:
            self._leave(module, output)

        return Hooked(module, before, after)

    def _forward_of(self, module: nn.Module, path: str) -> Callable[..., Any]:
        """Return the forward of a layer that computes one known function, for `Replaced`.

        The function is not watched, which would take several times as long.
        """
        function, original = FUNCTIONS[type(module)], module.forward
        name, may_be = self._role(function)
        kind = kind_of_function(function, (), {}) if may_be else None
        observed = kind if kind in self._kinds else None

        def forward(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self.thread or self.observing:
                self._note_thread(module, path)
                return original(*args, **kwargs)
            plain = len(args) == 1 and not kwargs and type(args[0]) is Tensor
            if not plain or not self.is_on_top() or not has_own_weights(module):
                return self._called(self._inner(module, path), original, args, kwargs)
            x, finish = args[0], None
            self.step_out()
            try:
                inside = self._begin_formulas(name, args, kwargs, path)
                if observed is not None and not inside and not self._quiet:
                    here = self._inner(module, path)
                    finish = self._begin(here, observed, x, plain=is_plain(function, observed))
                y = original(x)
                self.following.note_layer(module, name, x, y, kind=kind or "")
                if finish is not None:
                    finish(y)
                self._end_formulas(y)
            finally:
                self.step_in()
            return y

        return forward

    def _inner(self, module: nn.Module, path: str) -> Entered:
        return Entered(module, path, bool(self._entered) and self._entered[-1].sequence_first)

    def _called(self, here: Entered, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a module, watched."""
        self._enter(here, None, args, kwargs)
        output = None
        try:
            output = forward(*args, **kwargs)
        finally:
            self._leave(here.module, output)
        return output

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.observing:
            return func(*args, **kwargs)
        (name, may_be), kind = self._roles.get(func) or self._role(func), None
        if may_be and self._entered and not self._quiet:
            kind = kind_of_function(func, args, kwargs)
        inside = self._begin_formulas(name, args, kwargs)
        if kind is None:
            result = func(*args, **kwargs)
            self._note(name, args, kwargs, result)
            self._end_formulas(args[0] if name == "__setitem__" else result)
            return result
        finish = None
        if kind in self._kinds and not inside:
            finish = self._begin(
                self._entered[-1], kind, input_of(args, kwargs), plain=is_plain(func, kind)
            )
        self._quiet += 1
        try:
            result = func(*args, **kwargs)
        finally:
            self._quiet -= 1
        self._note(name, args, kwargs, result, kind=kind)
        if finish is not None and isinstance(result, Tensor):
            finish(result)
        self._end_formulas(result)
        return result

    def _begin_formulas(self, name: str, args: Any, kwargs: Any, path: str | None = None) -> bool:
        """Pass on the inputs of formulas that begin now; return whether a step is part of one."""
        if self._formulas is None or not self._entered or name != self.following.expected:
            return False
        args, kwargs = by_position(args, kwargs)
        for formula in self._formulas.beginning(self.following.step):
            here = replace(self._entered[-1], path=formula.path, finish=None)
            if (formula.chosen_by or formula.kind) in self._kinds:
                x = self.gating.input_of(formula, args, kwargs)
                finish = self._begin(here, formula.kind, x, formula=formula.text)
                self._formulas.opened(formula, finish)
        return self._is_part(self._entered[-1].path if path is None else path)

    def _is_part(self, path: str) -> bool:
        """Return whether the next step, in a module, is part of a formula or of a gated unit."""
        if self._formulas is None or not self._formulas.is_part(self.following.step):
            return False
        self.parts.add(path)
        return True

    def _end_formulas(self, result: object) -> None:
        if self._formulas is not None:
            self._formulas.end(result)

    def _role(self, function: object) -> tuple[str, bool]:
        """Return the name of a function, and whether it may be an activation."""
        role = self._roles.get(function)
        if role is None:
            role = self._roles[function] = function_name(function), may_be_activation(function)
        return role

    def _note(
        self, name: str, args: Any, kwargs: dict[str, Any], result: object, *, kind: str = ""
    ) -> None:
        """Record where channels and samples are in the result of a function."""
        outputs = outputs_of(name, args, result)
        if outputs:
            given = Applied(name, *by_position(args, kwargs))
            self.following.note(given, outputs, kind=kind)

    def _begin(
        self, here: Entered, kind: str, x: object, *, plain: bool = False, formula: str = ""
    ) -> Finish | None:
        """Pass the input of an activation to the observer."""
        if not isinstance(x, Tensor) or not self.watching:
            return None
        number = self.following.routing.number(here.path, x, self._calls)
        self.gating.begun(here.path, number, formula=bool(formula))
        where = self.following.axes_of(x)
        call = self._known.get((here.path, number))
        # The same object where it is the same, which an observer can tell at once.
        others = (kind, *where, here.sequence_first, plain, formula)
        if call is None or call.others != others:
            call = Call(here.path, number, *others)
            self._known[here.path, number] = call
        return self._observe(call, x)

    def _enter(self, here: Entered, kind: str | None, args: Any, kwargs: dict[str, Any]) -> None:
        if not self._entered:
            if not here.path and not self.passing:
                self.following.begin_pass()
                self._expect()
            self.following.add_inputs(inputs_in((*args, *kwargs.values())), self._batch_axis)
        self._entered.append(here)
        if kind is not None:
            here.kind, here.first = kind, self.following.step
            if kind in self._kinds and not self._quiet and not self._is_part(here.path):
                with self.aside():
                    here.finish = self._begin(here, kind, input_of(args, kwargs))
            here.quiet = True
            self._quiet += 1
        if attends(here.module):
            here.unwatched, here.args = self.watching, (*args, *kwargs.values())
            here.below = self.stop()

    def _leave(self, module: nn.Module, output: Any) -> None:
        # Not so in another thread, or where another hook failed before the module was entered.
        if threading.get_ident() != self.thread or not is_entered(module, self._entered):
            return
        while self._entered:
            here = self._entered.pop()
            self._quiet -= here.quiet
            if here.quiet:
                self.gating.left(here)
            if here.unwatched:
                self.start(below=here.below)
            if here.module is module:
                break
        if not self._entered and not here.path and not self.passing:
            with self.aside():
                self.following.end_pass()
        if here.unwatched:
            with self.aside():
                self._note(multi_head_attention_forward.__name__, here.args, {}, output)
        if here.finish is not None and isinstance(output, Tensor):
            with self.aside():
                here.finish(output)
