"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sigmascope.checks import check_path
from sigmascope.errors import FileFormatError, InputError
from sigmascope.store.leftovers import (
    remove_folder,
    remove_leftovers,
    remove_leftovers_once,
    temporary_name,
)

Location = str | os.PathLike[str]
# Windows has no such flag; creating a symbolic link needs special rights there.
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
O_BINARY = getattr(os, "O_BINARY", 0)  # of Windows
# In bytes. Files of real runs are far smaller; a corrupt one must not fill the memory.
LIMIT = 64 * 2**20


def write_atomic(path: Location, data: bytes) -> None:
    """Write a file atomically: even after a crash it holds the old content or all of the new.

    Args:
        path: the file. A missing directory is created. A directory may be reached through symbolic
            links, but the file itself must not be one: what a link points to is never written.
        data: the new content.

    Raises:
        InputError: the path is a symbolic link, a directory, a device or a pipe.
        OSError: the file system refuses. The old file is then unchanged and no other file is left.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(f"{folder}/new/scores.txt", b"0.62")
    ...     Path(folder, "new", "scores.txt").read_bytes()
    b'0.62'
    """
    with replacing(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_TRUNC | NO_LINKS | O_BINARY)
        with open(descriptor, "wb") as file:
            file.write(data)


@contextmanager
def replacing(path: Location, *, apart: bool = False) -> Iterator[Path]:
    """Yield an empty file that replaces `path` if the block succeeds and is removed if it fails.

    Args:
        path: the file to replace.
        apart: whether the empty file is in a directory of its own, for a writer that makes others
            beside it: if that is killed, nobody could tell them from files of the user.
    """
    target = _no_link(path)
    temporary = _new_file(_made(target.parent), apart=apart)
    remove_leftovers_once(target.parent)
    try:
        mode = temporary.stat().st_mode
        yield temporary
        # safetensors makes its files private, whatever the umask
        if temporary.stat().st_mode != mode:
            temporary.chmod(stat.S_IMODE(mode))
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        if apart:
            with suppress(FileNotFoundError):
                remove_folder(temporary.parent)
        else:
            temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def checked_target(path: Location) -> Path:
    """Return the file to write, after creating its directory; only that may be a symbolic link.

    Raises:
        InputError: the path is a symbolic link, a directory, a device or a pipe; replacing
            /dev/null would harm more than this run.
        OSError: no file can be created in its directory.
    """
    target = _no_link(path)
    writable_directory(target.parent)
    return target


def writable_directory(path: Location) -> Path:
    """Return a directory, created if need be, after trying that files can be created in it.

    What writers that were killed have left in it is removed.

    Raises:
        InputError: the path is a file.
        OSError: the directory or a file in it cannot be created.
    """
    directory = Path(path)
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{path} is not a directory. Pass the name of a directory.")
    _new_file(_made(directory)).unlink()
    remove_leftovers(directory)
    return directory


@contextmanager
def output_directory(path: Location) -> Iterator[Path]:
    """Give a directory as `writable_directory` does, and take it away again if it stays empty.

    So work that is refused leaves nothing behind. A directory that was there is left in place.
    """
    is_new = not os.path.lexists(path)
    folder = writable_directory(path)
    try:
        yield folder
    finally:
        if is_new:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def check_no_link(path: Location, what: str = "file") -> None:
    """Raise an InputError if a path is a symbolic link: what it points to is not ours to write."""
    if os.path.islink(path):
        raise InputError(
            f"{path} is a symbolic link, and sigmascope writes to no {what} through a link. Remove "
            f"the link, or pass the {what} that it points to."
        )


def _no_link(path: Location) -> Path:
    check_path("path", path)
    check_no_link(path)
    given = Path(path)
    target = Path(os.path.realpath(given.parent), given.name)
    if target.is_dir():
        raise InputError(f"{path} is a directory. Pass the name of a file in it.")
    if target.exists() and not target.is_file():
        raise InputError(
            f"{path} is a device or a pipe, which cannot be replaced. Pass the name of a file."
        )
    return target


def _made(directory: Path) -> Path:
    with _explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
    return directory


def _new_file(directory: Path, *, apart: bool = False) -> Path:
    temporary = directory / temporary_name()
    with _explained(directory):
        if apart:
            temporary.mkdir()
            temporary /= "new"
        temporary.touch(exist_ok=False)  # which follows no link
    return temporary


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    """Name the directory in an error of the file system, and what to do about it."""
    try:
        yield
    except OSError as error:
        told = f"cannot write to this directory ({error.strerror}); choose another one"
        raise OSError(error.errno, told, str(directory)) from error


def sync_folder(folder: Path) -> None:
    """Make new names in a directory survive a power loss, where the system can promise that."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # some network file systems refuse; the file itself is safe by now
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_source(path: Location, limit: float = float("inf")) -> None:
    """Raise unless `path` is a file of at most `limit` bytes; opening a pipe would wait forever.

    Raises:
        FileFormatError: it is something else, or larger.
        FileNotFoundError: it does not exist.
    """
    check_path("path", path)
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise FileFormatError(
            f"{path} is a directory, a device or a pipe. Pass the name of a file."
        )
    if found.st_size > limit:
        raise FileFormatError(
            f"{path} has {found.st_size} bytes; the limit is {limit}. Is it the right file?"
        )


def read_bytes(path: Location) -> bytes:
    """Return the content of a file of at most `LIMIT` bytes; raises as `check_source`."""
    check_source(path, LIMIT)
    return Path(path).read_bytes()
