"""What `sigmascope measure` adds to divide the data of one network among tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sigmascope.cli import options, surveying

if TYPE_CHECKING:
    from sigmascope.runs import Outcome, Request

Command = TypeVar("Command", bound=Callable[..., Any])

# Options of whole networks.
OTHERS = {"shard": "--shard", "isolate": "--isolate", "skip": "--skip"}
DEFAULT_SPLIT = "test"


def part_option(command: Command) -> Command:
    """Add the option that divides data."""
    told = "Divide the data into N parts, each a task of --on; --split N says the same."
    return options.count("--parts", told)(command)


def with_parts(given: dict[str, Any]) -> dict[str, Any]:
    """Return options in which --split N, which no split of data is called, means --parts N.

    Raises:
        click.UsageError: both are given, or options that do not fit.
    """
    if given["split"].isdecimal():
        if given["parts"]:
            raise click.UsageError(f"--split {given['split']} and --parts: pass one of them.")
        parts = int(given["split"])
        if not parts:
            raise click.UsageError("--split 0: a number of parts must be at least 1.")
        given = given | {"split": DEFAULT_SPLIT, "parts": parts}
    if not given["parts"]:
        return given
    for name, flag in OTHERS.items():
        if given[name]:
            raise click.UsageError(
                f"{flag} is for whole networks, and --parts divides their data. Leave one out."
            )
    if given["time_limit"] and not str(given["on"]).startswith("slurm"):
        raise click.UsageError("--time-limit with --parts needs Slurm: pass --on slurm.")
    return given


def outcomes(request: Request, out: str | None, given: dict[str, Any]) -> Iterator[Outcome]:
    """Measure each network in parts; yield what becomes of it."""
    from sigmascope.runs import measure_split
    from sigmascope.runs.executors import open_executor
    from sigmascope.runs.folder import SCRATCH

    pending = given["pending"] or 64
    engine: Any = nullcontext()
    if given["on"]:
        surveying.tell_where(given["on"])
        folder = Path(out or ".") / SCRATCH
        asked = surveying.resources_of(given)
        engine = open_executor(given["on"], asked, pending=pending, folder=folder)
    with engine as executor:
        yield from measure_split(
            request,
            out,
            parts=given["parts"],
            executor=executor,
            resume=given["resume"],
            device=given["device"],
            pending=pending,
        )
