"""Options that several commands share. Choices come from the types in `sigmascope.choices`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sigmascope.checks import OLD_NAMES
from sigmascope.choices import OLD_VALUES, values_of

__all__ = [
    "choice",
    "count",
    "current_name",
    "data_root_option",
    "device_option",
    "optional_file",
    "runs_argument",
    "seed_option",
]

runs_argument = click.argument("runs", nargs=-1, required=True, type=click.Path())
data_root_option = click.option(
    "--data-root",
    metavar="DIR",
    help="Directory with the data files.  [default: $SIGMASCOPE_DATA, or data]",
)
device_option = click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Device of the networks; auto: a GPU if there is one.",
)
seed_option = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Seed of all random numbers.",
)


def choice(flag: str, values: Any, help: str, default: str | None = None, **more: Any) -> Any:
    """Return an option whose values are those of a `Literal` type, or a sequence of names."""
    names = values if isinstance(values, Sequence) else values_of(values)
    return _option(flag, click.Choice(names), help, default, **more)


def count(flag: str, help: str, default: int | None = None, *, minimum: int = 1) -> Any:
    """Return an option that is a whole number, by default at least 1."""
    return _option(flag, click.IntRange(min=minimum), help, default, metavar="N")


def optional_file(metavar: str, help: str, **path: bool) -> Any:
    """Return the option `-o`, where to write."""
    return click.option("-o", "--out", metavar=metavar, type=click.Path(**path), help=help)


def current_name(name: str) -> str:
    """Return what an option or a value of an earlier version is called now.

    >>> current_name("at"), current_name("released"), current_name("seed")
    ('site', 'published', 'seed')
    """
    return OLD_NAMES.get(name, OLD_VALUES.get(name, name))


def _option(flag: str, kind: click.ParamType, help: str, default: Any, **more: Any) -> Any:
    return click.option(
        flag, type=kind, default=default, show_default=default is not None, help=help, **more
    )
