"""A progress bar with the remaining time, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from sigmascope.errors import printable

Advance: TypeAlias = Callable[[], None]


@contextmanager
def progress_bar(title: str, total: int | None, *, shown: bool) -> Iterator[Advance]:
    """Yield a function to call after each step; the bar shows only if stderr is a terminal."""
    if not shown or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(printable(title), total=total)
        yield lambda: progress.advance(task)


def steps_of(batches: object, limit: int | None) -> int | None:
    """Return the largest possible number of batches, if it is known."""
    try:
        count = len(batches)  # type: ignore[arg-type]
    except TypeError:  # a generator, or a loader that has a length in name only
        return limit
    return count if limit is None else min(count, limit)
