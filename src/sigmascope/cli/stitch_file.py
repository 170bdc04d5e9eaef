"""The files of a stitch, kept so that the same command resumes it or shows it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope.errors import FileFormatError, InputError, ResumeError
from sigmascope.store.kept import KeptRun, check_identity

if TYPE_CHECKING:
    from sigmascope.catalog.entry import Model
    from sigmascope.stitching import Settings, StitchResult

IDENTITY = "request"  # its name among the values stored with the tensors
GIVEN = ("site", "family", "style", "seed", "data", "data_root", "limit", "test_limit")
REMEDY = "Choose another name, or remove it first."


def identity_of(
    models: tuple[Model, Model], given: Mapping[str, Any], *, settings: Settings, augment: str
) -> dict[str, Any]:
    """Return everything that the result of a stitch depends on, except rounding, as plain values.

    Args:
        models: the front and the back, identified by name and a digest of their weights.
        given: option -> value; the device as torch has it, which counts by its type.
        settings: those that follow from the options.
        augment: how training images are augmented.
    """
    from sigmascope.measure.batches import fingerprint
    from sigmascope.measure.digests import digest_of_weights
    from sigmascope.runs.request import digests_of
    from sigmascope.store import encode

    sides = dict(zip(("front", "back"), models, strict=True))
    names = {side: model.name for side, model in sides.items()}
    return {
        **names,
        "weights": {
            side: fingerprint([*model.network.parameters(), *model.network.buffers()])
            for side, model in sides.items()
        },
        "digests": {side: digest_of_weights(model.network) for side, model in sides.items()},
        "files": digests_of(list(names.values())),
        **{name: given[name] for name in GIVEN},
        "augment": augment,
        "device": given["device"].type,
        "settings": encode(settings),
    }


def files_for(out: str) -> StitchFiles:
    """Return the files of a stitch, checked before any work.

    Raises:
        UsageError: the name does not end in .json.
        InputError: a directory or the file of something else is in the way.
    """
    from sigmascope.store import kind_of
    from sigmascope.store.files import checked_target

    path = Path(out)
    if path.suffix != ".json":
        raise click.UsageError(f"{out} does not end in .json.")
    checkpoint, lock = (path.with_name(f".{path.stem}.{end}") for end in ("checkpoint", "lock"))
    files = StitchFiles(path, checkpoint, lock)
    for target in (path, files.tensors):
        checked_target(target)
    if path.is_file() and kind_of(path) != "stitch":
        raise InputError(f"{path} exists and is not a stitch file. {REMEDY}")
    if files.tensors.is_file() and files.about() is None:
        raise InputError(
            f"{files.tensors} exists and does not hold the tensors of a stitch. {REMEDY}"
        )
    return files


@dataclass(frozen=True)
class StitchFiles(KeptRun):
    """FILE.json, FILE.safetensors beside it, and a hidden checkpoint until both are written."""

    @property
    def tensors(self) -> Path:
        """The file of the tensors."""
        return self.finished.with_suffix(".safetensors")

    def about(self) -> dict[str, object] | None:
        """Return the values stored with the tensors; None if they are not those of a stitch."""
        from sigmascope.store import read_features

        try:
            _, about = read_features(self.tensors)
        except FileFormatError:
            return None
        return about if {"site", "family"} <= about.keys() else None

    def load(self, identity: Mapping[str, Any]) -> StitchResult | None:
        """Return the finished stitch, or None; tensors alone, after an interruption, are none.

        Raises:
            ResumeError: the files, or the tensors alone, belong to another run.
            FileFormatError: a file is corrupt, or the tensors are missing.
        """
        from sigmascope.stitching import StitchResult

        found = next((path for path in (self.finished, self.tensors) if path.is_file()), None)
        if found is None:
            return None
        if not self.tensors.is_file():
            raise FileFormatError(
                f"{self.tensors}, which belongs to {found}, is missing. Restore it, or remove "
                f"{found} first."
            )
        there = (self.about() or {}).get(IDENTITY)
        if not isinstance(there, dict):
            raise ResumeError(f"{found} does not say which run its stitch belongs to. {REMEDY}")
        check_identity(found, there, identity)
        return StitchResult.load(found) if found == self.finished else None

    def save(self, result: StitchResult, identity: Mapping[str, Any]) -> list[Path]:
        """Write a stitch as `StitchResult.save` does, with its identity; return the files."""
        from sigmascope.stitching.result import KIND, VERSION
        from sigmascope.store import write_paired

        about = {"site": result.site, "family": result.family, IDENTITY: dict(identity)}
        return [write_paired(self.finished, KIND, VERSION, result, about), self.tensors]
