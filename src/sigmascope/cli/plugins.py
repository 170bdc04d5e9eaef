"""Commands that other distributions add: `sigmascope-papers` brings `reproduce`."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from sigmascope.errors import MissingExtraError

GROUP = "sigmascope.commands"


def plugin(name: str, distribution: str, short_help: str) -> click.Command:
    """Return the command that a distribution adds, or one that says how to install it."""
    for found in entry_points(group=GROUP, name=name):
        command: click.Command = found.load()
        return command

    @click.command(
        name,
        short_help=short_help,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def missing() -> None:
        raise MissingExtraError(
            f"`sigmascope {name}` is part of {distribution}, which is not installed. "
            f"Install it: pip install {distribution}"
        )

    return missing


reproduce = plugin("reproduce", "sigmascope-papers", "Reproduce figures and tables of the papers.")
