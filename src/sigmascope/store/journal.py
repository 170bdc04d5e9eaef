"""A file that grows by one line per result, for runs that may be killed at any moment."""

from __future__ import annotations

import io
import os
from typing import Self

from sigmascope.errors import FileFormatError, InputError, InputTypeError, ResumeError
from sigmascope.store.digests import digest_of
from sigmascope.store.documents import DIGEST, dump, parse, unwrap, wrap
from sigmascope.store.files import LIMIT, NO_LINKS, Location, checked_target, sync_folder
from sigmascope.store.kept import check_identity, in_use, lock

KIND, VERSION = "journal", 1
RECORD = "record"
DAMAGED = "Start again with another file."
Record = dict[str, object]


class Journal:
    """An append-only file of JSON lines: the identity of its run, then the records.

    Each line has the digest of its record and of the line before, so that no line can be changed,
    lost, repeated or moved unnoticed. Journals of earlier versions have none and get none. A record
    is on the disk when `append` returns. Open it with `Journal.open`; it is its own context
    manager.

    Attributes:
        records: those found when it was opened, in order; `append` does not add to them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal.open(f"{folder}/run.jsonl", {"seed": 0}) as journal:
    ...         journal.append({"model": "resnet50", "score": 0.62})
    ...     with Journal.open(f"{folder}/run.jsonl", {"seed": 0}) as journal:
    ...         journal.records
    [{'model': 'resnet50', 'score': 0.62}]
    """

    def __init__(self, file: io.FileIO, records: list[Record], end: int, digest: str) -> None:
        self.records = records
        self._file = file
        self._end = end
        self._digest = digest  # of the last line; "" if this journal has none

    @classmethod
    def open(cls, path: Location, header: Record) -> Self:
        """Start a journal, or continue one of the same run.

        An incomplete last line is cut off. A file that is not a journal is left unchanged.

        Args:
            path: the file. A missing directory is created.
            header: the identity of the run: plain values for its network, data and settings.

        Raises:
            ResumeError: the journal belongs to another run; or another process has it open.
            FileFormatError: not a journal, of a newer sigmascope, or damaged before its last line.
            InputError: the path is a directory, a device or a pipe; a header that JSON cannot hold.
            InputTypeError: a header that is not a dict.
        """
        _check_dict("header", header)
        opening = dump(wrap(KIND, VERSION, header), sealing=True) + b"\n"
        target = checked_target(path)
        # unbuffered: nothing waits in memory to be written after a failure
        file = io.FileIO(target, "a+", opener=_open_itself)
        try:
            _check_only_name(file, path)
            if not lock(file.fileno()):
                raise ResumeError(in_use(path))
            records, end, digest = _recover(file, str(path), opening, header)
            file.truncate(end)
            journal = cls(file, records, end, digest)
            if not end:
                journal._write(opening)
                sync_folder(target.parent)
        except BaseException:
            file.close()
            raise
        return journal

    def append(self, record: Record) -> None:
        """Write a record and wait until it is on the disk.

        Raises:
            InputTypeError: not a dict.
            InputError: values that JSON cannot hold, such as NaN (see `encode`); the journal is
                closed.
            OSError: the disk is full or gone. The journal then still ends with a complete line.
        """
        _check_dict("record", record)
        if self._file.closed:
            raise InputError("The journal is closed. Open it again to append.")
        text, digest = dump(record), self._digest
        if digest:
            digest = digest_of(record, digest)
            text = b'{"%s": "%s", "%s": %s}' % (*map(str.encode, (DIGEST, digest, RECORD)), text)
        self._write(text + b"\n")
        self._digest = digest

    def close(self) -> None:
        """Close the file, so that other processes can open it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except BaseException:
            # an incomplete line with others after it would look like damage
            self._file.truncate(self._end)
            raise
        self._end += len(line)


def _open_itself(path: str, flags: int) -> int:
    return os.open(path, flags | NO_LINKS, 0o666)


def _check_only_name(file: io.FileIO, path: Location) -> None:
    """Raise if the file has a second name, a hard link: it grows in place, there as well."""
    if os.fstat(file.fileno()).st_nlink > 1:
        raise InputError(
            f"{path} is a hard link to a file that has other names, which would change too. Copy "
            "it, or choose another file."
        )


def _check_dict(what: str, value: object) -> None:
    if not isinstance(value, dict):
        raise InputTypeError(
            f"The {what} is a {type(value).__name__}. Pass a dict of plain values; see "
            "encode() for dataclasses."
        )


def _recover(
    file: io.FileIO, source: str, opening: bytes, header: Record
) -> tuple[list[Record], int, str]:
    """Return the complete records, where they end, and the digest of the last line.

    They end at 0 if not even the header is complete.
    """
    records: list[Record] = []
    broken = ""
    with open(file.fileno(), "rb", closefd=False) as reader:
        reader.seek(0)
        first = reader.readline(LIMIT + 2)
        # new, or killed while the first line was written
        if first != opening and opening.startswith(first):
            return [], 0, _digest_in(opening)
        digest = _check_header(first, source, header)
        end = len(first)
        for number, line in enumerate(iter(lambda: reader.readline(LIMIT + 2), b""), start=2):
            if broken:
                raise FileFormatError(
                    f"{source} is damaged in {broken}. Remove that line and all after it, or start "
                    "again with another file."
                )
            try:
                record, digest = _record(line, digest)
            except ValueError as error:
                broken = f"line {number}: {error}"
            else:
                records.append(record)
                end += len(line)
    return records, end, digest


def _check_header(line: bytes, source: str, header: Record) -> str:
    """Return the digest of the first line, after checking that it is the header of this run."""
    try:
        document = _parsed(line)
    except ValueError as error:
        raise FileFormatError(
            f"{source} is not a journal of sigmascope: {error}. Choose another file."
        ) from error
    found = unwrap(document, source, KIND, VERSION, remedy=DAMAGED)
    if not isinstance(found, dict):
        raise FileFormatError(f"{source} is a journal without a header. Choose another file.")
    check_identity(source, found, header)
    return str(document.get(DIGEST, ""))


def _record(line: bytes, before: str) -> tuple[Record, str]:
    """Return the record of a line and the digest of the line; without a digest `before`, as is."""
    found = _parsed(line)
    if not before:
        return found, ""
    record = found.get(RECORD)
    if found.keys() != {DIGEST, RECORD} or not isinstance(record, dict):
        raise ValueError("it is not a record with its digest")
    digest = digest_of(record, before)
    if found[DIGEST] != digest:
        raise ValueError("it does not match its digest, or does not belong behind the line before")
    return record, digest


def _parsed(line: bytes) -> Record:
    if not line.endswith(b"\n"):
        raise ValueError("it does not end")
    found = parse(line)
    if not isinstance(found, dict):
        raise ValueError("it is not a dict")
    return found


def _digest_in(opening: bytes) -> str:
    return str(_parsed(opening)[DIGEST])
