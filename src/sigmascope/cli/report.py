"""`sigmascope report`: signatures side by side on one page."""

from __future__ import annotations

import click

from sigmascope.cli.output import emit, json_option, read, say

__all__ = ["report"]


@click.command(short_help="Write a page about stored signatures.")
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--out", default="report.html", show_default=True, type=click.Path(), help="The page to write.")
@json_option
def report(runs: tuple[str, ...], out: str, as_json: bool) -> None:
    """Write a self-contained page about stored signatures: files, or folders of runs."""
    found = read(runs).signatures
    from sigmascope.reporting.page import report as write_report

    path = write_report(found, out)
    size = path.stat().st_size
    if as_json:
        emit("written", {"path": str(path), "bytes": size, "networks": [one.name for one in found]})
    else:
        say(f"Written: {path} ({len(found)} network{'s' * (len(found) != 1)}, {size / 1000:.0f} kB)")
