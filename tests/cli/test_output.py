"""What reaches a terminal: colors only there, never with NO_COLOR, no control characters."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from sigmascope.cli import output
from tests.cli.running import document, run
from tests.compare.made import made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(patch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal; in the test, since pytest replaces it after the fixtures."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        patch.delenv(name, raising=False)
    patch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    patch.setattr(sys, "stderr", stream)
    return stream


def test_colors_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    output.complain("no such thing")
    assert "\x1b[1;31mError: \x1b[0m" in terminal.getvalue()


def test_no_colors_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    output.complain("no such thing")
    output.inform("going on")
    assert terminal.getvalue() == "Error: no such thing\ngoing on\n"


def test_no_colors_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    output.complain("no such thing")
    assert stream.getvalue() == "Error: no such thing\n"


HOSTILE = "evil\x1b[2J\x1b]0;title\x07\r\x9b31m\u202ename[bold red]:boom:"


def test_names_of_strangers_cannot_steer_a_terminal(tmp_path: Path) -> None:
    signature = made(HOSTILE, [0.5, 0.6], paths=[f"a{HOSTILE}", f"b{HOSTILE}"])
    path = signature.save(tmp_path / "made.json")
    other = made("good", [0.5]).save(tmp_path / "good.json")
    for arguments in (["show", path], ["compare", path, other]):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "[bold red]:boom:" in result.stdout
        assert all(letter.isprintable() or letter == "\n" for letter in result.output)
    result = run("show", path, "--json")
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    assert document(result)[1][0]["name"] == HOSTILE


def test_long_lines_are_not_broken(tmp_path: Path) -> None:
    path = made("n" * 300, [0.5]).save(tmp_path / "made.json")
    assert "n" * 300 in run("show", path, COLUMNS="20").stdout
