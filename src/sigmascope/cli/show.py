"""`sigmascope show`: stored signatures as tables."""

from __future__ import annotations

import click

from sigmascope.cli.output import emit, json_option, read, say

__all__ = ["show"]


@click.command(short_help="Print stored signatures.")
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@json_option
def show(runs: tuple[str, ...], as_json: bool) -> None:
    """Print stored signatures: files, or folders of runs."""
    found = read(runs).signatures
    if as_json:
        emit("signatures", found)
        return
    for number, one in enumerate(found):
        say("\n" * (number > 0) + repr(one))
