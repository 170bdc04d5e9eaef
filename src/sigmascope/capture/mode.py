"""A mode that sees the torch functions of one thread, and can step aside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import overrides
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from sigmascope.capture.ending import ending


class WatchingMode(overrides.TorchFunctionMode):
    """Sees torch functions from `start` to `stop`, below modes that the network enters itself.

    Attributes:
        watching: whether it does now.
        observing: whether what it sees now is an observer's.
        thread: the one that it watches.
    """

    def __init__(self) -> None:
        super().__init__()
        self.watching = False
        self.observing = False
        self.thread = 0

    def start(self, *, below: int = 0) -> None:
        """Start to see functions, below that many modes which the network has entered itself."""
        if self.watching:
            return
        stack = _stack()
        place = len(stack) - below
        self.thread = threading.get_ident()
        _arrange([*stack[:place], self, *stack[place:]])
        self.watching = True

    def stop(self) -> int:
        """Stop seeing functions; return how many other modes were above the recorder."""
        stack = _stack()
        if self not in stack:  # it is also away while torch runs it
            return 0
        self.watching = False
        others = stack[stack.index(self) + 1 :]
        _arrange([*stack[: stack.index(self)], *others])
        return len(others)

    def is_on_top(self) -> bool:
        """Return whether functions are seen now, and no other mode sees them first."""
        count = torch._C._len_torch_function_stack()
        return self.watching and count > 0 and torch._C._get_function_stack_at(count - 1) is self

    def step_out(self) -> None:
        """See no functions until `step_in`; only where this mode is on top."""
        overrides._pop_mode()  # type: ignore[no-untyped-call]

    def step_in(self) -> None:
        """See functions again."""
        overrides._push_mode(self)  # type: ignore[no-untyped-call]

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not see the functions that an observer calls."""
        self.observing = True
        try:
            yield
        finally:
            self.observing = False


@contextmanager
def entered(mode: TorchDispatchMode | overrides.TorchFunctionMode) -> Iterator[None]:
    """Enter a mode that sees operators or functions; leave it also where its end is interrupted."""
    sees_functions = isinstance(mode, overrides.TorchFunctionMode)

    def leave() -> None:
        modes = _stack() if sees_functions else _get_current_dispatch_mode_stack()
        if any(one is mode for one in modes):
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    with ending() as steps:
        if sees_functions:
            steps.append(restoring_functions())
        steps.append(leave)
        mode.__enter__()  # type: ignore[no-untyped-call]
        yield


def restoring_functions() -> Callable[[], object]:
    """Return a function that lets modes see torch functions again, if they do so now.

    A Ctrl-C at the end of a `with torch._C.DisableTorchFunction()` leaves them off in this thread.
    """
    guard = torch._C.DisableTorchFunction()
    _ = guard.__enter__(), guard.__exit__(None, None, None)  # it notes how it is now
    return partial(guard.__exit__, None, None, None)


def _stack() -> list[overrides.TorchFunctionMode]:
    """Return the modes of this thread, the one that sees functions first at the end."""
    return list(overrides._get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def _arrange(wanted: list[overrides.TorchFunctionMode]) -> None:
    """Make these the modes of this thread, also where that is interrupted."""
    try:
        _replace(wanted)
    except BaseException:
        _replace(wanted)
        raise


def _replace(wanted: list[overrides.TorchFunctionMode]) -> None:
    stack = _stack()
    pairs = zip(stack, wanted, strict=False)
    kept = next((k for k, (one, two) in enumerate(pairs) if one is not two), None)
    kept = min(len(stack), len(wanted)) if kept is None else kept
    for _ in stack[kept:]:
        overrides._pop_mode()  # type: ignore[no-untyped-call]
    for mode in wanted[kept:]:
        overrides._push_mode(mode)  # type: ignore[no-untyped-call]
