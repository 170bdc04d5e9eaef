"""Versions of packages below which files of others are not read, and what is wrong with them.

What reads no foreign file works with older ones: networks of one's own, random weights, and
weights in safetensors.
"""

from __future__ import annotations

import re
from importlib import metadata
from typing import NamedTuple

import torch

from sigmascope.errors import MissingExtraError


class Floor(NamedTuple):
    """The first version without a hole.

    Attributes:
        version: major and minor.
        hole: what a file can do below it.
        advisories: where that is reported.
    """

    version: tuple[int, int]
    hole: str
    advisories: str


FLOORS = {
    "torch": Floor(
        (2, 10),
        "a .pt, .pth or .bin file can corrupt memory and run code, although only tensors are read",
        "CVE-2026-24747",
    ),
    "transformers": Floor(
        (5, 5),
        "a config.json can run code from the hub, although code of others is not trusted",
        "CVE-2026-4372, CVE-2026-5241",
    ),
    "onnx": Floor(
        (1, 21),
        "a file can read others through links, and overwrite attributes of its reader",
        "CVE-2026-27489, CVE-2026-34445, CVE-2026-34446",
    ),
}
"""Package -> the lowest version that reads files of others."""
VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(a|b|rc|\.dev)?")


def check_floor(package: str, what: str, instead: str = "") -> None:
    """Raise an error if an installed package should not read a foreign file.

    Args:
        package: a key of `FLOORS`.
        what: the file, for the message.
        instead: another remedy than a newer version, as a sentence.

    Raises:
        MissingExtraError: it is too old; with the reason and the remedy.
    """
    installed = installed_version(package)
    if is_below_floor(package, installed):
        floor = FLOORS[package]
        wanted = ".".join(map(str, floor.version))
        raise MissingExtraError(
            f"{what} is not read with {package} {installed}: before {wanted}, {floor.hole} "
            f'({floor.advisories}). pip install "{package}>={wanted}". {instead}'.rstrip()
        )


def installed_version(package: str) -> str:
    """Return the version of a package that is installed; empty where it does not say."""
    if package == "torch":
        return str(torch.__version__)
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # imported from a folder of sources
        return ""


def is_below_floor(package: str, installed: str) -> bool:
    """Return whether a version is below the floor; one that cannot be read counts as new.

    >>> [is_below_floor("torch", one) for one in ("2.9.1+cpu", "2.10.0a0+git1", "2.10.0", "3.0")]
    [True, True, False, False]
    """
    found = VERSION.match(installed)
    if found is None:
        return False
    number, floor = (int(found[1]), int(found[2])), FLOORS[package].version
    return number < floor or (number == floor and found[3] is not None)
