"""One measurement at a time: threads that measure take turns.

Random numbers come from one state for the whole process, and so do hooks, training modes and
running statistics of a network that several threads share. Who needs these for itself takes a turn.
Two threads that measure two networks therefore take about as long as one that measures both.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sigmascope.capture.ending import ending, finish_lost
from sigmascope.capture.threads import Wait, name_of
from sigmascope.errors import NetworkError

LOOK = 0.5  # seconds between looks at a thread that is waited for


class _Turn:
    """The turn of a thread."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.thread = threading.current_thread()
        self.ended = threading.Event()

    def is_mine(self) -> bool:
        return self.thread.ident == threading.get_ident()

    def end(self) -> None:
        if self in _turns:  # no other thread removes it
            self.ended.set()
            _turns.remove(self)


_turns: list[_Turn] = []  # the first one's thread is measuring, the others wait


@contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Wait until no other thread is inside such a context; a thread may be inside several.

    Args:
        what: what is done inside, for the message of a thread that waits for more than some
            seconds, such as "measures ResNet".

    Raises:
        NetworkError: the thread that is waited for seems to wait for this one.

    >>> with one_at_a_time("measures"), one_at_a_time("copies"):
    ...     pass
    """
    if _turns and _turns[0].is_mine():
        yield
        return
    mine = _Turn(what)
    with ending() as steps:
        steps.append(mine.end)
        _turns.append(mine)
        while (first := _turns[0]) is not mine:
            _await(first)
        yield


def _await(first: _Turn) -> None:
    """Wait for the end of a turn."""
    ident, name = first.thread.ident or 0, first.thread.name
    wait = Wait(f"waiting for the thread {name}, which {first.what}: threads take turns")
    while not first.ended.wait(LOOK):
        if not first.thread.is_alive():  # and has left a context open
            first.end()
        elif wait.is_endless(ident):
            raise NetworkError(
                f"the thread {name} {first.what} and waits for another thread, perhaps for this "
                f"one ({name_of(threading.get_ident())}), which waits for its turn. Measure in the "
                "same thread, or before."
            )


def _forget_other_threads() -> None:
    """Keep only the turn of this thread, in a process that has no other; undo what others did."""
    _turns[:] = [turn for turn in _turns[:1] if turn.is_mine()]
    enabled = torch.is_grad_enabled()  # of this thread
    finish_lost()
    torch._C._set_grad_enabled(enabled)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_other_threads)
