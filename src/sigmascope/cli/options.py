"""Options that several commands share. Choices come from the types in `sigmascope.choices`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from sigmascope.checks import OLD_NAMES
from sigmascope.choices import OLD_VALUES, values_of
from sigmascope.cli.names import Name

Command = TypeVar("Command", bound=Callable[..., Any])


def option(
    flag: str, help: str, default: Any = None, *flags: str, **more: Any
) -> Callable[[Command], Command]:
    """Return an option, text unless it has another type; a default is shown in the help."""
    if default is not None:
        more |= {"default": default, "show_default": True}
    return click.option(flag, *flags, help=help, **more)


def choice(
    flag: str, values: Any, help: str, default: str | None = None, **more: Any
) -> Callable[[Command], Command]:
    """Return an option whose values are those of a `Literal` type, or a sequence of names."""
    names = values if isinstance(values, Sequence) else values_of(values)
    return option(flag, help, default, type=click.Choice(names), **more)


def count(
    flag: str, help: str, default: int | None = None, *, minimum: int = 1
) -> Callable[[Command], Command]:
    """Return an option that is a whole number, by default at least 1."""
    return option(flag, help, default, type=click.IntRange(min=minimum), metavar="N")


def number(flag: str, help: str, *, metavar: str = "X") -> Callable[[Command], Command]:
    """Return an option that is a finite number from 0."""
    return option(flag, help, type=click.FloatRange(0, math.inf, max_open=True), metavar=metavar)


def out(metavar: str, help: str, default: str | None = None) -> Callable[[Command], Command]:
    """Return the option `-o`, where to write."""
    return option("-o", help, default, "--out", type=click.Path(), metavar=metavar)


def data(default: str | None = None) -> Callable[[Command], Command]:
    """Return the options `--data` and `--data-root`; without a default the first is required."""
    more = {"metavar": "NAME", "required": default is None, "type": Name("data")}
    name = option("--data", "Data; see `sigmascope list data`.", default, **more)
    root = "Directory with the data files.  [default: $SIGMASCOPE_DATA, or data]"
    directory = option("--data-root", root, metavar="DIR")
    return lambda command: name(directory(command))


def examples(*lines: str) -> str:
    """Return the end of a command's help: what to type."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def current_name(name: str) -> str:
    """Return what an option or a value of an earlier version is called now.

    >>> current_name("at"), current_name("released"), current_name("seed")
    ('site', 'published', 'seed')
    """
    return OLD_NAMES.get(name, OLD_VALUES.get(name, name))


def network(name: str, **more: Any) -> Callable[[Command], Command]:
    """Return an argument that is the name of a network."""
    return click.argument(name, type=Name("models"), **more)


runs = click.argument("runs", nargs=-1, required=True, type=click.Path())
only = option(
    "--only",
    "Read these networks only: a pattern, or a part of the name; repeatable.",
    metavar="PATTERN",
    multiple=True,
)
split = option("--split", "Split of the data.", "test")
limit = count("--limit", "Use only N samples, drawn at random.")
seed = count("--seed", "Seed of all random numbers.", 0, minimum=0)
device = option("--device", "Device of the networks; auto: a GPU if there is one.", "auto")
