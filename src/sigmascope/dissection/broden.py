"""Reading a folder in the layout of Broden, the Broadly and Densely Labeled Dataset (Bau et al.
2017).

The folder holds, as the README of the published data set says:

- `index.csv`, one row for each image: `image,split,ih,iw,sh,sw` and a column for each category.
  `image` is a path under `images/`, `ih` × `iw` its height and width, `sh` × `sw` those of its
  label maps. A category's column is empty where the image is not annotated for it; otherwise it
  holds entries separated by semicolons, the dominant one first. An entry is the number of a label
  that holds for the whole image, or the path under `images/` of a map that holds the label of each
  pixel as red + 256 · green, 0 standing for none.
- `label.csv`, with the columns `number` and `name`, and others that are not needed here.
- `category.csv`, with the column `name`: the categories. Without this file they are the columns
    behind `sw`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.dissection.masks import NONE, Concept, LabelMap, Masks
from sigmascope.errors import FileFormatError, InputError, OptionError

__all__ = ["Broden", "read_broden"]

FIXED = ("image", "split", "ih", "iw", "sh", "sw")


@dataclass(frozen=True, eq=False)
class Broden:
    """The rows of an index that were chosen, in order.

    Attributes:
        folder: where it is.
        masks: of the rows.
        images: paths of the images.
        image_sizes: (n, 2), their heights and widths.
    """

    folder: Path
    masks: Masks
    images: tuple[Path, ...] = field(repr=False)
    image_sizes: Tensor = field(repr=False)

    def pixels(self, start: int, stop: int) -> Tensor:
        """Read images, (n, 3, h, w), uint8.

        Raises:
            FileFormatError: a picture that is damaged, or of another size than the first of them.
        """
        found = [
            torch.from_numpy(_picture(path)).permute(2, 0, 1) for path in self.images[start:stop]
        ]
        if len({one.shape for one in found}) > 1:
            raise FileFormatError(
                f"{self.folder}: images from {start} to {stop} differ in size. Read them one "
                "by one."
            )
        return torch.stack(found)


def read_broden(
    folder: str | Path,
    *,
    split: str | None = None,
    categories: Sequence[str] | None = None,
    limit: int | None = None,
) -> Broden:
    """Open a folder in the layout of Broden; the label maps are read when they are asked for.

    A label that occurs in two categories makes two concepts. All rows must have label maps of one
    size, as in the published sets. Only labels that `label.csv` lists may occur.

    Args:
        folder: with `index.csv`.
        split: keep only these rows, such as "train" or "val".
        categories: keep only these.
        limit: keep only so many rows, the first ones.

    Raises:
        InputError: no such folder, or no row is left.
        OptionError: an unknown category or split.
        FileFormatError: an index that is not in this layout; a label that is not listed, or a map
            that is damaged or of another size, when it is read.
    """
    place = Path(folder)
    header, rows = _table(place / "index.csv", FIXED[:1] + FIXED[2:])
    known = _categories(place, header)
    chosen = (
        (categories,)
        if isinstance(categories, str)
        else tuple(known if categories is None else categories)
    )
    for name in chosen:
        if name not in known:
            raise OptionError(
                f"categories: {name!r} is not known. Choose among {', '.join(known)}."
            )
    if split is not None:
        splits = sorted({row.get("split", "") for row in rows})
        if split not in splits:
            raise OptionError(f"split={split!r} is not known. Choose one of {', '.join(splits)}.")
        rows = [row for row in rows if row["split"] == split]
    rows = rows[:limit]
    if not rows:
        raise InputError(
            f"{place / 'index.csv'} has no row that is wanted. Choose another split or limit."
        )
    sizes = torch.tensor([[_whole(row, key, place) for key in FIXED[2:]] for row in rows])
    different = sorted({(row["sh"], row["sw"]) for row in rows})
    if len(different) > 1:
        raise InputError(
            f"{place}: label maps differ in size ({different[0]}, {different[1]}, …). Use a "
            "set of one size."
        )
    labels = _Labels(place, rows, chosen, (int(sizes[0, 2]), int(sizes[0, 3])), _names(place))
    about = f"Broden layout, {', '.join(chosen)}" + (f", split {split}" if split else "")
    masks = Masks(labels.concepts, len(rows), labels.size, labels.read, about)
    return Broden(place, masks, tuple(_inside(place, row["image"]) for row in rows), sizes[:, :2])


class _Labels:
    """Reads the label maps of rows: numbers of labels become places of concepts."""

    def __init__(
        self,
        folder: Path,
        rows: Sequence[Mapping[str, str]],
        categories: Sequence[str],
        size: tuple[int, int],
        names: Mapping[int, tuple[str, frozenset[str]]],
    ) -> None:
        self.size = size
        self._folder, self._rows, self._categories = folder, rows, categories
        found = [
            (number, Concept(name, category))
            for category in categories
            for number, (name, member_of) in names.items()
            if category in member_of or not member_of
        ]
        self.concepts = tuple(concept for _, concept in found)
        self._place = {
            category: np.full(max(names) + 1, NONE, dtype=np.int64) for category in categories
        }
        for place, (number, concept) in enumerate(found):
            self._place[concept.category][number] = place

    def read(self, start: int, stop: int) -> dict[str, LabelMap]:
        rows = self._rows[start:stop]
        return {category: self._category(category, rows) for category in self._categories}

    def _category(self, category: str, rows: Sequence[Mapping[str, str]]) -> LabelMap:
        entries = [[one for one in row[category].split(";") if one] for row in rows]
        depth = max([1, *map(len, entries)])
        labels = np.full((len(rows), depth, *self.size), NONE, dtype=np.int64)
        for number, some in enumerate(entries):
            for layer, entry in enumerate(some):
                found = self._entry(category, entry)
                # What stands at a pixel of an earlier layer already is not counted again.
                again = (labels[number, :layer] == found).any(axis=0)
                labels[number, layer] = np.where(again, NONE, found)
        return LabelMap(torch.from_numpy(labels), torch.tensor([bool(some) for some in entries]))

    def _entry(self, category: str, entry: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        if entry.isdecimal():
            codes = np.full(self.size, int(entry), dtype=np.int64)
        else:
            pixels = _picture(_inside(self._folder, entry)).astype(np.int64)
            codes = pixels[..., 0] + 256 * pixels[..., 1]
            if codes.shape != self.size:
                raise FileFormatError(
                    f"{entry}: {codes.shape} pixels where the index says {self.size}. "
                    "Restore the data set."
                )
        table = self._place[category]
        known = np.where(codes < len(table), table[np.minimum(codes, len(table) - 1)], NONE)
        if bool(((known == NONE) & (codes != 0)).any()):
            code = int(codes[(known == NONE) & (codes != 0)][0])
            raise FileFormatError(
                f"{entry}: label.csv lists no label {code} of {category}. Restore the data set."
            )
        return known


def _names(folder: Path) -> dict[int, tuple[str, frozenset[str]]]:
    """Return number -> name and the categories in which a label occurs, if label.csv says so:
    `object(12);part(3)`.
    """
    header, rows = _table(folder / "label.csv", ("number", "name"))
    found = {}
    for row in rows:
        categories = row.get("category", "") if "category" in header else ""
        member_of = frozenset(one.partition("(")[0] for one in categories.split(";") if one)
        found[_whole(row, "number", folder)] = row["name"], member_of
    if not found:
        raise FileFormatError(
            f"{folder / 'label.csv'} lists no labels. Take it from the data set again."
        )
    return found


def _categories(folder: Path, header: Sequence[str]) -> list[str]:
    behind = [name for name in header if name not in FIXED]
    if not (folder / "category.csv").is_file():
        return behind
    _, rows = _table(folder / "category.csv", ("name",))
    return [row["name"] for row in rows if row["name"] in behind]


def _table(path: Path, wanted: Sequence[str]) -> tuple[list[str], list[dict[str, str]]]:
    if not path.is_file():
        raise InputError(
            f"{path} is not there. Pass the folder that index.csv and label.csv of the data "
            "set are in."
        )
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = list(reader.fieldnames or ())
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileFormatError(
            f"{path}: no table of comma-separated values ({error}). Restore the data set."
        ) from error
    missing = [name for name in wanted if name not in header]
    if missing or any(None in row or None in row.values() for row in rows):
        what = (
            f"the columns {', '.join(missing)} are missing"
            if missing
            else "a row is longer or shorter than the first"
        )
        raise FileFormatError(f"{path}: {what}. Restore the data set.")
    return header, rows


def _whole(row: Mapping[str, str], key: str, folder: Path) -> int:
    if not row[key].isdecimal() or not int(row[key]):
        raise FileFormatError(
            f"{folder}: {key} is {row[key]!r:.40} where a whole number above 0 is wanted. "
            "Restore the data set."
        )
    return int(row[key])


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a picture; a name that leads out of the folder is not followed."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise FileFormatError(
            f"{folder}: the path {name!r:.80} leads out of images/. Restore the data set."
        )
    return folder / "images" / path


def _picture(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a picture (h, w, 3)."""
    from PIL import Image, UnidentifiedImageError  # comes with matplotlib

    try:
        with Image.open(path) as image:
            return np.array(image.convert("RGB"))
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError) as error:
        raise FileFormatError(
            f"{path}: not a complete picture ({error}). Restore the data set."
        ) from error
