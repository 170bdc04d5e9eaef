"""Tensors in a safetensors file that says what it is; nothing in it can run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sigmascope.errors import FileFormatError, InputError, InputTypeError
from sigmascope.store.digests import digest_of, digest_of_tensors
from sigmascope.store.documents import dump, parse, unwrap, wrap
from sigmascope.store.files import Location, check_source, replacing

if TYPE_CHECKING:
    from torch import Tensor

KIND, VERSION = "features", 1
ENTRY = "sigmascope"  # of the file's metadata
RESERVED = "__metadata__"  # by safetensors
# In bytes. It names 100,000 tensors, and takes up to 20 times the memory.
LONGEST_HEADER = 8 * 2**20


def write_features(path: Location, tensors: Mapping[str, Tensor], info: dict[str, object]) -> str:
    """Write named tensors and a few plain values about them, atomically; return their digest.

    Args:
        path: the file.
        tensors: dense tensors of any shape, on any device. They are read back on the CPU, without
            gradient.
        info: plain values, as `write_json` takes.

    Raises:
        InputTypeError: not dense tensors with string names, or of a dtype that safetensors cannot
            hold.
        InputError: info that JSON cannot hold; a reserved name; a path that is a directory.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/a.safetensors"
    ...     _ = write_features(path, {"relu": torch.ones(2)}, {"model": "tiny"})
    ...     read_features(path)
    ({'relu': tensor([1., 1.])}, {'model': 'tiny'})
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    if not isinstance(info, dict):
        raise InputTypeError(f"info must be a dict of plain values, got a {type(info).__name__}.")
    entry = dump(wrap(KIND, VERSION, info)).decode()
    storable = _storable(tensors)
    digest = digest_of_tensors(storable)
    # in one entry, since safetensors writes several in any order
    metadata = {ENTRY: f"{entry}\n{digest_of(entry, digest)}"}
    # safetensors writes to a file with a name of its own, and then renames that
    with replacing(path, apart=True) as temporary:
        try:
            save_file(storable, temporary, metadata=metadata)
        except SafetensorError as error:
            raise OSError(f"{path} could not be written: {error}") from error
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise InputTypeError(
                f"safetensors cannot hold one of these tensors: {error}. Convert it first."
            ) from error
    return digest


def read_features(path: Location) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Return the tensors that `write_features` wrote, on the CPU, and the values about them.

    Raises:
        FileFormatError: corrupt, not a sigmascope file, or newer than this version.
        FileNotFoundError: there is no such file.
    """
    tensors, info, _ = read_with_digest(path)
    return tensors, info


def read_with_digest(path: Location) -> tuple[dict[str, Tensor], dict[str, object], str]:
    """Return what `read_features` does, and the digest that `write_features` returned.

    The digest is "" for files of earlier versions, which have none.
    """
    from safetensors import safe_open

    with readable(path), safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        entry, sealed, seal = metadata.get(ENTRY, "").partition("\n")
        info = _info(entry, str(path))
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if not sealed and metadata.keys() == {ENTRY}:
        return tensors, info, ""
    digest = digest_of_tensors(tensors)
    if metadata.keys() != {ENTRY} or seal != digest_of(entry, digest):
        raise FileFormatError(
            f"{path} does not match its digest: it is damaged. Restore a copy or write it again."
        )
    return tensors, info, digest


def read_info(path: Location) -> dict[str, object]:
    """Return the plain values of a file alone; the tensors are neither read nor checked.

    Raises:
        FileFormatError: corrupt, not a sigmascope file, or newer than this version.
        FileNotFoundError: there is no such file.
    """
    from safetensors import safe_open

    with readable(path), safe_open(path, framework="pt") as file:
        entry = (file.metadata() or {}).get(ENTRY, "").partition("\n")[0]
        return _info(entry, str(path))


@contextmanager
def readable(path: Location) -> Iterator[None]:
    """Turn what goes wrong while a safetensors file is read into an error that names it.

    Raises:
        FileFormatError: not a safetensors file, incomplete, or with a header that is too long.
        FileNotFoundError: there is no such file.
    """
    check_source(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
    size = os.path.getsize(path)
    try:
        if LONGEST_HEADER < length <= size:
            raise ValueError(f"its header has {length} bytes, the limit is {LONGEST_HEADER}")
        yield
    except (OSError, FileFormatError):
        raise
    except Exception as error:  # of safetensors and of torch, by what is damaged
        raise FileFormatError(
            f"{path} is truncated, damaged or not a safetensors file: {error}. Restore a "
            "copy or write it again."
        ) from error


def _storable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of what safetensors would reject or, as a lazy conjugate, store wrongly."""
    import torch

    found: dict[str, Tensor] = {}
    storages = set()
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise InputTypeError(
                f"{name!r} is not a tensor with a string name, but a {type(tensor).__name__}."
            )
        if name == RESERVED:
            raise InputError(f"The name {name!r} is reserved by safetensors. Choose another.")
        if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
            raise InputTypeError(
                f"{name!r} is sparse, quantized or without data. Make it dense first."
            )
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        storage = plain.untyped_storage().data_ptr()
        found[name] = plain.clone() if storage in storages else plain
        storages.add(storage)
    return found


def _info(entry: str, source: str) -> dict[str, object]:
    if not entry:
        raise FileFormatError(f"{source} was not written by sigmascope. Pass a {KIND} file.")
    try:
        document = parse(entry.encode())
    except ValueError as error:
        raise FileFormatError(
            f"{source} has damaged metadata: {error}. Restore a copy or write it again."
        ) from error
    info = unwrap(document, source, KIND, VERSION)
    if not isinstance(info, dict):
        raise FileFormatError(f"{source} has damaged metadata. Restore a copy or write it again.")
    return info
