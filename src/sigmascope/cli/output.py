"""What the commands print: text and JSON to standard output, notes and errors to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from sigmascope.runs import Runs

__all__ = ["complain", "emit", "inform", "json_option", "read", "say", "written"]

VERSION = 1
OPTIONS = {
    "root=FOLDER": "--data-root FOLDER",
    "weights=FILE": "--weights FILE",
    "weights=None": "--weights none",
}
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

Function = TypeVar("Function", bound=Callable[..., Any])


def json_option(command: Function) -> Function:
    """Add `--json`, which every command has that prints data."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(
        command
    )


def say(text: str) -> None:
    """Print data."""
    _print(sys.stdout, [(text, "")])


def inform(text: str) -> None:
    """Print a line about the work to standard error."""
    _print(sys.stderr, [(_line(text), "dim")])


def complain(text: str, *, label: str = "Error: ") -> None:
    """Print a line about what is wrong to standard error. A remedy that is a keyword of the library
    becomes an option.
    """
    for keyword, option in OPTIONS.items():
        text = text.replace(keyword, option)
    _print(sys.stderr, [(label, "bold red"), (_line(text), "")])


def emit(kind: str, content: object) -> None:
    """Print data as one JSON document that says what it is, like the files of sigmascope; None
    stands for NaN.
    """
    import json

    from sigmascope.store import encode
    from sigmascope.store.documents import wrap

    # In ASCII, so that nothing in it can steer a terminal.
    click.echo(json.dumps(wrap(kind, VERSION, encode(content)), indent=1, allow_nan=False))


def written(paths: Iterable[Path | str]) -> None:
    """Say which files there are now."""
    say("Written: " + ", ".join(map(str, paths)))


def read(paths: Iterable[str]) -> Runs:
    """Read signatures, and tell what was ignored."""
    from sigmascope.runs import read_runs

    found = read_runs(list(paths))
    for note in found.notes:
        inform(f"Note: {note}.")
    return found


def _print(stream: IO[str], parts: list[tuple[str, str]]) -> None:
    """Print text whose styles show only on a terminal, and not where NO_COLOR is set."""
    from rich.text import Text

    text = Text.assemble(*((_inert(part), style) for part, style in parts))
    _console(stream).print(text, soft_wrap=True, highlight=False)


def _console(stream: IO[str]) -> Console:
    from rich.console import Console

    color = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    return Console(file=stream, **color)  # type: ignore[arg-type]


def _inert(text: str) -> str:
    """Replace what could steer a terminal: names in files may come from anybody."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else REPLACEMENT for letter in text
    )


def _line(text: str) -> str:
    return " ".join(text.split())
