"""What other threads of the process are doing, as far as their stacks tell."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Collection, Iterator
from types import FrameType

from torch import nn

logger = logging.getLogger("sigmascope")

PATIENCE = 5.0  # seconds until a wait leaves a message
LIMIT = 60.0  # seconds in which a thread that is waited for waits itself and does not move
# Modules of Python in which a thread waits for others.
WAITING = {"threading", "queue", "concurrent", "multiprocessing", "selectors", "asyncio"}
# Their functions that wait, unlike such as the property Thread.ident.
FUNCTIONS = {"wait", "join", "_wait_for_tstate_lock", "acquire", "get", "result", "select", "_recv"}
RUNNING = {nn.Module._call_impl.__qualname__, "Capture.run"}  # functions that run a network
# Methods of a module that use its mode or change it.
USING = {nn.Module._call_impl.__code__, nn.Module.train.__code__}


def frames_of(thread: int) -> Iterator[FrameType]:
    """Yield what a thread is running, from the innermost; nothing where it has ended."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_waiting(thread: int) -> bool:
    """Return whether a thread waits for another one, in a function of Python for that."""
    innermost = next(frames_of(thread), None)
    if innermost is None or innermost.f_code.co_name not in FUNCTIONS:
        return False
    return str(innermost.f_globals.get("__name__")).partition(".")[0] in WAITING


def runs_networks(thread: int) -> bool:
    """Return whether a thread is running a network."""
    return any(frame.f_code.co_qualname in RUNNING for frame in frames_of(thread))


def threads_inside(modules: Collection[nn.Module]) -> list[int]:
    """Return the other threads that are calling one of these modules, or switching its mode.

    >>> threads_inside([nn.ReLU()])
    []
    """
    others = [thread for thread in sys._current_frames() if thread != threading.get_ident()]
    return [
        thread
        for thread in others
        if any(
            frame.f_code in USING and frame.f_locals.get("self") in modules
            for frame in frames_of(thread)
        )
    ]


def name_of(thread: int) -> str:
    """Return the name of a thread."""
    known = (one.name for one in threading.enumerate() if one.ident == thread)
    return next(known, str(thread))


class Wait:
    """A wait for another thread, which leaves a message, and can tell that it will not end."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._began = self._moved = time.monotonic()
        self._told = False
        self._place: object = None

    def is_endless(self, thread: int) -> bool:
        """Return whether the thread waits for others itself, and has not moved for a minute."""
        return self.seconds(thread) > LIMIT

    def seconds(self, thread: int) -> float:
        """Return for how long the thread waits for others itself; to be asked again and again."""
        now = time.monotonic()
        if not self._told and now - self._began > PATIENCE:
            self._told = True
            logger.warning(self._message)
        innermost = next(frames_of(thread), None)
        place = None if innermost is None else (id(innermost), innermost.f_lasti)
        if place != self._place or not is_waiting(thread):
            self._place, self._moved = place, now
        return now - self._moved
