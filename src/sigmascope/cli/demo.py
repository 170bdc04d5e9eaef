"""`sigmascope demo`: two embedded networks, measured and compared without a download."""

from __future__ import annotations

import click

from sigmascope.cli import options
from sigmascope.cli.output import emit, json_option, say, written

MORAL = """
In a residual network, activations that follow an addition stay closer to affine; the blocks do \
the work inside.
Without residual connections, the same layers share the work evenly.
"""


EXAMPLES = ("sigmascope demo -o demo",)


@click.command(
    short_help="Measure two embedded networks, offline, in seconds.",
    epilog=options.examples(*EXAMPLES),
)
@options.out("DIR", "Directory to write to.", "demo")
@json_option
def demo(out: str, as_json: bool) -> None:
    """Measure a residual network and its plain twin on real images, all embedded: no download."""
    from sigmascope.store.files import writable_directory

    folder = writable_directory(out)
    from sigmascope.demo import AFTER, demo_signatures, draw_demo, finding, groups_of
    from sigmascope.reporting.page import report

    signatures = demo_signatures()
    findings = [finding(signature) for signature in signatures]
    if not as_json:
        for signature in signatures:
            say(f"{signature!r}\n")
        pairs = zip(signatures[0].sites, groups_of(signatures[0]), strict=True)
        ends = ", ".join(site.name for site, group in pairs if group == AFTER)
        say(f"At the end of a block, after the addition if there is one: {ends}.\n")
        for name, found in zip(("with residual connections", "without"), findings, strict=True):
            say(
                f"{name:>25}: inside a block {found.inside:.3f}, at its end {found.after:.3f}; "
                f"the end scores higher in {100 * found.separation:.0f} % of pairs"
            )
        say(MORAL)
    paths = [*draw_demo(signatures, folder), report(signatures, folder / "report.html")]
    if as_json:
        files = [str(path) for path in paths]
        emit("demo", {"signatures": signatures, "findings": findings, "written": files})
    else:
        written(paths)
