"""Folders of images, files of sentences, and sets of the package datasets, which a small stand-in
plays here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import sigmascope as sg
from sigmascope.catalog import Transform, data
from tests.catalog.stubs import stub

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 20, 30), dtype=np.uint8)
PICTURES = [Image.fromarray(one.transpose(1, 2, 0)) for one in IMAGES]
LENGTHS = Transform(
    "text", lambda sentences: {"input_ids": torch.tensor([[len(one)] for one in sentences])}
)
PIXELS = Transform("images", lambda images: images.float())


def test_folders_of_images(tmp_path: Path) -> None:
    for number, picture in enumerate(PICTURES):
        folder = tmp_path / ["cat", "dog"][number // 3]
        folder.mkdir(exist_ok=True)
        picture.save(folder / f"{number}.png")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    ((images, labels),) = data(f"imagefolder:{tmp_path}")
    assert torch.equal(images, torch.from_numpy(IMAGES).float())
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_images_that_differ_in_size(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for side in (8, 9):
        PICTURES[0].resize((side, side)).save(tmp_path / "cat" / f"{side}.png")
    with pytest.raises(sg.InputError, match=r"the images differ in size. Pass transform=model"):
        next(iter(data(f"imagefolder:{tmp_path}")))
    ((images, _),) = data(
        f"imagefolder:{tmp_path}", transform=lambda images: images[..., :8, :8].float()
    )
    assert images.shape == (2, 3, 8, 8)


def test_pictures_that_are_broken_and_folders_named_like_one(tmp_path: Path) -> None:
    (tmp_path / "cat" / "x.png").mkdir(parents=True)
    (tmp_path / "cat" / "notes.pdf").write_bytes(b"%PDF")  # which PIL writes and does not read
    PICTURES[0].save(tmp_path / "cat" / "0.png")
    assert data(f"imagefolder:{tmp_path}").size == 1
    for content in (b"broken", (tmp_path / "cat" / "0.png").read_bytes()[:-500]):
        (tmp_path / "cat" / "1.png").write_bytes(content)
        with pytest.raises(
            sg.FileFormatError,
            match=r"cat/1\.png: not a complete image \(.+\)\. Replace or remove it",
        ):
            next(iter(data(f"imagefolder:{tmp_path}")))


def test_a_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(
        sg.InputError, match=r"contains no directories with images. Pass a directory with one"
    ):
        data(f"imagefolder:{tmp_path}")


def test_a_file_of_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n\n  three \r\n\t\nà côté", encoding="utf-8-sig")
    found = data(f"text:{path}", transform=LENGTHS, batch_size=2)
    assert (found.size, len(found)) == (3, 2)
    assert [batch["input_ids"].tolist() for batch in found] == [[[3], [5]], [[6]]]
    assert data(f"text:{path}", transform=LENGTHS, limit=2).size == 2


def test_sentences_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(
        sg.InputError,
        match=r"which need a tokenizer. Pass transform=model\('hf/FOLDER'\).transform",
    ):
        data(f"text:{tmp_path / 'a.txt'}")


def test_files_that_hold_no_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(
        sg.InputError, match=r"a\.txt is not a file. Pass a text file with one sentence per line"
    ):
        data(f"text:{path}", transform=LENGTHS)
    path.write_text("\n \n")
    with pytest.raises(sg.InputError, match=r"contains no sentence. Write one per line"):
        data(f"text:{path}", transform=LENGTHS)
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(sg.FileFormatError, match=r"not UTF-8 \(.* at byte 3\). Save it as UTF-8"):
        data(f"text:{path}", transform=LENGTHS)


class Feature:
    """The type of a column."""

    def __init__(self, dtype: str = "") -> None:
        self.dtype = dtype


class Picture(Feature):
    """Stands for datasets.Image."""


class Label(Feature):
    """Stands for datasets.ClassLabel."""


class Table:
    """Columns by name and rows by number, as a Dataset has them."""

    def __init__(self, **columns: tuple[Feature, Sequence[Any]]) -> None:
        self.features = {name: feature for name, (feature, _) in columns.items()}
        self._columns = {name: values for name, (_, values) in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, key: str | int) -> Any:
        return (
            self._columns[key]
            if isinstance(key, str)
            else {name: one[key] for name, one in self._columns.items()}
        )


TEXTS = ["a", "bb", "ccc", "d", "ee", "fff"]
TEXT = (Feature("string"), TEXTS)
NAMES = (Feature("string"), ["x"] * 6)
PICTURE = (Picture("PIL.Image.Image"), PICTURES)
LABEL = (Label("int64"), [0, 1, 2, 0, 1, 2])


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Let the package datasets give a table, from the disk and from the hub; return what it was
    asked for.
    """

    def install(found: Any) -> list[tuple[Any, ...]]:
        asked: list[tuple[Any, ...]] = []

        def give(*request: Any) -> Any:
            asked.append(request)
            if isinstance(found, Exception):
                raise found
            return found

        package = stub(
            "datasets", Image=Picture, ClassLabel=Label, load_dataset=give, load_from_disk=give
        )
        monkeypatch.setitem(sys.modules, "datasets", package)
        return asked

    return install


