"""Names on the command line: their completion in a shell, and what to say where one is missing.

A list of networks takes seconds, since libraries are imported for it. It is kept in a file for a
day, or until another version of a library is installed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    TextType = click.ParamType[str]
else:
    TextType = click.ParamType  # generic from click 8.4 on

LISTED = ("sigmascope", "sigmascope-papers", "torchvision", "timm", "transformers")
DAY = 24 * 3600  # seconds


def _models() -> list[str]:
    from sigmascope.catalog import model_names

    return [name for names in model_names().values() for name in names]


def _data() -> list[str]:
    from sigmascope.catalog import data_names

    return data_names()


NAMES: dict[str, Callable[[], Sequence[str]]] = {"models": _models, "data": _data}
REMEDIES = {
    "models": "Run `sigmascope list models` for names, or write py:FILE:FUNCTION for your own.",
    "data": "Pass --data embedded for the images in the package, --data imagefolder:DIR for your "
    "own, or another name of `sigmascope list data`.",
}


class Name(TextType):
    """The name of a network or of data; any text, which the command checks.

    Attributes:
        of: "models", "data", or what `names` lists.
        names: returns all names, where they are not those of `NAMES`.
    """

    name = "text"

    def __init__(self, of: str, names: Callable[[], Sequence[str]] | None = None) -> None:
        self.of, self.names = of, names or NAMES[of]

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so; without any, the shell goes on with files."""
        found = [_beginning(name) for name in kept_names(self.of, self.names)]
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]

    def get_missing_message(
        self, param: click.Parameter, ctx: click.Context | None = None
    ) -> str | None:
        """Return where to find names."""
        return REMEDIES.get(self.of)


def _beginning(name: str) -> str:
    """Return a name without what stands for the user's part of it.

    >>> _beginning("imagefolder:DIR"), _beginning("hf/NAME"), _beginning("timm/resnet26d")
    ('imagefolder:', 'hf/', 'timm/resnet26d')
    """
    return re.sub(r"(?<=[:/])[A-Z]+(:[A-Z]+)?$", "", name)


def kept_names(of: str, names: Callable[[], Sequence[str]]) -> list[str]:
    """Return all names of a kind, from a file in the user's cache directory where it is fresh."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(home) / "sigmascope" / f"names-{of}.json"
    stamp = _stamp()
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(path.read_text(encoding="utf-8"))
        fresh = 0 <= time.time() - path.stat().st_mtime < DAY
        if fresh and content["stamp"] == stamp:
            return [str(name) for name in content["names"]]
    found = list(names())
    with suppress(OSError):  # a cache that cannot be written costs time only
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_text(json.dumps({"stamp": stamp, "names": found}), encoding="utf-8")
        beside.replace(path)
    return found


def _stamp() -> list[str]:
    """Return what the names depend on: versions, and the place of the zoo."""
    versions = []
    for package in LISTED:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} –")
    return [*versions, os.environ.get("SIGMASCOPE_ZOO", ""), os.getcwd()]
