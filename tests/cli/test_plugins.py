"""`reproduce` comes from another distribution, and says how to install it where it is missing."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

from sigmascope.cli import main, plugins
from sigmascope.errors import MissingExtraError


@click.command("reproduce")
@click.option("--list", "listed", is_flag=True)
def installed(listed: bool) -> None:
    """Stand in for the command of the distribution."""
    click.echo(f"listed={listed}")


def command(monkeypatch: pytest.MonkeyPatch, *found: EntryPoint) -> click.Command:
    """Return the command where these entry points are installed."""

    def entry_points(*, group: str, name: str) -> list[EntryPoint]:
        assert (group, name) == ("sigmascope.commands", "reproduce")
        return list(found)

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    return plugins.plugin("reproduce", "sigmascope-papers", "Reproduce the papers.")


def test_the_command_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("reproduce", f"{__name__}:installed", "sigmascope.commands")
    found = command(monkeypatch, entry)
    assert found is installed
    assert CliRunner().invoke(found, ["--list"]).stdout == "listed=True\n"


@pytest.mark.parametrize("arguments", [[], ["fig7"], ["--list"], ["--help"], ["all", "-o", "out"]])
def test_without_the_distribution(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    found = command(monkeypatch)
    result = CliRunner().invoke(found, arguments)
    assert isinstance(result.exception, MissingExtraError)
    monkeypatch.setitem(main.commands, "reproduce", found)
    told = CliRunner().invoke(main, ["reproduce", *arguments], prog_name="sigmascope")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == (
        "Error: `sigmascope reproduce` is part of sigmascope-papers, which is not installed. "
        "Install it: pip install sigmascope-papers\n"
    )
    listed = CliRunner().invoke(main, ["--help"], prog_name="sigmascope").stdout
    assert "Reproduce the papers." in listed


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nowhere.at_all:command", "ModuleNotFoundError: No module named 'nowhere'."),
        (f"{__name__}:nothing", "AttributeError: module "),
    ],
)
def test_a_distribution_that_is_broken(
    monkeypatch: pytest.MonkeyPatch, place: str, why: str
) -> None:
    found = command(monkeypatch, EntryPoint("reproduce", place, "sigmascope.commands"))
    monkeypatch.setitem(main.commands, "reproduce", found)
    told = CliRunner().invoke(main, ["reproduce", "--list"], prog_name="sigmascope")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith(
        f"Error: `sigmascope reproduce` is part of sigmascope-papers, which cannot be loaded: {why}"
    )
    assert told.stderr.endswith(
        " Install it again: pip install --force-reinstall sigmascope-papers\n"
    )
    listed = CliRunner().invoke(main, ["--help"], prog_name="sigmascope")
    assert listed.exit_code == 0
    assert "Reproduce the papers." in listed.stdout
