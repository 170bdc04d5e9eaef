"""Compressed files read with a limit: a megabyte may hold gigabytes of zeros."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

from sigmascope.errors import FileFormatError

# Bytes that a compressed file may hold whatever its size, and beyond them for each byte of its own.
INFLATED, RATIO = 64 * 2**20, 4
MOST_ENTRIES = 100_000  # of an archive; each takes a kilobyte of memory
# The end of an archive and, for large ones, what stands before it; see PKWARE's APPNOTE, 4.3.
END, LOCATOR, LONGEST_END = b"PK\x05\x06", b"PK\x06\x07", 2**16 + 22


def check_archive(path: Path) -> None:
    """Raise if an archive holds far more than its size lets expect; other files are not checked.

    Raises:
        FileFormatError: it does; nothing was unpacked.
    """
    size = os.path.getsize(path)
    entries = _entries(path, size)
    if entries > MOST_ENTRIES:
        raise FileFormatError(
            f"{path}: has {entries} entries, the limit is {MOST_ENTRIES}. Save the weights as "
            "safetensors instead."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            inflated = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # whoever reads it says what is wrong
        return
    if inflated > max(INFLATED, RATIO * size):
        raise FileFormatError(
            f"{path}: has {size} bytes and would inflate to {inflated}. Save the weights without "
            "compression, or as safetensors."
        )


def read_gzip(path: Path, most: int) -> bytes:
    """Return at most so many bytes of the content of a gzip file; raises as `gzip` does."""
    with gzip.open(path, "rb") as file:
        return file.read(most)


def _entries(path: Path, size: int) -> int:
    """Return how many entries an archive claims to have; 0 for other files."""
    with path.open("rb") as file:
        file.seek(max(0, size - LONGEST_END))
        tail = file.read()
        place = tail.rfind(END)
        if place < 0:
            return 0
        entries = int.from_bytes(tail[place + 10 : place + 12], "little")
        locator = tail[max(0, place - 20) : place]
        if entries < 2**16 - 1 or not locator.startswith(LOCATOR):
            return entries
        start = int.from_bytes(locator[8:16], "little")
        file.seek(min(start, size))
        return int.from_bytes(file.read(40)[32:40], "little")
