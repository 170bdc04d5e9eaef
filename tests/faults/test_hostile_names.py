"""Names and links of people who mean harm: nothing is written outside the directory of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sigmascope.errors import SigmascopeError
from sigmascope.measure.accumulating import sums_beside
from sigmascope.runs import Isolation, measure_runs
from sigmascope.runs.folder import MANIFEST, SCRATCH, NetworkFiles, files_beside, files_of
from sigmascope.store.leftovers import temporary_name
from tests.cli.running import run
from tests.faults.scale import FULL, write_down
from tests.runs.tiny import asked, names_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links")

NAMES = [
    "../../../escaped",
    "/tmp/escaped",
    "..",
    ".",
    "",
    "a\0b",
    "a\nb",
    "\x1b[2J\x07title",
    "x" * 300,
    "😀" * 100,
    "CON",
    "NUL.json",
    "x.facts",
    "x.error",
    "-rf",
    "--help",
    "~root/x",
    "$HOME",
    "$(touch escaped)",
    "`touch escaped`",
    "; touch escaped",
    "аdmin",
    "ﬀ\u2044x",
    "\u202egnp.exe",
    "..\u2215..\u2215x",
    "..\\..\\x",
    "%2e%2e%2fx",
    "manifest",
    "manifest.json",
    ".sigmascope",
    "🅰\u200b",
    "x.json/../../y",
]
# A module whose functions have whatever name is asked for.
ANY_NAME = """
import torch
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)

def __getattr__(name):
    if name.startswith("__") or name in ("transform", "accuracy"):
        raise AttributeError(name)
    return lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU())
