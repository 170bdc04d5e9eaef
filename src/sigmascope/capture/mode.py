"""A mode that sees the torch functions of one thread, and can step aside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import overrides


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
        others = [overrides._pop_mode() for _ in range(below)]  # type: ignore[no-untyped-call]
        for mode in (self, *reversed(others)):
            overrides._push_mode(mode)  # type: ignore[no-untyped-call]
        self.watching, self.thread = True, threading.get_ident()

    def stop(self) -> int:
        """Stop seeing functions; return how many other modes were above the recorder."""
        stack = overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if not self.watching or self not in stack:
            return 0
        self.watching = False
        others = [overrides._pop_mode() for _ in stack[stack.index(self) :]][:-1]  # type: ignore[no-untyped-call]
        for mode in reversed(others):
            overrides._push_mode(mode)  # type: ignore[no-untyped-call]
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
