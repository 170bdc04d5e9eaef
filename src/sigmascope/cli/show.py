"""`sigmascope show`: stored signatures and tracks as tables."""

from __future__ import annotations

import click

from sigmascope.cli import options
from sigmascope.cli.output import emit, json_option, read, say


@click.command(short_help="Print stored signatures and tracks.")
@options.runs
@options.only
@json_option
def show(runs: tuple[str, ...], only: tuple[str, ...], as_json: bool) -> None:
    """Print stored signatures and tracks of trainings: files, or directories of runs."""
    found = read(runs, tracks=True, only=only)
    tracks = list(found.tracks.values())
    if as_json and tracks:
        from sigmascope.monitoring.track import KIND, OLDEST

        if found.runs or len(tracks) > 1:
            raise click.UsageError("--json prints one track, or signatures. Pass one track only.")
        emit(KIND, tracks[0], version=OLDEST)  # its numbers can be read by eye
    elif as_json:
        from sigmascope.measure.result import VERSION

        emit("signatures", found.signatures, version=VERSION)
    else:
        say("\n\n".join(map(repr, [*found.signatures, *tracks])))
