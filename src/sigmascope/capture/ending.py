"""Steps that undo what was done, and do so even where they are interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Steps = list[Callable[[], object]]
_open: dict[int, tuple[int, Steps]] = {}  # thread and steps of the contexts that have not ended


@contextmanager
def ending() -> Iterator[Steps]:
    """Yield a list for steps that run at the end of the context, the last first.

    Add a step before what it undoes. A Ctrl-C may come at any line, also in the steps: they run
    once more then, so that each must be able to run twice, and where nothing is to be undone.

    >>> with ending() as steps:
    ...     steps.append(lambda: print("then this"))
    ...     steps.append(lambda: print("first this"))
    first this
    then this
    """
    steps: Steps = []
    _open[id(steps)] = threading.get_ident(), steps
    try:
        try:
            yield steps
        finally:
            finish(steps)
    finally:
        finish(steps)
        _open.pop(id(steps), None)


def finish_lost() -> None:
    """Run the steps of other threads, in a process that has none of them: a fork copies only one.

    Who forks while another thread measures has a network with hooks and in another mode otherwise.
    """
    lost = [steps for thread, steps in _open.values() if thread != threading.get_ident()]
    for steps in reversed(lost):
        finish(steps)


def finish(steps: Steps) -> None:
    """Run the steps, the last first, each until it has ended; one that fails stops no other."""
    try:
        while steps:
            steps[-1]()
            steps.pop()
    except Exception:
        steps.pop()
        finish(steps)
        raise
