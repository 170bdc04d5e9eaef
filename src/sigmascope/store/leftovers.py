"""Temporary files and directories, named after their process, so that those of dead ones can go."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

NAME = re.compile(r"\.sigmascope-(?:([0-9a-f]{8})-(\d{1,10})-)?[0-9a-f]{16}\.tmp")
# In seconds. No file takes that long to write: what is older has no writer, on whatever machine.
OLD = 7 * 24 * 3600
# What tells two sets of process numbers apart: machines, their starts, and containers.
PROCESS_TABLE = ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")


def temporary_name() -> str:
    """Return a name for a temporary file or directory, which says which process it belongs to."""
    return f".sigmascope-{process_table()}-{os.getpid()}-{secrets.token_hex(8)}.tmp"


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that have surely ended; failures do not matter."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if (found := NAME.fullmatch(entry.name)) and _is_left(entry, found):
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.path)
                    elif found[1]:  # earlier versions, which named no process, made none
                        remove_folder(Path(entry.path))


def remove_folder(folder: Path) -> None:
    """Remove a temporary directory with its files; what else is in it keeps it there.

    Raises:
        OSError: that is so, or it is not there.
    """
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@cache
def remove_leftovers_once(folder: Path) -> None:
    """Remove them when this process first writes there, not at every file of a large directory."""
    remove_leftovers(folder)


def _is_left(entry: os.DirEntry[str], name: re.Match[str]) -> bool:
    table, process = name.groups()
    if table == process_table():
        return not is_process_alive(int(process))
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > OLD
    except OSError:  # removed by now
        return False


def is_process_alive(process: int) -> bool:
    """Return whether there is such a process, or there might be."""
    if sys.platform == "win32" or process <= 0:  # where asking would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@cache
def process_table() -> str:
    """Return a digest that processes share if they see each other's numbers."""
    parts = [socket.gethostname()]
    for place in PROCESS_TABLE:
        with suppress(OSError):
            path = Path(place)
            parts.append(os.readlink(path) if path.is_symlink() else path.read_text())
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:8]
