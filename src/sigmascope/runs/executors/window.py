"""A window of pending calls on anything that has `submit`; what was lost is submitted again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from sigmascope.checks import check_whole
from sigmascope.errors import SigmascopeError

ATTEMPTS = 3
GLANCE = 0.5  # seconds between two looks at futures that can be waited for
SOONEST, LATEST = 0.005, 1.0  # seconds between two looks at those that can only be asked

Call = tuple[Any, ...]  # a function and its arguments


class FutureLike(Protocol):
    """What `submit` returns, as far as it is used."""

    def done(self) -> bool:
        """Return whether it has a result or an error."""

    def result(self) -> Any:
        """Return the result, or raise the error."""


class Executor(Protocol):
    """Anything that has `submit`: concurrent.futures, submitit, dask.distributed, loky."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return a future."""


class LostTaskError(SigmascopeError, RuntimeError):
    """A task has no result because what ran it is gone: a process, a machine, a job."""


@dataclass(frozen=True)
class Finished:
    """A call that has ended.

    Attributes:
        number: its place among the calls.
        value: what it returned; None if there is an error.
        error: what it raised; a `LostTaskError` if it was lost each time.
        attempts: how often it was submitted.
    """

    number: int
    value: Any
    error: Exception | None
    attempts: int


@dataclass
class _Pending:
    number: int
    call: Call
    attempts: int = 1


def finished_calls(
    executor: Executor,
    calls: Iterable[Call],
    *,
    pending: int = 64,
    attempts: int = ATTEMPTS,
    waiting: Callable[[int], None] = lambda _: None,
) -> Iterator[Finished]:
    """Yield the calls as they end, in any order; those that are pending are cancelled at the end.

    Args:
        executor: what runs them. Where it has `most`, no more are pending than that; where it has
            `submit_many`, calls are handed over in groups of `group`.
        calls: (function, argument, ...) each; they are drawn when there is room.
        pending: how many may be submitted and not ended.
        attempts: how often a call is submitted that is lost each time.
        waiting: called with the number of pending calls, now and then.

    Raises:
        LostTaskError: the executor itself is gone.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor() as executor:
    ...     ended = finished_calls(executor, [(pow, 2, 3), (divmod, 1, 0)])
    ...     for call in sorted(ended, key=lambda call: call.number):
    ...         print(call.value, call.error)
    8 None
    None integer division or modulo by zero
    """
    window = _Window(executor, calls, pending, attempts)
    try:
        while window.fill():
            waiting(len(window.running))
            for future in window.ended():
                if (call := window.settle(future)) is not None:
                    yield call
    finally:
        for future in window.running:
            if hasattr(future, "cancel"):
                with suppress(Exception):  # it has ended, or its engine has gone
                    future.cancel()


class _Window:
    def __init__(
        self, executor: Executor, calls: Iterable[Call], pending: int, attempts: int
    ) -> None:
        self._executor = executor
        self._calls = iter(enumerate(calls))
        self._pending = min(check_whole("pending", pending, 1), getattr(executor, "most", pending))
        self._attempts = check_whole("attempts", attempts, 1)
        self._again: deque[_Pending] = deque()
        self._pause = SOONEST
        self.running: dict[Any, _Pending] = {}

    def fill(self) -> bool:
        """Submit as many calls as there is room for; return whether any is pending."""
        many = getattr(self._executor, "submit_many", None)
        room = self._pending - len(self.running)
        if many is not None and room > 0:
            # an array is one request to the scheduler, however many calls it has
            room = min(room, getattr(self._executor, "group", room))
        drawn = [call for _ in range(room) if (call := self._next()) is not None]
        if many is not None and drawn:
            futures = many([call.call for call in drawn])
            self.running.update(zip(futures, drawn, strict=True))
        else:
            self.running.update((self._submitted(call), call) for call in drawn)
        return bool(self.running)

    def ended(self) -> list[Any]:
        """Return the futures that have ended, after some waiting if there are none."""
        futures = list(self.running)
        if all(isinstance(future, Future) for future in futures):
            return list(wait(futures, timeout=GLANCE, return_when=FIRST_COMPLETED).done)
        found = [future for future in futures if future.done()]
        if found:
            self._pause = SOONEST
            return found
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, LATEST)
        return []

    def settle(self, future: Any) -> Finished | None:
        """Return how a call has ended; None if it was lost and is to be submitted again."""
        call = self.running.pop(future)
        try:
            return Finished(call.number, future.result(), None, call.attempts)
        except (LostTaskError, BrokenExecutor) as error:
            if call.attempts < self._attempts:
                self._again.append(_Pending(call.number, call.call, call.attempts + 1))
                return None
            told = " ".join(str(error).split()) or type(error).__name__
            lost = LostTaskError(f"it was lost {call.attempts} times, the last time so: {told}")
            return Finished(call.number, None, lost, call.attempts)
        except Exception as error:
            return Finished(call.number, None, error, call.attempts)

    def _next(self) -> _Pending | None:
        if self._again:
            return self._again.popleft()
        number, call = next(self._calls, (0, None))
        return None if call is None else _Pending(number, call)

    def _submitted(self, call: _Pending) -> Any:
        try:
            return self._executor.submit(*call.call)
        except BrokenExecutor as error:
            raise LostTaskError(
                f"the executor takes no more tasks ({' '.join(str(error).split())}). What is "
                "finished is kept: the same call with a new executor continues."
            ) from error
