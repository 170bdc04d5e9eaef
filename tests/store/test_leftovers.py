"""Temporary files of processes that were killed are removed; those of others are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from sigmascope.store import write_atomic, write_features
from sigmascope.store.files import writable_directory
from sigmascope.store.leftovers import NAME, OLD, process_table, remove_leftovers, temporary_name

KILLED = """
import os, signal, sys
from sigmascope.store.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
# the limit ends the process while safetensors writes, by a signal that Python hears in vain
KILLED_WITHIN_SAFETENSORS = """
import resource, signal, sys, torch
from sigmascope.store import write_features
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
write_features(sys.argv[1], {"x": torch.zeros(100_000)}, {})
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


def test_what_safetensors_left_is_removed_too(tmp_path: Path) -> None:
    """It writes to a file that it names itself, as no other file of ours is named."""
    command = [sys.executable, "-c", KILLED_WITHIN_SAFETENSORS, tmp_path / "file"]
    ended = subprocess.run(command, check=False, timeout=600)
    assert ended.returncode == -signal.SIGXFSZ
    [left] = os.listdir(tmp_path)
    assert NAME.fullmatch(left)
    assert len(os.listdir(tmp_path / left)) >= 1
    write_features(tmp_path / "file", {"x": torch.zeros(3)}, {})
    assert os.listdir(tmp_path) == ["file"]


def test_folders_of_others_stay(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(timeout=600)
    full, dead = (
        tmp_path / f".sigmascope-{process_table()}-{ended.pid}-{letter * 16}.tmp" for letter in "ab"
    )
    own = tmp_path / temporary_name()
    for folder in (full, dead, own):
        folder.mkdir()
        (folder / "file").touch()
    (full / "folder").mkdir()
    (tmp_path / "kept").touch()
    (dead / "link").symlink_to(tmp_path / "kept")
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([full, own, tmp_path / "kept"])


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
