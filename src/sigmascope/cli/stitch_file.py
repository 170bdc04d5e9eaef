"""The file of a stitch: it says which run it belongs to, so that the same command shows it again
and no other replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope.errors import FileFormatError, InputError, ResumeError

if TYPE_CHECKING:
    from sigmascope.catalog.entry import Model
    from sigmascope.stitching import Settings, StitchResult

__all__ = ["checked_file", "finished_stitch", "request_of", "write_stitch"]

REQUEST = "request"  # under which it stands beside the tensors
GIVEN = ("at", "family", "style", "seed", "data", "data_root", "limit", "test_limit")
REMEDY = "Choose another name, or remove it first."


def checked_file(out: str) -> Path:
    """Return where to write, before any work, if nothing is there but a stitch.

    Raises:
        UsageError: the name does not end in .json.
        InputError: a folder or something else is there, or where the tensors go.
    """
    from sigmascope.runs.folder import kind_of
    from sigmascope.store.files import checked_target

    path = Path(out)
    if path.suffix != ".json":
        raise click.UsageError(f"{out} does not end in .json.")
    for target in (path, _tensors(path)):
        checked_target(target)
    if path.is_file() and kind_of(path) != "stitch":
        raise InputError(f"{path} is there and holds no stitch. {REMEDY}")
    if _tensors(path).is_file() and _about(path) is None:
        raise InputError(
            f"{_tensors(path)} is there and holds no stitch, whose tensors would replace it. "
            f"{REMEDY}"
        )
    return path


def request_of(
    models: tuple[Model, Model], given: Mapping[str, Any], *, settings: Settings, augment: str
) -> dict[str, Any]:
    """Describe a run by all that its result depends on but rounding, as plain values; devices count
    by their kind.

    Args:
        models: the networks of the front and the back; of each the name and a digest of its numbers
            count.
        given: option -> value; the device as torch has it.
        settings: those that follow from the options.
        augment: how training images are augmented.
    """
    from sigmascope.measure.batches import fingerprint
    from sigmascope.runs import Selection, request_for
    from sigmascope.store import encode

    sides = dict(zip(("front", "back"), models, strict=True))
    names = {side: one.name for side, one in sides.items()}
    networks = {side: one.network for side, one in sides.items()}
    return {
        **names,
        "weights": {
            side: fingerprint([*one.parameters(), *one.buffers()]) for side, one in networks.items()
        },
        "files": request_for(list(dict.fromkeys(names.values())), Selection(given["data"])).files,
        **{name: given[name] for name in GIVEN},
        "augment": augment,
        "device": given["device"].type,
        "settings": encode(settings),
    }


def finished_stitch(path: Path, request: Mapping[str, Any]) -> StitchResult | None:
    """Return the stitch that a file already holds, if there is one; tensors alone, as a stop leaves
    them, are none.

    Raises:
        ResumeError: it belongs to another run, or the tensors alone do; the message names the
            difference.
        FileFormatError: it is damaged, or its tensors are missing.
    """
    from sigmascope.runs.request import unlike
    from sigmascope.stitching import StitchResult

    found = next((one for one in (path, _tensors(path)) if one.is_file()), None)
    if found is None:
        return None
    if not _tensors(path).is_file():
        raise FileFormatError(
            f"{_tensors(path)}, which belongs to {path}, is missing. Restore it, or remove "
            f"{path} first."
        )
    there = (_about(path) or {}).get(REQUEST)
    if not isinstance(there, dict):
        raise ResumeError(f"{found} holds a stitch that does not say which run it is of. {REMEDY}")
    told = "; ".join(unlike(there, request))
    if told:
        raise ResumeError(
            f"{found} belongs to another run: {told}. Ask for the same, choose another name, "
            "or remove it first."
        )
    return StitchResult.load(path) if found == path else None


def write_stitch(result: StitchResult, path: Path, request: Mapping[str, Any]) -> list[Path]:
    """Write a stitch as `StitchResult.save` does, with its run beside the tensors; return the files."""
    from sigmascope.stitching.result import KIND, VERSION
    from sigmascope.store import write_paired

    about = {"site": result.site, "family": result.family, REQUEST: dict(request)}
    return [write_paired(path, KIND, VERSION, result, about), _tensors(path)]


def _tensors(path: Path) -> Path:
    return path.with_suffix(".safetensors")


def _about(path: Path) -> dict[str, object] | None:
    """Return what stands beside the tensors of a stitch; None where they are none."""
    from sigmascope.store import read_features

    try:
        _, about = read_features(_tensors(path))
    except FileFormatError:
        return None
    return about if {"site", "family"} <= about.keys() else None
