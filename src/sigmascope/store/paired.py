"""Results with tensors: FILE.json, and FILE.safetensors for the field `tensors`."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path

from sigmascope.errors import FileFormatError, InputError
from sigmascope.store.codec import LATER, decode, encode
from sigmascope.store.documents import read_json, write_json
from sigmascope.store.tensors import read_with_digest, write_features

TENSORS = "tensors"


def record_of(result: typing.Any) -> dict[str, object]:
    """Return everything but the tensors of a result as plain values; NaN becomes None."""
    plain = [field.name for field in dataclasses.fields(result) if field.name != TENSORS]
    return {name: encode(getattr(result, name), name) for name in plain}


def write_paired(
    path: str | Path, kind: str, version: int, result: typing.Any, about: Mapping[str, object]
) -> Path:
    """Write both files, each atomically, and return the first, which has the digest of the second.

    Args:
        path: FILE.json.
        kind: of the document.
        version: of its layout.
        result: a dataclass with a field `tensors`, name -> tensor.
        about: plain values to store with the tensors, for those who find them alone.

    Raises:
        InputError: the name does not end in .json.
    """
    target = Path(path)
    if target.suffix != ".json":
        raise InputError(
            f"{path} does not end in .json, which tells it from the tensors beside it."
        )
    beside = target.with_suffix(".safetensors")
    digest = write_features(beside, getattr(result, TENSORS), dict(about))
    write_json(target, kind, version, {**record_of(result), TENSORS: digest})
    return target


def read_paired(path: str | Path, kind: str, version: int, result: type) -> dict[str, typing.Any]:
    """Return the fields of a result; the caller checks the shapes of its tensors.

    Raises:
        FileNotFoundError: one of the two files is missing.
        FileFormatError: corrupt, not a sigmascope file, or newer than this version; or the two
            files were not written together, as after a kill between the two.
    """
    content = read_json(path, kind, version)
    hints = typing.get_type_hints(result)
    del hints[TENSORS]
    # earlier versions wrote no digest of the tensors
    digest = content.pop(TENSORS, "") if isinstance(content, dict) else ""
    there = content if isinstance(content, dict) else {}
    later = _defaults_of_later(result, there)
    if there.keys() | later.keys() != hints.keys():
        raise FileFormatError(f"{path} does not have the keys of a {kind}. Write it again.")
    values = later | {
        name: decode(hints[name], value, f"{path}: {name}") for name, value in there.items()
    }
    beside = Path(path).with_suffix(".safetensors")
    values[TENSORS], _, found = read_with_digest(beside)
    if digest != found:
        raise FileFormatError(
            f"{path} and {beside} do not belong together: writing them was interrupted, or one of "
            f"them was replaced. Restore both from one copy, or write the {kind} again."
        )
    return values


def _defaults_of_later(result: typing.Any, content: Mapping[str, object]) -> dict[str, typing.Any]:
    """Return the values of the fields that files of earlier versions lack."""
    fields = [one for one in dataclasses.fields(result) if LATER in one.metadata]
    return {one.name: one.default for one in fields if one.name not in content}
