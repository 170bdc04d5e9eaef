"""The command line: each command parses its options, makes one library call, and prints.

Results go to standard output, everything else to standard error. Exit codes: 0; 1 error; 2 wrong
usage; 3 partial, if only some of the work could be done; 130 and 143 if a signal ended it; 141 if
the reader of its output went away. Only commands that need torch import it.
"""

from __future__ import annotations

import click

from sigmascope import __version__
from sigmascope.cli.align import align
from sigmascope.cli.compare import compare
from sigmascope.cli.completion import completion
from sigmascope.cli.demo import demo
from sigmascope.cli.linearize import linearize
from sigmascope.cli.listing import listing
from sigmascope.cli.measure import measure
from sigmascope.cli.options import current_name, examples
from sigmascope.cli.plugins import reproduce
from sigmascope.cli.program import Program
from sigmascope.cli.report import report
from sigmascope.cli.show import show
from sigmascope.cli.similarity import similarity
from sigmascope.cli.stitch import stitch
from sigmascope.cli.track import track
from sigmascope.cli.watch import watch

__all__ = ["main"]

COMMANDS = (
    *(measure, watch, compare, report, show, track, similarity, align, stitch, linearize),
    *(reproduce, listing, completion, demo),
)
SETTINGS = {"help_option_names": ["-h", "--help"], "token_normalize_func": current_name}
EXAMPLES = (
    "sigmascope demo",
    "sigmascope measure sigmascope/resnet20 sigmascope/plain20 --data embedded -o runs",
    "sigmascope report runs -o report.html",
)


@click.group(cls=Program, context_settings=SETTINGS, epilog=examples(*EXAMPLES))
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@click.version_option(__version__, package_name="sigmascope", message="%(prog)s %(version)s")
def main(debug: bool) -> None:
    """Measure how non-linear activations are, and which symmetries they preserve."""


for command in COMMANDS:
    main.add_command(command)
