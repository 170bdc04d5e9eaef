"""The command line: parse, make one library call, print. torch is imported only by the commands
that need it.

Data goes to standard output, everything else to standard error. Exit codes: 0; 1 error; 2 wrong
usage; 3 partial: some of what was asked for is done; 130 and 143 where a signal ended it; 141 where
its reader went away. A command is a file of its own, and a row of the table below.
"""

from __future__ import annotations

import click

from sigmascope import __version__
from sigmascope.cli.compare import compare
from sigmascope.cli.demo import demo
from sigmascope.cli.listing import listing
from sigmascope.cli.measure import measure
from sigmascope.cli.plugins import reproduce
from sigmascope.cli.program import Program
from sigmascope.cli.report import report
from sigmascope.cli.show import show
from sigmascope.cli.similarity import similarity
from sigmascope.cli.stitch import stitch

__all__ = ["main"]

COMMANDS = (measure, compare, report, show, similarity, stitch, reproduce, listing, demo)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@click.version_option(__version__, package_name="sigmascope", message="%(prog)s %(version)s")
def main(debug: bool) -> None:
    """Look at σ, the activation function, inside real networks."""


for command in COMMANDS:
    main.add_command(command)
