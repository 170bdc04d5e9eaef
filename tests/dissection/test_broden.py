"""A small folder in the layout of Broden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from sigmascope.dissection.broden import read_broden
from sigmascope.dissection.dissecting import dissect
from sigmascope.dissection.masks import NONE, pixel_masks
from sigmascope.errors import FileFormatError, InputError, OptionError

SIZE = (4, 6)
LABELS = """number,name,category,frequency,coverage,syns
1,red-c,color(3),3,0.5,
2,blue-c,color(3),3,0.4,
300,tree,object(2);part(1),3,0.2,
5,leaf,part(2),2,0.1,foliage
700,street,scene(1),1,1.0,
9,striped,texture(1),1,1.0,
10,dotted,texture(1),1,1.0,
"""
INDEX = """image,split,ih,iw,sh,sw,color,object,part,scene,texture
a/0.jpg,train,8,12,4,6,a/0_color.png,a/0_object.png,a/0_part_1.png;a/0_part_2.png,700,
a/1.jpg,val,8,12,4,6,a/1_color.png,,,,9;10
a/2.jpg,train,8,12,4,6,a/2_color.png,a/2_object.png,,,
"""


def save_codes(path: Path, codes: np.ndarray) -> None:  # type: ignore[type-arg]
    pixels = np.zeros((*codes.shape, 3), dtype=np.uint8)
    pixels[..., 0], pixels[..., 1] = codes % 256, codes // 256
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "label.csv").write_text(LABELS)
    (tmp_path / "index.csv").write_text(INDEX)
    names = ("color", "object", "part", "scene", "texture")
    (tmp_path / "category.csv").write_text(
        "name,first,last,count,frequency\n" + "".join(f"{name},1,9,1,1\n" for name in names)
    )
    draw = np.random.default_rng(0)
    images = tmp_path / "images" / "a"
    for number in range(3):
        Image.fromarray(draw.integers(0, 255, (8, 12, 3), dtype=np.uint8)).save(
            images / f"{number}.jpg"
        )
        save_codes(images / f"{number}_color.png", draw.integers(1, 3, SIZE))
    for number in (0, 2):
        save_codes(images / f"{number}_object.png", 300 * draw.integers(0, 2, SIZE))
    first = np.array([0, 5, 300])[draw.integers(0, 3, SIZE)]
    save_codes(images / "0_part_1.png", first)
    # overlaps, and repeats what is there
    save_codes(images / "0_part_2.png", np.where(first == 300, 5, first))
    return tmp_path


def codes(folder: Path, name: str) -> Tensor:
    pixels = torch.from_numpy(np.array(Image.open(folder / "images" / "a" / name))).long()
    return pixels[..., 0] + 256 * pixels[..., 1]


def dense(folder: Path) -> tuple[Tensor, dict[str, Tensor], list[tuple[str, str]]]:
    """The same concepts as booleans, written down by hand."""
    everywhere, nowhere = torch.ones(SIZE, dtype=torch.bool), torch.zeros(SIZE, dtype=torch.bool)
    color = [codes(folder, f"{number}_color.png") for number in range(3)]
    thing = [codes(folder, "0_object.png") == 300, nowhere, codes(folder, "2_object.png") == 300]
    part = [codes(folder, f"0_part_{layer}.png") for layer in (1, 2)]
    rows = {
        ("red-c", "color"): [one == 1 for one in color],
        ("blue-c", "color"): [one == 2 for one in color],
        ("tree", "object"): thing,
        ("tree", "part"): [(part[0] == 300) | (part[1] == 300), nowhere, nowhere],
        ("leaf", "part"): [(part[0] == 5) | (part[1] == 5), nowhere, nowhere],
        ("street", "scene"): [everywhere, nowhere, nowhere],
        ("striped", "texture"): [nowhere, everywhere, nowhere],
        ("dotted", "texture"): [nowhere, everywhere, nowhere],
    }
    annotated = {
        "color": torch.tensor([True, True, True]),
        "object": torch.tensor([True, False, True]),
        "part": torch.tensor([True, False, False]),
        "scene": torch.tensor([True, False, False]),
        "texture": torch.tensor([False, True, False]),
    }
    return torch.stack([torch.stack(one) for one in rows.values()], dim=1), annotated, list(rows)


def test_labels_are_read(folder: Path) -> None:
    found = read_broden(folder)
    masks, annotated, names = dense(folder)
    assert [(one.name, one.category) for one in found.masks.concepts] == names
    assert (found.masks.samples, found.masks.size) == (3, SIZE)
    read = found.masks.read(0, 3)
    for place, (_, category) in enumerate(names):
        layers = read[category].labels == place
        assert torch.equal(layers.any(dim=1), masks[:, place])
        assert int(layers.sum(dim=1).max()) <= 1
        assert torch.equal(read[category].annotated, annotated[category])
    assert torch.equal(found.masks.read(1, 2)["color"].labels, read["color"].labels[1:2])


def test_dissection_is_that_of_the_same_masks_by_hand(folder: Path) -> None:
    masks, annotated, names = dense(folder)
    maps = torch.randn(3, 5, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = dissect(maps, read_broden(folder).masks, quantile=0.8)
    by_hand = dissect(maps, pixel_masks(masks, names, annotated=annotated), quantile=0.8)
    assert torch.equal(found.iou, by_hand.iou)
    assert torch.equal(found.tensors["coverage"], by_hand.tensors["coverage"])


def test_images_and_choices(folder: Path) -> None:
    found = read_broden(folder, split="train", categories=["object"])
    assert [path.name for path in found.images] == ["0.jpg", "2.jpg"]
    assert found.pixels(0, 2).shape == (2, 3, 8, 12)
    assert found.image_sizes.tolist() == [[8, 12], [8, 12]]
    assert [one.name for one in found.masks.concepts] == ["tree"]
    assert list(found.masks.read(0, 2)) == ["object"]
    assert read_broden(folder, limit=1).masks.samples == 1


def test_no_label_is_no_concept(folder: Path) -> None:
    save_codes(folder / "images" / "a" / "0_color.png", np.zeros(SIZE, dtype=int))
    assert bool((read_broden(folder).masks.read(0, 1)["color"].labels == NONE).all())


def test_without_a_table_of_categories(folder: Path) -> None:
    (folder / "category.csv").unlink()
    assert read_broden(folder).masks.categories == ("color", "object", "part", "scene", "texture")


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda folder: (folder / "index.csv").unlink(), InputError, "does not exist"),
        (lambda folder: (folder / "label.csv").unlink(), InputError, "does not exist"),
        (
            lambda folder: (folder / "label.csv").write_text("number,name\n"),
            FileFormatError,
            "lists no labels",
        ),
        (edit("index.csv", ",sh,", ",hs,"), FileFormatError, "columns sh are missing"),
        (
            edit("index.csv", "a/2.jpg,train", "a/2.jpg,train,1"),
            FileFormatError,
            "longer or shorter",
        ),
        (edit("index.csv", "12,4,6,a/1", "12,4,7,a/1"), InputError, "must have one size"),
        (
            edit("index.csv", "12,4,6,a/1", "12,4,x,a/1"),
            FileFormatError,
            "sw must be a whole number > 0, got 'x'",
        ),
        (
            edit("index.csv", "a/0_color.png", "../0_color.png"),
            FileFormatError,
            "leads out of images",
        ),
        (edit("index.csv", "a/0_color.png", "a/0.jpg"), FileFormatError, "pixels as in the index"),
        (edit("index.csv", "a/0_color.png", "a/none.png"), FileFormatError, "not a complete image"),
        (edit("index.csv", ",700,", ",701,"), FileFormatError, "does not list label 701 of scene"),
        (
            edit("label.csv", "2,blue-c", "3,blue-c"),
            FileFormatError,
            "does not list label 2 of color",
        ),
        (
            edit("label.csv", "9,striped,texture", "9,striped,color"),
            FileFormatError,
            "does not list label 9 of texture",
        ),
    ],
)
def test_damage_is_named(
    folder: Path, change: Callable[[Path], None], error: type[Exception], message: str
) -> None:
    change(folder)
    with pytest.raises(error, match=message):
        read_broden(folder).masks.read(0, 3)


def test_bad_choices_are_named(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"'colour' is not a valid choice\. Did you mean 'color'"):
        read_broden(folder, categories=["colour"])
    with pytest.raises(
        OptionError, match=r"split='test' is not a valid choice\. Choose from 'train', 'val'"
    ):
        read_broden(folder, split="test")
    with pytest.raises(InputError, match="no row"):
        read_broden(folder, limit=0)
