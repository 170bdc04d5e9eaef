"""The directories of Rays that were started here: those of drivers that have ended are removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sigmascope.runs.executors import ray_cluster
from sigmascope.runs.executors.ray_cluster import FOLDER, OWNER
from sigmascope.store.leftovers import process_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def made(place: Path, process: int, began: str | None, table: str | None = None) -> Path:
    folder = place / f"{FOLDER}{table or process_table()}-{process}-abc"
    folder.mkdir()
    if began is not None:
        (folder / OWNER).write_text(began)
    return folder


def ended() -> int:
    """Return the number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.mark.parametrize("began", [None, "now"])
def test_that_of_this_process_stays(tmp_path: Path, began: str | None) -> None:
    mine = ray_cluster._beginning(os.getpid())
    assert int(mine) > 0
    folder = made(tmp_path, os.getpid(), mine if began else None)
    ray_cluster._remove_leftovers(tmp_path)
    assert folder.is_dir()


def test_that_of_an_earlier_process_with_the_number_of_this_one_goes(tmp_path: Path) -> None:
    earlier = str(int(ray_cluster._beginning(os.getpid())) - 1)
    folder = made(tmp_path, os.getpid(), earlier)
    ray_cluster._remove_leftovers(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("began", [None, "1"])
def test_that_of_a_process_that_has_ended_goes(tmp_path: Path, began: str | None) -> None:
    folder = made(tmp_path, ended(), began)
    ray_cluster._remove_leftovers(tmp_path)
    assert not folder.exists()


def test_that_of_another_machine_stays(tmp_path: Path) -> None:
    folder = made(tmp_path, ended(), "1", table="01234567")
    ray_cluster._remove_leftovers(tmp_path)
    assert folder.is_dir()
