"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sigmascope.errors import FileFormatError, InputError

__all__ = [
    "LIMIT",
    "Location",
    "check_source",
    "checked_target",
    "read_bytes",
    "replacing",
    "sync_folder",
    "write_atomic",
]

Location = str | os.PathLike[str]
# bytes; the files of real runs stay far below, and a hostile one must not fill the memory
LIMIT = 256 * 2**20


def write_atomic(path: Location, data: bytes) -> None:
    """Write a file so that at any moment, also after a crash, `path` holds either the old content
    or all of the new.

    Args:
        path: the file. A missing folder is created; a link is followed.
        data: the new content.

    Raises:
        InputError: the path is a folder, a device or a pipe.
        OSError: what the file system says. The old file is then untouched and nothing is left
            beside it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(f"{folder}/new/scores.txt", b"0.62")
    ...     Path(folder, "new", "scores.txt").read_bytes()
    b'0.62'
    """
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def replacing(path: Location) -> Iterator[Path]:
    """Give an empty file in the same folder that takes the place of `path` if the block succeeds,
    and vanishes if not.
    """
    target = checked_target(path)
    temporary = target.with_name(f".sigmascope-{secrets.token_hex(8)}.tmp")
    try:
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode
        yield temporary
        # safetensors keeps its files from everybody else, whatever the umask
        if temporary.stat().st_mode != mode:
            temporary.chmod(stat.S_IMODE(mode))
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def checked_target(path: Location) -> Path:
    """Find where to write, through links, and make its folder.

    Raises:
        InputError: a folder, a device or a pipe stands there: replacing /dev/null would harm more
            than this run.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{path} is a folder. Give the name of a file in it.")
    if target.exists() and not target.is_file():
        raise InputError(
            f"{path} is a device or a pipe, which cannot be replaced. Give the name of a file."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def sync_folder(folder: Path) -> None:
    """Make a new name in the folder survive a loss of power, where the system can promise that."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # some network file systems refuse; the file itself is safe by now
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_source(path: Location, limit: float = float("inf")) -> None:
    """Raise unless `path` is a file of at most `limit` bytes: opening a pipe would wait for ever.

    Raises:
        FileFormatError: it is something else, or larger.
        FileNotFoundError: there is nothing.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise FileFormatError(f"{path} is a folder, a device or a pipe. Give the name of a file.")
    if found.st_size > limit:
        raise FileFormatError(
            f"{path} has {found.st_size} bytes, more than the {limit} that are read. Is it "
            "the right file?"
        )


def read_bytes(path: Location) -> bytes:
    """Read a file of at most `LIMIT` bytes; raises as `check_source`."""
    check_source(path, LIMIT)
    return Path(path).read_bytes()
