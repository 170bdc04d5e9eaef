"""Temporary files of processes that were killed are removed; those of others are not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sigmascope.store import write_atomic
from sigmascope.store.files import writable_directory
from sigmascope.store.leftovers import NAME, OLD, process_table, remove_leftovers, temporary_name

KILLED = """
import os, signal, sys
from sigmascope.store.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "file"], check=False, timeout=600)
    [left] = os.listdir(tmp_path)
    assert NAME.fullmatch(left)
    write_atomic(tmp_path / "file", b"whole")  # the first one that this process writes there
    assert os.listdir(tmp_path) == ["file"]
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "file"], check=False, timeout=600)
    assert len(os.listdir(tmp_path)) == 2
    writable_directory(tmp_path)
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_what_might_be_in_use_stays(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(timeout=600)
    own = temporary_name()
    elsewhere = f".sigmascope-{'0' * 8}-{ended.pid}-{'a' * 16}.tmp"
    earlier = f".sigmascope-{'a' * 16}.tmp"  # of earlier versions
    dead = f".sigmascope-{process_table()}-{ended.pid}-{'a' * 16}.tmp"
    others = ["x.tmp", ".sigmascope-.tmp", f"{dead}x", f".sigmascope-{'a' * 15}.tmp"]
    for name in (own, elsewhere, earlier, dead, *others):
        write_atomic(tmp_path / name, b"")
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([own, elsewhere, earlier, *others])
    past = time.time() - OLD - 60
    for name in os.listdir(tmp_path):
        os.utime(tmp_path / name, (past, past))
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([own, *others])


def test_a_link_is_removed_not_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    link = tmp_path / f".sigmascope-{'a' * 16}.tmp"
    link.symlink_to("file")
    past = time.time() - OLD - 60
    os.utime(link, (past, past), follow_symlinks=False)
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    remove_leftovers(tmp_path / "nothing")
    (tmp_path / f".sigmascope-{'a' * 16}.tmp").mkdir()
    os.utime(tmp_path / f".sigmascope-{'a' * 16}.tmp", (0, 0))
    remove_leftovers(tmp_path)
    assert len(os.listdir(tmp_path)) == 1
