"""What `sigmascope measure` adds for surveys: engines, their resources, plans and progress."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sigmascope.cli import options
from sigmascope.cli.output import emit, inform, say
from sigmascope.cli.program import DONE

if TYPE_CHECKING:
    from sigmascope.runs import Outcome, Request, Resources, Shard, Tally

Command = TypeVar("Command", bound=Callable[..., Any])

ON = "ray, ray://HOST:PORT, auto, slurm[:PARTITION] or local:N."
NEED_ENGINE = ("cpus", "gpus", "memory", "pending")
OFTEN, SELDOM = 0.5, 10.0  # seconds between two lines of progress, on a terminal and elsewhere
MANY = 200  # networks beyond which only failures and progress are told, not every network


def survey_options(command: Command) -> Command:
    """Add the options that say where networks are measured."""
    for add in reversed(
        (
            options.option("--on", f"Where networks are measured: {ON}", metavar="ENGINE"),
            options.number("--cpus", "Cores for one network.  [default: 1]", metavar="N"),
            options.number("--gpus", "GPUs for one network, such as 0.25.  [default: 0]"),
            options.option("--memory", "Memory for one network, such as 8G.", metavar="SIZE"),
            options.count("--pending", "Networks that are submitted at a time.  [default: 64]"),
            options.option("--plan", "Print what would be run, and run nothing.", is_flag=True),
        )
    ):
        command = add(command)
    return command


def check_survey(out: str | None, given: dict[str, Any]) -> None:
    """Raise unless the options of a survey fit together."""
    if given["on"] is None:
        for option in NEED_ENGINE:
            if given[option] is not None:
                raise click.UsageError(f"--{option} needs an engine: pass one with --on, {ON}")
    elif not given["plan"] and (out is None or Path(out).suffix == ".json"):
        raise click.UsageError("--on needs a shared directory: pass one with -o.")


def listed_names(
    context: click.Context, argument: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names, with those of a file in place of @FILE."""
    names: list[str] = []
    for word in value:
        if not word.startswith("@"):
            names.append(word)
            continue
        try:
            lines = Path(word[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            told = f"{word}: the file {word[1:]} cannot be read ({why}). It has one name per line."
            raise click.BadParameter(told) from error
        names += [line.strip() for line in lines if line.strip() and line.strip()[0] != "#"]
    if not names:
        raise click.BadParameter("there is no network in it. Write one name per line.")
    return tuple(names)


def read_shard(
    context: click.Context, option: click.Parameter, value: str | None
) -> str | tuple[int, int] | None:
    """Return the numbers of I/N, or the text "auto" or "auto/N"."""
    if value is None or re.fullmatch(r"auto(/[1-9]\d{0,5})?", value):
        return value
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value)
    index, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= index <= count:
        raise click.BadParameter(
            f"{value!r} is not a shard. Write I/N with I from 1 to N, such as 1/4; or auto, in a "
            "job array."
        )
    return index, count


def shard_of(given: str | tuple[int, int] | None) -> Shard:
    """Return the shard that was asked for."""
    from sigmascope.runs import Shard
    from sigmascope.runs.shards import shard_here

    if given is None:
        return Shard()
    if isinstance(given, tuple):
        return Shard(*given)
    count = given.partition("/")[2]
    shard = shard_here(int(count) if count else None)
    inform(f"Shard {shard.index} of {shard.count}.")
    return shard


def survey(
    request: Request, out: str, shard: Shard, given: dict[str, Any], follow: Follower
) -> list[Outcome]:
    """Measure networks on an engine; return what became of each."""
    from sigmascope.runs import survey_outcomes

    tell_where(given["on"])
    found = survey_outcomes(
        request,
        out,
        executor=given["on"],
        resources=resources_of(given),
        pending=given["pending"] or 64,
        shard=shard,
        skip=given["skip"],
        resume=given["resume"],
        device=given["device"],
        watch=follow.show,
    )
    with follow:
        return list(follow.followed(found))


def tell_where(on: str) -> None:
    """Say that there is no Slurm here, where one was asked for."""
    from sigmascope.runs.executors import Engine

    engine = Engine.named(on)
    if engine.kind == "slurm" and engine.is_here:
        inform(f"Measured by {engine}.")


def plan(request: Request, out: str | None, shard: Shard, given: dict[str, Any]) -> int:
    """Print what would be run."""
    from sigmascope.runs.executors import Engine
    from sigmascope.runs.executors.resources import cores
    from sigmascope.runs.planning import plan_survey

    asked, pending = resources_of(given), given["pending"] or 64
    engine = Engine.named(given["on"]) if given["on"] else None
    if engine is not None:
        engine.check(asked)
    folder = Path(out) if out is not None and Path(out).suffix != ".json" else None
    found = plan_survey(
        request, folder, shard=shard, skip=given["skip"], parts=given["parts"] or None
    )
    here = max(1, int(cores() / asked.cpus))
    if engine is None:
        tasks, each, where = 1, float(cores()), "this process"
    elif engine.kind == "local":
        tasks, each, where = int(engine.where), asked.cpus, str(engine)
    else:
        tasks = min(here, pending) if engine.is_here else pending
        each, where = asked.cpus, str(engine)
    if given["as_json"]:
        emit(
            "plan", {"where": where, "tasks": tasks, "seconds": found.seconds(each), "plan": found}
        )
    else:
        say("\n".join(found.lines(tasks, each, where)))
    return DONE


class Follower:
    """Tells how a survey goes, on standard error.

    Args:
        total: the number of networks.
        tell: what to print of one network.
    """

    def __init__(self, total: int, tell: Callable[[int, Outcome], str]) -> None:
        self._total = total
        self._tell = tell
        self._is_terminal = sys.stderr.isatty()
        self._shown = time.monotonic()
        self._text = ""

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def show(self, tally: Tally) -> None:
        """Print how far the survey is, if that was long ago."""
        now = time.monotonic()
        if now - self._shown < (OFTEN if self._is_terminal else SELDOM):
            return
        self._shown, text = now, str(tally)
        if not self._is_terminal:
            if text != self._text:
                inform(text)
        else:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
        self._text = text

    def followed(self, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        """Yield outcomes, each told as soon as it is known; of many networks only failures."""
        for number, outcome in enumerate(outcomes, 1):
            if self._total <= MANY or outcome.state not in ("measured", "kept"):
                self._clear()
                inform(self._tell(number, outcome))
            yield outcome

    def _clear(self) -> None:
        if self._is_terminal and self._text:
            click.echo("\r\x1b[K", nl=False, err=True)


def resources_of(given: dict[str, Any]) -> Resources:
    """Return what one task needs, as the options say."""
    from sigmascope.runs import Resources
    from sigmascope.runs.executors import read_size

    memory = given["memory"]
    return Resources(
        given["cpus"] or 1.0,
        given["gpus"] or 0.0,
        None if memory is None else read_size(memory),
        given["time_limit"],
    )
