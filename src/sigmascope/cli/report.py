"""`sigmascope report`: signatures side by side on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope import choices
from sigmascope.cli import options
from sigmascope.cli.output import announce_distances, counted, emit, json_option, read, say
from sigmascope.cli.program import DONE, PARTIAL

if TYPE_CHECKING:
    from sigmascope.runs import Facts, Run

# How a page of sigmascope begins, and what its head contains.
OPENING, TITLE, HEAD = b"<!doctype html>", b"sigmascope</title>", 8192


EXAMPLES = ("sigmascope report runs -o report.html",)


@click.command(
    short_help="Write a page about stored signatures.", epilog=options.examples(*EXAMPLES)
)
@options.runs
@options.only
@options.out("FILE", "The page to write.", "report.html")
@options.choice(
    "--by", choices.ScoreKind, "Scores to compare.  [default: published, if all have them]"
)
@json_option
def report(
    runs: tuple[str, ...],
    only: tuple[str, ...],
    out: str,
    by: choices.ScoreKind | None,
    as_json: bool,
) -> int:
    """Write a self-contained page about stored signatures: files, or directories of runs.

    Tracks of trainings, the files of sigmascope.Monitor, are shown over their steps.

    It compares published scores, as `sigmascope compare` does, unless --by says population;
    population scores stand beside them with 95 % intervals, and rank what is most non-linear.

    An older page is replaced, any other file is not. Exits with 3 if a directory lacks a network;
    the page lists it.
    """
    check_page(out)
    found = read(runs, tracks=True, only=only)
    from sigmascope.reporting.page import report as write_report

    announce_distances(len(found.runs))
    missing = found.missing | found.failures  # those with a log and a command
    told: dict[str, Any] = {"data": _data(found.runs), "missing": missing, "by": by}
    if found.runs:
        told["facts"] = _facts(found.runs, by)
    path = write_report([*found.signatures, *found.tracks], out, **told)
    size, names = path.stat().st_size, [signature.name for signature in found.signatures]
    if as_json:
        tracks = {"tracks": [str(file) for file in found.tracks]} if found.tracks else {}
        emit("written", {"path": str(path), "bytes": size, "networks": names, **tracks})
    else:
        shown = [counted(len(names), "network")] * bool(names)
        shown += [counted(len(found.tracks), "training")] * bool(found.tracks)
        say(f"Written: {path} ({', '.join(shown)}, {size / 1000:.0f} kB)")
    return PARTIAL if found.missing else DONE


def check_page(out: str) -> None:
    """Raise unless `out` can be written and is a new file or a page of sigmascope."""
    from sigmascope.store.files import checked_target

    target = Path(out)
    if target.suffix.lower() == ".json":
        raise click.UsageError(
            f"{out} is the name of a signature file, but a report is HTML. Pass a name such as "
            "report.html with -o."
        )
    if target.is_file() and not _is_page(target):
        raise click.ClickException(
            f"{out} exists and is not a report. Pass another name with -o, or remove it first."
        )
    checked_target(target)


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HEAD)
    return head.startswith(OPENING) and TITLE in head


def _facts(runs: Sequence[Run], by: choices.ScoreKind | None = None) -> dict[str, Facts | None]:
    """Return the facts by the names on the page, where equal names are numbered."""
    from sigmascope.compare.networks import checked_networks, estimator_of, has_scores

    shown = estimator_of([run.signature for run in runs], by)
    scored = [run for run in runs if has_scores(run.signature, shown)]
    names = checked_networks([run.signature for run in scored], shown).names if scored else ()
    alone = {run.signature.name: run.facts for run in runs if run not in scored}
    return alone | dict(zip(names, (run.facts for run in scored), strict=True))


def _data(runs: Sequence[Run]) -> str | None:
    """Return the names of the data, as far as manifests say them."""
    return "; ".join(dict.fromkeys(run.data for run in runs if run.data)) or None
