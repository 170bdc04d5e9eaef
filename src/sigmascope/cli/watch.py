"""`sigmascope watch`: a survey that is under way, as its directory shows it."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope.cli import options
from sigmascope.cli.output import complain, emit, inform, json_option, say
from sigmascope.cli.program import DONE, FAILED, PARTIAL, Stopped

if TYPE_CHECKING:
    from sigmascope.runs import Listing
    from sigmascope.runs.watching import View

SOONEST = 0.1  # seconds
MOST = 20  # networks that are listed by name


@click.command(short_help="Follow a survey that is under way.")
@click.argument("runs", type=click.Path())
@options.option(
    "--every",
    "Seconds between looks at the directory.",
    5.0,
    type=click.FloatRange(SOONEST, 3600),
    metavar="S",
)
@click.option("--once", is_flag=True, help="Look once, without following.")
@json_option
def watch(runs: str, every: float, once: bool, as_json: bool) -> int:
    """Follow a survey: how many networks are done, running and failed, and the time left.

    RUNS is the directory that `sigmascope measure -o RUNS` writes to, from this machine or others;
    it need not exist yet. Only the directory is read, so that nothing of the survey is disturbed.
    Ends when every network has ended, or with Ctrl-C. Exits with 3 if a network failed.

    Example:  sigmascope watch runs --once --json
    """
    from sigmascope.runs.watching import view

    try:
        listing = _follow(runs, every, once=once)
    except Stopped as stopped:
        if stopped.number != signal.SIGINT:
            raise
        listing = _listing(runs)
    if listing is None:
        complain(
            f"{runs} is not a directory of runs, or not yet. Pass the directory that "
            "`sigmascope measure -o` writes to."
        )
        return FAILED
    found = view(listing)
    if as_json:
        emit("survey", _document(found))
    else:
        say("\n".join(_lines(found)))
    return PARTIAL if found.counts["failed"] else DONE


def _follow(runs: str, every: float, *, once: bool) -> Listing | None:
    """Look at the directory until all networks have ended; tell what changes."""
    from sigmascope.runs.watching import view

    told, waits = "", False
    while True:
        listing = _listing(runs)
        if once:
            return listing
        if listing is None:
            if not waits:
                inform(f"Waiting for a survey in {runs}. Ctrl-C ends it.")
            waits = True
        else:
            found = view(listing)
            if str(found) != told:
                told = str(found)
                inform(told)
            if not found.counts["open"] and not found.counts["running"]:
                return listing
        time.sleep(every)


def _listing(runs: str) -> Listing | None:
    from sigmascope.runs import list_runs
    from sigmascope.runs.folder import MANIFEST

    return list_runs(runs) if (Path(runs) / MANIFEST).is_file() else None


def _lines(found: View) -> list[str]:
    lines = [str(found)]
    for title, details in (("Running", found.running), ("Failed", found.failed)):
        if details:
            lines += ["", f"{title}:"]
            lines += [f"  {_named(*pair)}" for pair in list(details.items())[:MOST]]
            if len(details) > MOST:
                lines.append(f"  and {len(details) - MOST} more")
    if found.command:
        lines += ["", f"To see why, try one alone: {found.command}"]
    return lines


def _named(name: str, told: str) -> str:
    """Return what is told of a network behind its name, once."""
    return told if told.lstrip("'").startswith(f"{name}:") else f"{name}: {told}"


def _document(found: View) -> dict[str, Any]:
    return {
        **{str(state): count for state, count in found.counts.items()},
        "rate": found.rate,
        "seconds_left": found.left,
        "networks_running": dict(found.running),
        "networks_failed": dict(found.failed),
    }
