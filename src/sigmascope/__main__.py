"""`python -m sigmascope` is the command line."""

from sigmascope.cli import main

main(prog_name="sigmascope")
