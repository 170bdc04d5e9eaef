"""`sigmascope list`: the names of models, data and activations."""

from __future__ import annotations

import fnmatch

import click

from sigmascope.cli import options
from sigmascope.cli.output import emit, inform, json_option, say

EXAMPLES = (
    "sigmascope list models resnet",
    "sigmascope list models 'timm/vit_*'",
    "sigmascope list data",
)


@click.command(
    "list",
    short_help="Print names of models, data, activations.",
    epilog=options.examples(*EXAMPLES),
)
@click.argument("what", type=click.Choice(["models", "data", "activations"]))
@click.argument("pattern", required=False)
@json_option
def listing(what: str, pattern: str | None, as_json: bool) -> None:
    """Print all names; with a PATTERN, those that contain it or, with *, ? and [], match it."""
    groups = {
        group: [name for name in names if _matches(name, pattern)]
        for group, names in _names(what).items()
    }
    groups = {group: names for group, names in groups.items() if names}
    if as_json:
        emit("names", {"of": what, "groups": groups})
    elif what == "activations":
        for family, kinds in groups.items():
            say(f"{family}: {', '.join(kinds)}")
    elif groups:
        say("\n".join(name for names in groups.values() for name in names))
    if not groups:
        inform(f"No name of {what} matches {pattern}.")


def _names(what: str) -> dict[str, list[str]]:
    """Return the names by library or family."""
    if what == "activations":
        from sigmascope.capture.activations import known_activations

        return known_activations()
    from sigmascope.catalog import data_names, model_names

    return model_names() if what == "models" else {"data": data_names()}


def _matches(name: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    if any(mark in pattern for mark in "*?["):
        return fnmatch.fnmatchcase(name.lower(), pattern.lower())
    return pattern.lower() in name.lower()
