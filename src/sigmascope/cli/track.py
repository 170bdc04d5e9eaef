"""`sigmascope track`: a page about a training that is under way."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sigmascope.cli import options
from sigmascope.cli.output import complain, counted, emit, inform, json_option, say, written
from sigmascope.cli.program import DONE, FAILED, PARTIAL, Stopped
from sigmascope.cli.report import check_page

if TYPE_CHECKING:
    from sigmascope.reporting.following import Follower

SOONEST = 0.1  # seconds
REST = 4  # times as long as it takes to read a long track and write its page


@click.command(short_help="Follow a training that is under way.")
@click.argument("run", type=click.Path())
@options.out("FILE", "The page to write.", "track.html")
@click.option("--open", "opening", is_flag=True, help="Open the page in a browser.")
@options.option(
    "--every",
    "Seconds between looks at the files, and between reloads of the page.",
    5.0,
    type=click.FloatRange(SOONEST, 3600),
    metavar="S",
)
@click.option("--once", is_flag=True, help="Write the page once, without following.")
@json_option
def track(run: str, out: str, opening: bool, every: float, once: bool, as_json: bool) -> int:
    """Write a page about a training and renew it while the training is under way.

    RUN is the file that sigmascope.Monitor(model, probe, file="run.json") keeps, or a directory
    with several. It need not exist yet. The page is one self-contained file that reloads itself in
    the browser; there is no server. Ends when the monitors are closed, or with Ctrl-C. The
    training notices nothing of it.

    Example:  sigmascope track run.json -o run.html --open
    """
    check_page(out)
    from sigmascope.reporting.following import FINISHED, LEFT, Follower, write_following

    follower = Follower(Path(run))
    stopped: Stopped | None = None
    try:
        problems = _follow(follower, out, every, opening=opening, once=once)
    except Stopped as signaled:
        stopped, problems = signaled, 0
    if not follower.tracks:
        return _nothing(run, stopped)
    write_following(follower, out, FINISHED if follower.ended else LEFT, every)
    if once and opening:
        _show(out)
    _tell(follower, out, as_json)
    if stopped is not None and stopped.number != signal.SIGINT:
        raise stopped
    return PARTIAL if problems else DONE


def _follow(follower: Follower, out: str, every: float, *, opening: bool, once: bool) -> int:
    """Look at the files until the trainings have ended; return how many could not be read."""
    from sigmascope.reporting.following import UNDER_WAY, lines_of, write_following

    waits = False
    while True:
        begin = time.monotonic()
        changes = follower.look()
        several = follower.source.is_dir()
        for change in changes:
            for line in lines_of(change, named=several):
                inform(line)
        if once or follower.ended:
            return len([change for change in changes if change.track is None])
        if any(change.track for change in changes):
            write_following(follower, out, UNDER_WAY, every)
            if opening:
                _show(out)
                opening = False
        if not follower.tracks and not waits:
            inform(f"Waiting for a track in {follower.source}. Ctrl-C ends it.")
            waits = True
        time.sleep(max(every, REST * (time.monotonic() - begin)))


def _nothing(run: str, stopped: Stopped | None) -> int:
    """Say that there was no track; not an error where the user stopped waiting."""
    if stopped is not None:
        stopped.remedy = f"There was no track in {run}; nothing was written."
        if stopped.number != signal.SIGINT:
            raise stopped
        inform(stopped.remedy)
        return DONE
    complain(
        f"there is no track in {run}. Pass the file of a monitor, sigmascope.Monitor(model, probe, "
        'file="run.json"), or a directory with some.'
    )
    return FAILED


def _tell(follower: Follower, out: str, as_json: bool) -> None:
    if as_json:
        tracks = [
            {
                "file": str(file),
                "name": found.name,
                "measurements": len(found),
                "step": found.steps[-1] if found.entries else None,
                "ended": found.ended,
                "events": [str(event) for event in found.events],
            }
            for file, found in follower.tracks.items()
        ]
        emit("written", {"path": out, "bytes": Path(out).stat().st_size, "tracks": tracks})
        return
    for found in follower.tracks.values():
        say(f"{found!r}\n")
    written([f"{out} ({counted(len(follower.tracks), 'training')})"])


def _show(out: str) -> None:
    """Open the page in the browser of the user, if there is one."""
    import webbrowser

    if not webbrowser.open(Path(out).resolve().as_uri()):
        inform(f"Note: no browser could be opened; open {out} yourself.")
