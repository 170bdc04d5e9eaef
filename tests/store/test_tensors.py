"""Tensors in files."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import stat
import struct
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from sigmascope.errors import FileFormatError, InputError, InputTypeError, SigmascopeError
from sigmascope.store import read_features, write_features
from sigmascope.store.documents import dump, wrap

INFO: dict[str, object] = {"model": "resnet50", "sites": ["σ"], "eps": 1e-6}


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "double": torch.randn(3, 5, generator=generator, dtype=torch.float64),
        "half": torch.randn(7, generator=generator).half(),
        "brain": torch.randn(2, 2, generator=generator).bfloat16(),
        "whole": torch.arange(4),
        "truth": torch.tensor([True, False]),
        "scalar": torch.tensor(math.nan),
        "empty": torch.zeros(0, 3),
        "σ/名": torch.tensor([math.inf, -0.0]),
    }


def octets(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and octets(left).equal(octets(right))
    )


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.safetensors"
    write_features(path, tensors(), INFO)
    found, info = read_features(path)
    assert info == INFO
    assert found.keys() == tensors().keys()
    assert all(same(found[name], tensor) for name, tensor in tensors().items())
    assert os.listdir(path.parent) == ["a.safetensors"]
    write_features(str(path), {}, {})
    assert read_features(str(path)) == ({}, {})
    # what was read outlives the file
    assert all(same(found[name], tensor) for name, tensor in tensors().items())


def test_views_and_shared_memory(tmp_path: Path) -> None:
    base = torch.randn(4, 6)
    wave = torch.tensor([1 + 2j, 3 - 4j])
    views = {
        "base": base,
        "again": base,
        "transposed": base.T,
        "row": base[1],
        "column": base[:, 2],
        "expanded": base[:1].expand(3, 6),
        "conjugate": wave.conj(),
        "negative": wave[:1].conj().imag,  # one number, so contiguous
        "parameter": torch.nn.Parameter(base),
    }
    write_features(tmp_path / "a", views, {})
    found, _ = read_features(tmp_path / "a")
    assert all(
        same(found[name], tensor.detach().clone().resolve_conj().resolve_neg())
        for name, tensor in views.items()
    )
    assert found["conjugate"].tolist() == [1 - 2j, 3 + 4j]
    assert not any(tensor.requires_grad for tensor in found.values())
    found["base"].zero_()
    assert same(read_features(tmp_path / "a")[0]["base"], base)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_mode_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_features(tmp_path / "a", {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_truncation(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_features(path, tensors(), INFO)
    data = path.read_bytes()
    for length in sorted({*range(0, len(data), 7), *range(20), *range(len(data) - 20, len(data))}):
        path.write_bytes(data[:length])
        with pytest.raises(
            FileFormatError,
            match=r"a is truncated, damaged or not a safetensors file: .*Restore a copy",
        ):
            read_features(path)


@pytest.mark.slow
def test_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    """A flipped byte gives a named error or, among the numbers and names, another value: never
    anything else.
    """
    path = tmp_path / "a"
    write_features(path, tensors(), INFO)
    data = path.read_bytes()
    chance = random.Random(0)
    refused = 0
    for _ in range(400):
        place = chance.randrange(len(data))
        path.write_bytes(
            data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
        )
        try:
            read_features(path)
        except FileFormatError:
            refused += 1
    assert refused > 100


def raw(header: object, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(document: object) -> dict[str, object]:
    return {"__metadata__": {"sigmascope": dump(document).decode()}}


FOREIGN = {
    "empty": (b"", "truncated, damaged or not a safetensors file"),
    "pickle": (pickle.dumps({"a": 1}), "not a safetensors file"),
    "junk": (bytes(range(256)) * 10, "not a safetensors file"),
    "huge header": (struct.pack("<Q", 2**63) + b"{}", "not a safetensors file"),
    "huge tensor": (
        raw({"a": {"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}, bytes(8)),
        "not a safetensors",
    ),
    "beyond the end": (
        raw({"a": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}}, bytes(8)),
        "not a safetensors file",
    ),
    "deep header": (struct.pack("<Q", 10**5) + b"[" * 10**5, "not a safetensors file"),
    "no metadata": (raw({}), "was not written by sigmascope. Pass a features file"),
    "other metadata": (raw({"__metadata__": {"format": "pt"}}), "was not written by sigmascope"),
    "damaged entry": (raw({"__metadata__": {"sigmascope": "{"}}), "has damaged metadata"),
    "NaN": (raw({"__metadata__": {"sigmascope": "NaN"}}), "has damaged metadata: NaN is not JSON"),
    "other format": (raw({"__metadata__": {"sigmascope": "{}"}}), "was not written by sigmascope"),
    "other kind": (
        raw(entry(wrap("scores", 1, {}))),
        "is of kind 'scores'. Pass a file of kind 'features'",
    ),
    "newer": (raw(entry(wrap("features", 2, {}))), "written by a newer sigmascope: .*Upgrade"),
    "no dict": (raw(entry(wrap("features", 1, []))), "has damaged metadata"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    data, match = FOREIGN[name]
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(FileFormatError, match=f"a .*{match}"):
        read_features(tmp_path / "a")


def test_sound_file_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(raw(entry(wrap("features", 1, INFO))))
    assert read_features(tmp_path / "a") == ({}, INFO)
    save_file({"weight": torch.ones(2)}, tmp_path / "b")
    with pytest.raises(FileFormatError, match="was not written by sigmascope"):
        read_features(tmp_path / "b")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        read_features(tmp_path / "missing")
    with pytest.raises(FileFormatError, match="is a directory"):
        read_features(tmp_path)
    with pytest.raises(InputError, match="is a directory"):
        write_features(tmp_path, {}, {})


ONE = torch.ones(2)
UNWRITABLE: dict[str, tuple[object, object, type[SigmascopeError], str]] = {
    "sparse": (
        {"a": ONE.to_sparse()},
        {},
        InputTypeError,
        "'a' is sparse, quantized or without data",
    ),
    "meta": ({"a": ONE.to("meta")}, {}, InputTypeError, "'a' is sparse, quantized or without data"),
    "complex128": (
        {"a": ONE.to(torch.complex128)},
        {},
        InputTypeError,
        "safetensors cannot hold .*complex128.*Convert it first",
    ),
    "number": (
        {"a": 1.0},
        {},
        InputTypeError,
        "'a' is not a tensor with a string name, but a float",
    ),
    "name": ({1: ONE}, {}, InputTypeError, "1 is not a tensor with a string name"),
    "half of a pair": ({"\ud800": ONE}, {}, InputTypeError, "surrogates not allowed"),
    "reserved": ({"__metadata__": ONE}, {}, InputError, "is reserved by safetensors"),
    "NaN": ({"a": ONE}, {"eps": math.nan}, InputError, "not JSON compliant"),
    "info": ({"a": ONE}, [1], InputTypeError, "info must be a dict of plain values, got a list"),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    found, info, error, match = UNWRITABLE[name]
    write_features(tmp_path / "a", {"old": ONE}, INFO)
    with pytest.raises(error, match=match):
        write_features(tmp_path / "a", found, info)  # type: ignore[arg-type]
    assert read_features(tmp_path / "a")[1] == INFO
    assert os.listdir(tmp_path) == ["a"]


def test_failure_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(OSError, match=r"a could not be written: .*No space left"):
        write_features(tmp_path / "a", {"a": ONE}, {})
    assert os.listdir(tmp_path) == []
