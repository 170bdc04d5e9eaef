"""`sigmascope show`: stored signatures, tracks and linearizations as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sigmascope.cli import options
from sigmascope.cli.output import emit, json_option, read, say

LINEARIZED = ("linearization", "linearization-plan", "linearized-network")


EXAMPLES = ("sigmascope show runs", "sigmascope show runs --only resnet --json")


@click.command(
    short_help="Print stored signatures, tracks and linearizations.",
    epilog=options.examples(*EXAMPLES),
)
@options.runs
@options.only
@json_option
def show(runs: tuple[str, ...], only: tuple[str, ...], as_json: bool) -> None:
    """Print stored signatures, tracks of trainings and linearizations: files, or directories."""
    linearized = [run for run in runs if _is_linearized(Path(run))]
    others = [run for run in runs if run not in linearized]
    results = _linearizations(linearized, as_json=as_json, alone=not others)
    if not others:
        if not as_json:
            say("\n\n".join(map(repr, results)))
        return
    found = read(others, tracks=True, only=only)
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
        say("\n\n".join(map(repr, [*found.signatures, *tracks, *results])))


def _is_linearized(path: Path) -> bool:
    from sigmascope.runs.any_file import is_linearization
    from sigmascope.store import kind_of

    if path.is_dir():
        return is_linearization(path)
    return path.is_file() and path.suffix == ".json" and kind_of(path) in LINEARIZED


def _linearizations(paths: list[str], *, as_json: bool, alone: bool) -> list[Any]:
    """Return the stored linearizations; print one as JSON."""
    if not paths:
        return []
    from sigmascope.linearize import Linearization
    from sigmascope.runs.any_file import load

    results = [load(path) for path in paths]
    if as_json:
        from sigmascope.cli.linearize import summary_of

        if not alone or len(results) > 1 or not isinstance(results[0], Linearization):
            raise click.UsageError(
                "--json prints one linearization, or signatures. Pass one directory only."
            )
        emit("linearization-summary", summary_of(results[0]))
    return results
