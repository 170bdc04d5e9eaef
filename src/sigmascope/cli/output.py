"""What the commands print: results to standard output, notes and errors to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from sigmascope.runs import Runs

VERSION = 1
OPTIONS = {
    "root=FOLDER": "--data-root FOLDER",
    "root=DIR": "--data-root DIR",
    "weights=FILE": "--weights FILE",
    "weights=None": "--weights none",
}
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def say(text: str) -> None:
    """Print a result to standard output."""
    _print(sys.stdout, [(text, "")])


def inform(text: str) -> None:
    """Print a note to standard error."""
    _print(sys.stderr, [(_line(text), "dim")])


def complain(text: str, *, label: str = "Error: ") -> None:
    """Print an error to standard error; remedies that are keywords become options."""
    for keyword, option in OPTIONS.items():
        text = text.replace(keyword, option)
    _print(sys.stderr, [(label, "bold red"), (_line(text), "")])


def emit(kind: str, content: object, *, version: int = VERSION) -> None:
    """Print a result as a JSON document in the format of sigmascope files; NaN becomes None."""
    import json

    from sigmascope.store import encode
    from sigmascope.store.documents import wrap

    # in ASCII, so that nothing in it can control a terminal
    click.echo(json.dumps(wrap(kind, version, encode(content)), indent=1, allow_nan=False))


def directory(path: str) -> Path:
    """Return a directory to write to; one that is made for it goes again if nothing is written."""
    from sigmascope.store.files import output_directory

    return click.get_current_context().with_resource(output_directory(path))


def written(paths: Iterable[Path | str]) -> None:
    """Print which files were written."""
    say("Written: " + ", ".join(map(str, paths)))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 network`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def announce_distances(networks: int) -> None:
    """Say what it costs to compare many networks; a terminal shows a progress bar too."""
    from sigmascope.compare.distances import MANY_PAIRS

    pairs = networks * (networks - 1) // 2
    if pairs > MANY_PAIRS:
        inform(
            f"Comparing {networks:,} networks: {pairs:,} distances. Twice as many networks take "
            "four times as long."
        )


def read(paths: Iterable[str], *, tracks: bool = False, only: Sequence[str] = ()) -> Runs:
    """Return the stored signatures, with `tracks` those too; note what was ignored."""
    from sigmascope.runs import read_runs

    found = read_runs(list(paths), tracks=tracks, only=only)
    for note in found.notes:
        inform(f"Note: {note}.")
    return found


def _print(stream: IO[str], parts: list[tuple[str, str]]) -> None:
    """Print text with styles on a terminal, without where NO_COLOR is set."""
    from rich.text import Text

    text = Text.assemble(*((_inert(part), style) for part, style in parts))
    _console(stream).print(text, soft_wrap=True, highlight=False)


def _console(stream: IO[str]) -> Console:
    from rich.console import Console

    color = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    return Console(file=stream, **color)  # type: ignore[arg-type]


def _inert(text: str) -> str:
    """Replace what could control a terminal: names in files may come from anybody."""
    return "".join(char if char.isprintable() or char == "\n" else REPLACEMENT for char in text)


def _line(text: str) -> str:
    return " ".join(text.split())
