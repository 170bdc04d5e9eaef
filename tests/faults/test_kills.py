"""Whatever is killed at whatever moment goes on to the very same result, and leaves nothing."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cli.stitchable import SOURCE
from tests.faults.killable import COUNT, Server
from tests.faults.scale import FULL, as_many, write_down
from tests.runs.tiny import network_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
# work -> how often it is killed: a few times, and in full
KILLS = {
    "survey": as_many(2, 110),
    "single_file": as_many(1, 50),
    "kept_features": as_many(1, 64),
    "stitch": as_many(2, 80),
    "isolated_survey": as_many(0, 12),
}
IN_A_ROW = 3  # kills of one run, before it may go on to its end
LEFT = (".tmp", ".lock", ".started", ".journal", ".checkpoint", "moments.safetensors")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def prepared(folder: Path) -> Path:
    """Return a directory with networks and data that every work finds in its place."""
    (folder / "data" / "cifar10").mkdir(parents=True)
    network_file(folder)
    (folder / "nets.py").write_text(SOURCE)
    generator = np.random.default_rng(0)
    for split, count in (("train", 80), ("test", 30)):
        images = generator.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        np.save(folder / f"data/cifar10/{split}_images.npy", images)
        np.save(folder / f"data/cifar10/{split}_labels.npy", generator.integers(0, 10, count))
    return folder


def results(folder: Path) -> dict[str, bytes]:
    """Return all results, with the failures of the networks that fail."""
    files = [path for path in (folder / "runs").rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not path.name.endswith(LEFT)
    }


def left_over(folder: Path) -> list[str]:
    """Return what a run that is finished does not leave."""
    wanted = [".tmp", ".lock", ".started"]
    return [path.name for path in (folder / "runs").rglob("*") if path.name.endswith((*wanted,))]


def moment(server: Server, work: str, folder: Path) -> tuple[int, float]:
    """Do some work undisturbed; return how many file operations and seconds that takes."""
    start = time.monotonic()
    assert server.run(work, folder) == 0, (folder / "output").read_text()
    return int((folder / COUNT).read_text()), time.monotonic() - start


@pytest.mark.parametrize("work", [work for work, kills in KILLS.items() if kills])
def test_what_is_killed_goes_on(tmp_path: Path, server: Server, work: str) -> None:
    chance = random.Random(work)
    folder = prepared(tmp_path / "work")
    operations, seconds = moment(server, work, folder)
    expected = results(folder)
    assert expected
    killed, different, runs = 0, [], 0
    while killed < KILLS[work]:
        wipe(folder)
        for _ in range(min(IN_A_ROW, KILLS[work] - killed)):
            at = chance.randint(1, operations) if chance.random() < 0.6 else None
            after = None if at else chance.random() * seconds
            code = server.run(work, folder, at, after)
            assert code in (0, -signal.SIGKILL), (folder / "output").read_text()
            killed += code == -signal.SIGKILL
        assert server.run(work, folder) == 0, (folder / "output").read_text()
        runs += 1
        found = results(folder)
        changed = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
        if changed or left_over(folder):
            different.append((runs, changed, left_over(folder)))
    write_down(
        f"kills at random moments and file operations: {work.replace('_', ' ')}",
        tried=killed,
        failed=len(different),
        note=f"{runs - len(different)} of {runs} runs went on to the same bytes",
    )
    assert different == []


def wipe(folder: Path) -> None:
    """Remove what the work has written."""
    for path in sorted(folder.rglob("*"), key=lambda path: -len(path.parts)):
        inside = (folder / "runs") in (path, *path.parents)
        if inside and path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif inside or path.name.startswith("journal") or path.name in (COUNT, "output"):
            os.unlink(path)


def test_there_are_enough_kills() -> None:
    assert sum(KILLS.values()) >= (300 if FULL else 6)
