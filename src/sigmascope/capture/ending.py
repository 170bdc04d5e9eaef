"""Steps that undo what was done, and do so even where they are interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ending() -> Iterator[list[Callable[[], object]]]:
    """Yield a list for steps that run at the end of the context, the last first.

    Add a step before what it undoes. A Ctrl-C may come at any line, also in the steps: they run
    once more then, so that each must be able to run twice, and where nothing is to be undone.

    >>> with ending() as steps:
    ...     steps.append(lambda: print("then this"))
    ...     steps.append(lambda: print("first this"))
    first this
    then this
    """
    steps: list[Callable[[], object]] = []
    try:
        try:
            yield steps
        finally:
            finish(steps)
    finally:
        finish(steps)


def finish(steps: list[Callable[[], object]]) -> None:
    """Run the steps, the last first, each until it has ended; one that fails stops no other."""
    try:
        while steps:
            steps[-1]()
            steps.pop()
    except Exception:
        steps.pop()
        finish(steps)
        raise