def test_images_of_a_set(serve: Any) -> None:
    serve({"test": Table(id=NAMES, image=PICTURE, label=LABEL), "train": Table(id=NAMES)})
    first, second = data("hf/pets", batch_size=4)
    assert torch.equal(torch.cat([first[0], second[0]]), torch.from_numpy(IMAGES).float())
    assert first[1].tolist() + second[1].tolist() == LABEL[1]


def test_images_without_labels(serve: Any) -> None:
    serve(Table(image=PICTURE))
    ((images,),) = data("hf/pets")
    assert images.shape == (6, 3, 20, 30)


def test_sentences_of_a_set(serve: Any) -> None:
    serve(Table(id=NAMES, sentence=TEXT, label=(Feature("int64"), LABEL[1])))
    (batch,) = data("hf/reviews", transform=LENGTHS)
    assert batch["input_ids"].flatten().tolist() == [1, 2, 3, 1, 2, 3]
    assert batch["labels"].tolist() == LABEL[1]
    serve(Table(question=TEXT, answer=NAMES))
    (batch,) = data("hf/questions", transform=LENGTHS)
    assert {name: value.flatten().tolist() for name, value in batch.items()} == {
        "input_ids": [1, 2, 3, 1, 2, 3]
    }


def test_rows_that_are_empty(serve: Any) -> None:
    serve(Table(text=(Feature("string"), ["a", None])))
    with pytest.raises(
        sg.InputError, match=r"row 1 must be a sentence, got None\. Remove such rows"
    ):
        next(iter(data("hf/reviews", transform=LENGTHS)))
    serve(Table(image=(Picture(), [PICTURES[0], None])))
    with pytest.raises(
        sg.InputError, match=r"hf/pets: row 1 of image is not an image\. Remove such rows"
    ):
        next(iter(data("hf/pets")))


def test_the_transform_chooses_between_images_and_text(serve: Any) -> None:
    serve(Table(caption=TEXT, image=PICTURE))
    assert set(next(iter(data("hf/captions", transform=LENGTHS)))) == {"input_ids"}
    for transform in (PIXELS, None):
        assert next(iter(data("hf/captions", transform=transform)))[0].shape == (6, 3, 20, 30)


def test_where_a_set_is_looked_for(serve: Any, tmp_path: Path) -> None:
    asked = serve(Table(image=PICTURE))
    data("hf/pets")
    data("hf/org/pets:small")
    (tmp_path / "state.json").touch()
    data(f"hf/{tmp_path}")
    assert asked == [("pets", None), ("org/pets", "small"), (str(tmp_path),)]


def test_the_split_is_one_of_the_set(serve: Any) -> None:
    serve({"train": Table(image=PICTURE), "validation": Table(image=PICTURE)})
    with pytest.raises(
        sg.OptionError,
        match=r"split='test' is not a valid choice. Choose from 'train', 'validation'",
    ):
        data("hf/pets")
    assert data("hf/pets", split="validation").size == 6
    serve(Table(image=PICTURE))
    assert data("hf/pets").size == 6
    with pytest.raises(
        sg.OptionError, match=r"split='val': hf/pets has no splits\. Leave split out"
    ):
        data("hf/pets", split="val")


@pytest.mark.parametrize(
    "error", [ConnectionError("no route"), FileNotFoundError("no route"), RuntimeError("no route")]
)
def test_a_set_that_cannot_be_fetched(serve: Any, error: Exception) -> None:
    serve(error)
    with pytest.raises(
        sg.InputError,
        match=r"hf/pets is not on this .* downloaded \(no route\). .*save_to_disk.*as "
        r"hf/FOLDER",
    ):
        data("hf/pets")


def test_sets_that_do_not_fit(serve: Any) -> None:
    serve(Table(age=(Feature("int64"), [1, 2]), size=(Feature("float64"), [1.0, 2.0])))
    with pytest.raises(
        sg.InputError, match=r"hf/people has no column of images or text; it has age, size\.$"
    ):
        data("hf/people")
    serve(Table(image=PICTURE))
    with pytest.raises(sg.InputError, match="hf/pets gives images, and the network takes text"):
        data("hf/pets", transform=LENGTHS)
