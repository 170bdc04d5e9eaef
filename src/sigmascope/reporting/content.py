"""All that a page shows: signatures, tracks, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmascope import __version__
from sigmascope.choices import ScoreKind
from sigmascope.errors import InputTypeError
from sigmascope.measure.result import Signature
from sigmascope.monitoring.track import Track
from sigmascope.reporting.context import Missing, checked_data, missing_of
from sigmascope.reporting.document import document_of
from sigmascope.reporting.tracks import tracks_of
from sigmascope.runs.any_file import load


@dataclass(frozen=True)
class Shown:
    """The signatures and tracks of a page; a track has its file where it was read from one."""

    signatures: Sequence[Any]
    tracks: tuple[Track, ...] = ()
    files: tuple[Path | None, ...] = ()

    @classmethod
    def of(cls, given: Any) -> Shown:
        """Return signatures and tracks apart, after reading the files among them."""
        if isinstance(given, str | os.PathLike):
            raise InputTypeError("signatures is a single path. Pass a list of files.")
        if isinstance(given, Signature | Track):
            given = [given]
        if not isinstance(given, Sequence):
            return cls(given)  # which is told to be wrong where signatures are checked
        signatures: list[Any] = []
        tracks: dict[int, tuple[Track, Path | None]] = {}
        for number, one in enumerate(given):
            file = Path(one) if isinstance(one, str | os.PathLike) else None
            found = one if file is None else _loaded(file)
            if isinstance(found, Track):
                tracks[number] = found, file
            else:
                signatures += found if isinstance(found, list) else [found]
        return cls(signatures, *zip(*tracks.values(), strict=True)) if tracks else cls(signatures)


def _loaded(file: Path) -> Any:
    found = load(file)
    several = isinstance(found, list) and all(isinstance(one, Signature) for one in found)
    if isinstance(found, Signature | Track) or several:
        return found
    raise InputTypeError(
        f"{file} holds a {type(found).__name__}, which a report does not show. Pass signatures and "
        "tracks, or their files."
    )


def content_of(
    shown: Shown,
    *,
    facts: Mapping[str, Any] | None = None,
    data: str | None = None,
    missing: Missing = (),
    by: ScoreKind | None = None,
) -> dict[str, Any]:
    """Return what the page shows, as `document_of`, with the tracks."""
    tracks = tracks_of(shown.tracks, shown.files)
    if shown.signatures or not tracks:
        told = {"facts": facts, "data": data, "missing": missing, "by": by}
        document = document_of(shown.signatures, **told)  # type: ignore[arg-type]
    else:
        document = without_networks() | {"data": checked_data(data), "missing": missing_of(missing)}
    return document | {"tracks": tracks, "follow": None}


def without_networks() -> dict[str, Any]:
    """Return the document of a page that shows tracks only."""
    return {"sigmascope": __version__, "networks": [], "missing": [], "data": None}
