"""`sigmascope show`: stored signatures as tables."""

from __future__ import annotations

import click

from sigmascope.cli import options
from sigmascope.cli.output import emit, json_option, read, say


@click.command(short_help="Print stored signatures.")
@options.runs
@json_option
def show(runs: tuple[str, ...], as_json: bool) -> None:
    """Print stored signatures: files, or directories of runs."""
    found = read(runs).signatures
    if as_json:
        from sigmascope.measure.result import VERSION

        emit("signatures", found, version=VERSION)
        return
    for number, signature in enumerate(found):
        say("\n" * (number > 0) + repr(signature))
