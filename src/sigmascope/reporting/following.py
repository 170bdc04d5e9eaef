"""Following trainings by the files of their monitors, and the page that shows them meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from sigmascope.errors import FileFormatError
from sigmascope.monitoring.track import KIND, Entry, Track
from sigmascope.reporting.content import without_networks
from sigmascope.reporting.page import page_of
from sigmascope.reporting.tracks import tracks_of
from sigmascope.store import kind_of
from sigmascope.store.files import Location, write_atomic

# The states of a page; only under the first one it reloads itself.
UNDER_WAY, FINISHED, LEFT = "under way", "finished", "no longer followed"


@dataclass(frozen=True)
class Change:
    """What was found in a file that changed.

    Attributes:
        file: the file.
        before: the track that was in it, if any.
        track: the one that is in it now; None where it could not be read.
        problem: why it could not.
    """

    file: Path
    before: Track | None
    track: Track | None
    problem: str = ""

    @property
    def entries(self) -> Sequence[Entry]:
        """The measurements that are new."""
        if self.track is None:
            return ()
        known = self.before.steps if self.before else []
        pairs = zip(known, self.track.steps, strict=False)
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        return self.track.entries[same:]


@dataclass
class Follower:
    """The tracks in a file or a directory, read again when their files change.

    Attributes:
        source: the file, or the directory with files. Neither needs to exist yet.
        tracks: file -> the last track that could be read.
    """

    source: Path
    tracks: dict[Path, Track] = field(default_factory=dict)
    _stamps: dict[Path, tuple[int, ...]] = field(default_factory=dict)

    def look(self) -> list[Change]:
        """Return what has changed since the last time.

        Raises:
            FileFormatError: the source is a file of another kind, which will not become a track.
        """
        found = []
        for file in self._files():
            stamp = _stamp(file)  # before reading, so that nothing written meanwhile is missed
            if stamp is None or stamp == self._stamps.get(file):
                continue
            self._stamps[file] = stamp
            found.append(self._read(file))
        return found

    def _read(self, file: Path) -> Change:
        before = self.tracks.get(file)
        try:
            self.tracks[file] = Track.load(file)
        except (FileFormatError, OSError) as error:
            if file == self.source and _kind(file) not in ("", KIND):
                raise  # not damaged, but something else
            return Change(file, before, None, str(error))
        return Change(file, before, self.tracks[file])

    def _files(self) -> list[Path]:
        if not self.source.is_dir():
            return [self.source]
        return [file for file in sorted(self.source.glob("*.json")) if self._is_track(file)]

    def _is_track(self, file: Path) -> bool:
        return file in self._stamps or _kind(file) == KIND

    @property
    def ended(self) -> bool:
        """Whether all trainings have ended."""
        return bool(self.tracks) and all(track.ended for track in self.tracks.values())

    @property
    def updated(self) -> float | None:
        """When a file last changed, in seconds since 1970."""
        times = [stamp[0] / 1e9 for file, stamp in self._stamps.items() if file in self.tracks]
        return max(times, default=None)


def write_following(follower: Follower, path: Location, state: str, every: float) -> None:
    """Write the page of trainings, which reloads itself every so many seconds while under way.

    Steps that are not drawn are left out of a page that is loaded again and again.
    """
    tracks = list(follower.tracks.values())
    content = without_networks() | {
        "tracks": tracks_of(tracks, list(follower.tracks), whole=state != UNDER_WAY),
        "follow": {"state": state, "every": every, "updated": follower.updated},
    }
    write_atomic(path, page_of(content))


def lines_of(change: Change, *, named: bool = False) -> Iterator[str]:
    """Yield what is new in a file, a line for each measurement and each event."""
    lead = f"{change.file.stem}: " if named else ""
    track, before = change.track, change.before
    if track is None:
        yield f"{lead}cannot be read now, and is tried again: {change.problem}"
        return
    entries = change.entries
    lost = before.steps[len(track) - len(entries) :] if before else []
    if lost:
        yield f"{lead}measured again from step {lost[0]} on, after a restart"
    if before is None and len(entries) > 1:
        yield f"{lead}{len(track)} measurements, steps {track.steps[0]} to {track.steps[-1]}"
    told = entries if before else entries[-1:]
    yield from (lead + _summary(entry) for entry in told)
    steps = {entry.step for entry in entries}
    yield from (f"{lead}{event}" for event in track.events if event.step in steps)
    if track.ended and not (before and before.ended):
        yield f"{lead}{track.ended}"


def _summary(entry: Entry) -> str:
    scored = [site for site in entry.sites if site.score == site.score]
    if not scored:
        return f"step {entry.step}: no site has a score"
    mean = sum(site.score for site in scored) / len(scored)
    lowest = min(scored, key=lambda site: site.score)
    return f"step {entry.step}: mean {mean:.3f}, lowest {lowest.score:.3f} ({lowest.name})"


def _stamp(file: Path) -> tuple[int, ...] | None:
    with suppress(OSError):
        found = os.stat(file)
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def _kind(file: Path) -> str:
    with suppress(OSError):
        return kind_of(file) if file.is_file() else ""
    return ""
