"""What a directory of runs has of each network, from the names of its files.

The directory is listed once. Nothing is opened but the marks of networks that are being measured,
so that a directory of a hundred thousand networks is known in a second; what is in the other files
is checked when they are read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Literal

from sigmascope.errors import InputError
from sigmascope.runs.folder import MANIFEST, SCRATCH, read_manifest, stem_of
from sigmascope.runs.request import Request
from sigmascope.runs.started import is_dead
from sigmascope.store.files import Location

MARK = ".started"  # the ending of marks, as `files_of` builds them
State = Literal["finished", "failed", "running", "open"]


@dataclass(frozen=True)
class Listing:
    """The networks of a directory of runs.

    Attributes:
        folder: the directory.
        request: what it belongs to.
        states: network -> "finished"; "failed" when it was last measured; "running" while a
            process measures it, or after one died on a machine that is not this; or "open". In
            the order of the request.

    >>> import tempfile
    >>> from sigmascope.runs import Selection, list_runs, measure_runs, request_for
    >>> names = ["sigmascope/resnet20", "sigmascope/resnet21"]
    >>> request = request_for(names, Selection("embedded", limit=64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = list(measure_runs(request, folder))
    ...     listing = list_runs(folder)
    >>> listing.names("finished")
    ['sigmascope/resnet20']
    >>> listing.counts()
    {'finished': 1, 'failed': 1, 'running': 0, 'open': 0}
    """

    folder: Path
    request: Request
    states: dict[str, State]

    def names(self, *states: State) -> list[str]:
        """Return the networks in some states."""
        return [name for name, state in self.states.items() if state in states]

    def counts(self) -> dict[State, int]:
        """Return how many networks are in each state."""
        found = Counter(self.states.values())
        return {state: found[state] for state in ("finished", "failed", "running", "open")}


def list_runs(folder: Location) -> Listing:
    """Return what a directory of runs has of each network.

    Raises:
        InputError: it is not a directory of runs.
        FileFormatError: its manifest is corrupt or newer than this version.

    >>> import tempfile
    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = list(measure_runs(request, folder))
    ...     list_runs(folder).states
    {'sigmascope/resnet20': 'finished'}
    """
    path = Path(folder)
    manifest = read_manifest(path)
    if manifest is None:
        raise InputError(f"{folder} has no {MANIFEST}: it is not a directory of runs.")
    return listing_of(path, manifest.request)


def listing_of(folder: Path, request: Request, *, dead: bool = False) -> Listing:
    """Return what a directory has of the networks of its request.

    Args:
        folder: the directory.
        request: of its manifest.
        dead: whether networks of processes that are seen to have died are "running" too: who
            measures them next must tell, and removes what they have left.
    """
    there = set(names_in(folder))
    marks = set(names_in(folder / SCRATCH) if dead else marks_in(folder))
    states = {name: _state(stem_of(name), there, marks) for name in request.names}
    return Listing(folder, request, states)


def names_in(folder: Path) -> Iterator[str]:
    """Yield the names in a directory; none if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name
    except FileNotFoundError:
        return


def marks_in(folder: Path) -> Iterator[str]:
    """Yield the names of the marks of networks whose process may be at work."""
    scratch = folder / SCRATCH
    for name in names_in(scratch):
        if name.endswith(MARK) and not is_dead(scratch / name):
            yield name


def chosen_names(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the names that a pattern fits, or that contain it.

    >>> chosen_names(["torchvision/resnet18", "timm/vit_tiny"], ["resnet", "timm/*"])
    ['torchvision/resnet18', 'timm/vit_tiny']
    """
    wanted = re.compile("|".join(map(_expression, patterns)))
    return [name for name in names if wanted.fullmatch(name)]


def _expression(pattern: str) -> str:
    return f"(?:{translate(pattern)})|(?s:.*{re.escape(pattern)}.*)"


def _state(stem: str, there: set[str], marks: set[str]) -> State:
    """Return the state of a network by the names of its files, as `files_of` builds them."""
    if f"{stem}{MARK}" in marks:
        return "running"
    if f"{stem}.error.json" in there:
        return "failed"
    has_both = f"{stem}.json" in there and f"{stem}.facts.json" in there
    return "finished" if has_both else "open"
