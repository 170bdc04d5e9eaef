"""`sigmascope report`: signatures side by side on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sigmascope.cli.output import emit, json_option, read, say
from sigmascope.cli.program import DONE, PARTIAL

if TYPE_CHECKING:
    from sigmascope.runs import Facts, Run

__all__ = ["report"]

# How a page of sigmascope begins, and what stands in its head.
OPENING, TITLE, HEAD = b"<!doctype html>", b"sigmascope</title>", 8192


@click.command(short_help="Write a page about stored signatures.")
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@click.option(
    "-o",
    "--out",
    default="report.html",
    show_default=True,
    type=click.Path(),
    help="The page to write.",
)
@json_option
def report(runs: tuple[str, ...], out: str, as_json: bool) -> int:
    """Write a self-contained page about stored signatures: files, or folders of runs.

    An older page is replaced, any other file is not. Ends with 3 where a folder lacks a network;
    the page names it.
    """
    _check_target(out)
    found = read(runs)
    from sigmascope.reporting.page import report as write_report

    path = write_report(
        found.signatures,
        out,
        facts=_facts(found.runs),
        data=_data(found.runs),
        missing=found.missing,
    )
    size, count = path.stat().st_size, len(found.runs)
    if as_json:
        emit(
            "written",
            {"path": str(path), "bytes": size, "networks": [one.name for one in found.signatures]},
        )
    else:
        say(f"Written: {path} ({count} network{'s' * (count != 1)}, {size / 1000:.0f} kB)")
    return PARTIAL if found.missing else DONE


def _check_target(out: str) -> None:
    """Refuse to replace what is no page: a signature, a manifest, anything of somebody else."""
    target = Path(out)
    if target.suffix.lower() == ".json":
        raise click.UsageError(
            f"{out} ends like a signature, and a page is HTML. Give a name such as "
            "report.html with -o."
        )
    if target.is_file() and not _is_page(target):
        raise click.ClickException(
            f"{out} is there and is no page of sigmascope. Give another name with -o, or "
            "remove it first."
        )


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HEAD)
    return head.startswith(OPENING) and TITLE in head


def _facts(runs: Sequence[Run]) -> dict[str, Facts | None]:
    """Return the facts by the names on the page, where networks of one name are told apart by a number."""
    from sigmascope.compare.networks import checked_networks

    scored = [run for run in runs if run.signature.coverage.scored]
    names = checked_networks([run.signature for run in scored]).names if scored else ()
    alone = {run.signature.name: run.facts for run in runs if run not in scored}
    return alone | dict(zip(names, (run.facts for run in scored), strict=True))


def _data(runs: Sequence[Run]) -> str | None:
    """Name the data, as far as the manifests do, each with its number of samples."""
    named = [f"{run.data}, {run.signature.samples} samples" for run in runs if run.data]
    return "; ".join(dict.fromkeys(named)) or None
