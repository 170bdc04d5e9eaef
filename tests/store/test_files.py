"""Files written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, InputError
from sigmascope.store import write_atomic
from sigmascope.store.files import check_source, read_bytes, replacing


def test_writes_replaces_and_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "file"
    for data in (b"first", b"", b"third"):
        write_atomic(path, data)
        assert path.read_bytes() == data
    write_atomic(str(path), b"by its name")
    assert read_bytes(path) == b"by its name"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_interruption_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def write_half(temporary: Path) -> None:
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"half of the n")
        raise KeyboardInterrupt("Ctrl-C")

    with pytest.raises(KeyboardInterrupt, match="Ctrl-C"), replacing(path) as temporary:
        write_half(temporary)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_no_moment_without_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new content is on the disk before it gets its name, and the directory after that."""
    path = tmp_path / "file"
    write_atomic(path, b"old")
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        events.append("fsync folder" if is_folder else f"fsync {os.fstat(descriptor).st_size}")
        fsync(descriptor)

    def watched_replace(source: Path, target: Path) -> None:
        events.append(f"replace {target.read_bytes()!r} by {source.read_bytes()!r}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_atomic(path, b"newer")
    assert events == ["fsync 5", "replace b'old' by b'newer'", "fsync folder"]


def test_folder_that_cannot_be_synced_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    write_atomic(tmp_path / "file", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes, links and pipes")
def test_mode_link_and_pipe(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", b"data")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640

    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("elsewhere")
    for name in ("link", "dangling"):
        with pytest.raises(InputError, match=rf"{name} is a symbolic link, .* Remove the link, or"):
            write_atomic(tmp_path / name, b"through the link")
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "file").read_bytes() == b"data"
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "folder").symlink_to(tmp_path)  # where to write is the user's choice
    write_atomic(tmp_path / "folder" / "file", b"in the folder")
    assert (tmp_path / "file").read_bytes() == b"in the folder"

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe is a device or a pipe, .* Pass the name of a file"):
        write_atomic(tmp_path / "pipe", b"data")
    with pytest.raises(FileFormatError, match="pipe is a directory, a device or a pipe"):
        read_bytes(tmp_path / "pipe")


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a directory\. Pass the name of a file in it"):
        write_atomic(tmp_path, b"data")
    with pytest.raises(FileFormatError, match="is a directory"):
        read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_bytes(tmp_path / "nothing")
    (tmp_path / "file").write_bytes(b"data")
    with pytest.raises(OSError, match="file"):
        write_atomic(tmp_path / "file" / "below", b"data")
    assert os.listdir(tmp_path) == ["file"]


def test_limit_is_checked_before_reading(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(
        FileFormatError, match=r"sparse has 1099511627776 bytes; the limit is 67108864"
    ):
        read_bytes(path)
    check_source(path)


def test_store_loads_no_torch() -> None:
    code = (
        "import sigmascope.store, sys; print({'torch', 'safetensors', 'numpy'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600
    )
    assert run.stdout.strip() == "set()"