"""


def everything_but(folder: Path, root: Path) -> dict[str, object]:
    """Return what is in a directory, except one directory in it: links, and the content of files.

    Directories count by their names, so that no empty one is overlooked.
    """
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        if folder in (path, *path.parents):
            continue
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        else:
            found[str(path)] = path.read_bytes() if path.is_file() else None
    return found


def test_no_name_leads_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "a" / "b" / "c"
    (root / "here").mkdir(parents=True)
    monkeypatch.chdir(root / "here")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (root / "nets.py").write_text(ANY_NAME)
    names = [f"py:{root / 'nets.py'}:{name}" for name in NAMES]
    names += NAMES  # which are in no catalog: their failures are written
    folder = root / "here" / "runs"
    before = everything_but(folder, tmp_path)
    outcomes = list(measure_runs(asked(names), folder))
    assert [outcome.name for outcome in outcomes] == names
    assert sum(outcome.state == "measured" for outcome in outcomes) > len(NAMES) / 2
    assert {outcome.state for outcome in outcomes} == {"measured", "failed"}
    outside = everything_but(folder, tmp_path) != before
    inside = [path for path in folder.iterdir() if path.name not in (SCRATCH, MANIFEST)]
    measured = sum(2 if outcome.state == "measured" else 1 for outcome in outcomes)
    write_down("hostile names of networks", tried=len(names), failed=int(outside))
    assert not outside
    assert len(inside) == measured  # each has files of its own
    assert all(path.name.isascii() and path.name[0] not in ".-" for path in inside)


def finished(files: NetworkFiles) -> Path:
    return files.finished


def facts(files: NetworkFiles) -> Path:
    return files.facts


def failure(files: NetworkFiles) -> Path:
    return files.failure or Path()


def started(files: NetworkFiles) -> Path:
    return files.started or Path()


def journal(files: NetworkFiles) -> Path:
    return files.partial


def sums(files: NetworkFiles) -> Path:
    return sums_beside(files.partial)


def lock(files: NetworkFiles) -> Path:
    return files.lock


def scratch(files: NetworkFiles) -> Path:
    return files.lock.parent


def manifest(files: NetworkFiles) -> Path:
    return files.finished.parent / MANIFEST


def manifest_lock(files: NetworkFiles) -> Path:
    return files.lock.parent / "manifest.lock"


def temporary(files: NetworkFiles) -> Path:
    return files.finished.parent / temporary_name()


Place = Callable[[NetworkFiles], Path]
# Which file of a network is a link, and to what: an empty file, one with content, a directory, or
# nothing; or a second name of an empty file.
LINKS: list[tuple[Place, str]] = [
    *((place, "file") for place in (finished, facts, failure, started, journal, sums, lock)),
    *((place, "nothing") for place in (finished, facts, failure, started, journal, sums, lock)),
    *((place, "empty") for place in (journal, lock, started)),
    *((place, "hard") for place in (finished, facts, failure, journal, sums, lock, started)),
    *((place, "folder") for place in (scratch, finished, journal)),
    *((place, "nothing") for place in (scratch, manifest, manifest_lock, temporary)),
    (manifest_lock, "file"),
    (manifest_lock, "hard"),
]


def plant(link: Path, kind: str, outside: Path) -> None:
    """Put a link where a file of a run will be."""
    target = outside / kind
    if link.is_dir():
        for path in link.iterdir():
            path.unlink()
        link.rmdir()
    link.unlink(missing_ok=True)
    if kind == "hard":
        os.link(target, link)
    else:
        link.symlink_to(target)


def outside_of(folder: Path) -> Path:
    """Return a directory that is not to be touched."""
    outside = folder / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("mine")
    (outside / "empty").touch()
    (outside / "hard").touch()
    return outside


@pytest.mark.parametrize("network", ["conv", "broken"])
def test_no_link_in_a_directory_of_runs_is_followed(tmp_path: Path, network: str) -> None:
    [name] = names_in(tmp_path, network)
    wrong = []
    for number, (place, kind) in enumerate(LINKS):
        root = tmp_path / str(number)
        outside, folder = outside_of(root), root / "runs"
        list(measure_runs(asked([name]), folder, skip=[name]))
        plant(place(files_of(folder, name)), kind, outside)
        before = everything_but(folder, root)
        with suppress(SigmascopeError, OSError):  # by name, before the work
            assert len(list(measure_runs(asked([name]), folder, resume=number % 2 == 0))) == 1
        if everything_but(folder, root) != before:
            wrong.append((place.__name__, kind))
    write_down(
        f"links in a directory of runs, network {'works' if network == 'conv' else 'fails'}",
        tried=len(LINKS),
        failed=len(wrong),
    )
    assert wrong == []


@pytest.mark.skipif(not FULL, reason="each starts a process: make test-faults")
def test_no_link_is_followed_by_a_child_process(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    for number, (place, kind) in enumerate(LINKS[:7]):
        root = tmp_path / str(number)
        outside, folder = outside_of(root), root / "runs"
        list(measure_runs(asked([name]), folder, skip=[name]))
        plant(place(files_of(folder, name)), kind, outside)
        before = everything_but(folder, root)
        list(measure_runs(asked([name]), folder, isolate=Isolation(600)))
        assert everything_but(folder, root) == before


def test_a_link_is_named_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [name] = names_in(tmp_path, "conv")
    outside, folder = outside_of(tmp_path), tmp_path / "runs"
    list(measure_runs(asked([name]), folder, skip=[name]))
    plant(files_of(folder, name).facts, "file", outside)
    monkeypatch.setattr("sigmascope.runs.network.model", lambda *_, **__: pytest.fail("built"))
    [outcome] = measure_runs(asked([name]), folder)
    assert outcome.failure is not None
    assert outcome.failure.error == "InputError"
    assert "facts.json is a symbolic link" in outcome.failure.message


@pytest.mark.parametrize("kind", ["file", "nothing", "folder"])
def test_no_link_beside_a_single_file_is_followed(tmp_path: Path, kind: str) -> None:
    [name] = names_in(tmp_path, "conv")
    data = ("--data", "random:8", "--limit", "32", "--batch-size", "16")
    for number, place in enumerate((finished, facts, journal, sums, lock)):
        root = tmp_path / str(number)
        outside, folder = outside_of(root), root / "place"
        folder.mkdir()
        plant(place(files_beside(folder / "one.json")), kind, outside)
        before = everything_but(folder, root)
        result = run("measure", name, *data, "-o", folder / "one.json")
        assert result.exit_code in (0, 1)
        assert "Traceback" not in result.stderr
        assert everything_but(folder, root) == before


@pytest.mark.parametrize("kind", ["file", "nothing"])
def test_no_page_or_figure_is_written_through_a_link(tmp_path: Path, kind: str) -> None:
    names = names_in(tmp_path, "conv", "wide")
    list(measure_runs(asked(names), tmp_path / "runs"))
    outside = outside_of(tmp_path / "root")
    folder = tmp_path / "root" / "figures"
    folder.mkdir()
    for name in ("report.html", "signatures.svg", "densities.png", "distances.csv"):
        plant(folder / name, kind, outside)
    before = everything_but(folder, tmp_path)
    for command in (
        ("report", tmp_path / "runs", "-o", folder / "report.html"),
        ("compare", tmp_path / "runs", "--figures", folder),
    ):
        result = run(*command)
        assert result.exit_code == 1
        assert "is a symbolic link" in result.stderr or "is not a report" in result.stderr
    assert everything_but(folder, tmp_path) == before
