"""Commands that other distributions add: `sigmascope-papers` brings `reproduce`."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from sigmascope.errors import MissingExtraError

GROUP = "sigmascope.commands"


def plugin(name: str, distribution: str, short_help: str) -> click.Command:
    """Return the command that a distribution adds, or one that says why there is none."""
    for found in entry_points(group=GROUP, name=name):
        try:
            command: click.Command = found.load()
        except Exception as error:  # a broken distribution must not break the other commands
            why = f"cannot be loaded: {type(error).__name__}: {error}."
            remedy = f"Install it again: pip install --force-reinstall {distribution}"
            return _without(name, short_help, f"{distribution}, which {why} {remedy}")
        return command
    remedy = f"Install it: pip install {distribution}"
    return _without(name, short_help, f"{distribution}, which is not installed. {remedy}")


def _without(name: str, short_help: str, told: str) -> click.Command:
    """Return a command that says only what it is part of, and what is wrong with that."""

    @click.command(
        name,
        short_help=short_help,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def missing() -> None:
        raise MissingExtraError(f"`sigmascope {name}` is part of {told}")

    return missing


reproduce = plugin("reproduce", "sigmascope-papers", "Reproduce figures and tables of the papers.")
