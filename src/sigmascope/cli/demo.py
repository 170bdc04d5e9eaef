"""`sigmascope demo`: two embedded networks, measured and compared without a download."""

from __future__ import annotations

from pathlib import Path

import click

from sigmascope.cli.output import emit, json_option, say, written

__all__ = ["demo"]

MORAL = """
A residual network splits its activations in two: those that follow an addition stay closer to affine, and the work is \
done inside the blocks.
Take the connections away, and the same layers share the work evenly.
"""


@click.command(short_help="Measure two embedded networks, offline, in seconds.")
@click.option(
    "-o",
    "--out",
    default="demo",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder to write to.",
)
@json_option
def demo(out: str, as_json: bool) -> None:
    """Measure a residual network and its plain twin on real images, all of them embedded: no download."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)  # before the work, so that none is lost
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {out}: {error.strerror}. Choose another folder with --out."
        ) from error
    from sigmascope.demo import AFTER, demo_signatures, draw_demo, finding, groups_of
    from sigmascope.reporting.page import report

    signatures = demo_signatures()
    findings = [finding(one) for one in signatures]
    if not as_json:
        for one in signatures:
            say(f"{one!r}\n")
        ends = [
            site.name
            for site, place in zip(signatures[0].sites, groups_of(signatures[0]), strict=True)
            if place == AFTER
        ]
        say(f"At the end of a block, after the addition where there is one: {', '.join(ends)}.\n")
        for name, found in zip(("with residual connections", "without"), findings, strict=True):
            say(
                f"{name:>25}: inside a block {found.inside:.3f}, at its end {found.after:.3f}; "
                f"the end scores higher in {100 * found.separation:.0f} % of pairs"
            )
        say(MORAL)
    paths = [*draw_demo(signatures, out), report(signatures, Path(out) / "report.html")]
    if as_json:
        emit(
            "demo",
            {
                "signatures": signatures,
                "findings": findings,
                "written": [str(path) for path in paths],
            },
        )
    else:
        written(paths)
