"""An output that cannot be written is refused on one line, before any work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.compare.made import made

NETWORKS = ("sigmascope/resnet20:0", "sigmascope/resnet20:1")
DATA = ("--data", "embedded", "--limit", "8")
COMMANDS = {
    "measure to a file": ("measure", NETWORKS[0], *DATA, "-o", "{}/a.json"),
    "measure to a directory": ("measure", NETWORKS[0], *DATA, "-o", "{}"),
    "report": ("report", "made.json", "-o", "{}/page.html"),
    "compare": ("compare", "made.json", "--figures", "{}"),
    "similarity": ("similarity", *NETWORKS, *DATA, "-o", "{}"),
    "stitch": ("stitch", *NETWORKS, "--site", "act", "--data", "cifar10", "-o", "{}/a.json"),
    "demo": ("demo", "-o", "{}"),
}


@pytest.fixture(autouse=True)
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory with a signature; no network may be built."""
    monkeypatch.chdir(tmp_path)
    made("good", [0.5, 0.6]).save("made.json")
    Path("plain").touch()
    for place in ("runs.network.model", "catalog.models.model", "demo.demo_signatures"):
        monkeypatch.setattr(f"sigmascope.{place}", lambda *_, **__: pytest.fail("work was done"))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("directory", ["/proc", "/proc/new", "made.json/new"])
def test_an_output_that_cannot_be_written(name: str, directory: str) -> None:
    if directory.startswith("/proc") and not os.path.ismount("/proc"):
        directory = "made.json/new"
    result = run(*(word.format(directory) for word in COMMANDS[name]))
    assert (result.exit_code, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert f"{directory}: cannot write to this directory (" in line
    assert line.endswith("); choose another one")
    assert ".tmp" not in line


@pytest.mark.parametrize("name", ["measure to a directory", "compare", "similarity", "demo"])
def test_a_file_is_not_a_directory(name: str) -> None:
    result = run(*(word.format("plain") for word in COMMANDS[name]))
    assert result.exit_code in (1, 2)  # click refuses it where it checks the type
    assert "is not a directory. Pass" in result.stderr or "is a file" in result.stderr
