"""Masks from a directory in the layout of Broden (Bau et al., CVPR 2017, arXiv:1704.05796).

As the README of the published data set says, the directory holds:

- `index.csv`, one row for each image: `image,split,ih,iw,sh,sw` and a column for each category.
  `image` is a path under `images/`, `ih` × `iw` its height and width, `sh` × `sw` those of its
  label maps. The column of a category is empty if the image is not annotated for it; otherwise it
  holds entries separated by semicolons, the dominant one first. An entry is the number of a label
  of the whole image, or the path under `images/` of a map with the label of each pixel as
  red + 256 · green, 0 for none.
- `label.csv`, with the columns `number` and `name`, and others that are not needed here.
- `category.csv`, with the column `name`: the categories. Without it they are the columns after
  `sw`.
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

from sigmascope.checks import check_choice
from sigmascope.dissection.masks import NONE, Concept, LabelMap, Masks
from sigmascope.errors import FileFormatError, InputError

FIXED = ("image", "split", "ih", "iw", "sh", "sw")


@dataclass(frozen=True, eq=False)
class Broden:
    r"""The selected rows of an index, in order.

    Attributes:
        folder: the directory.
        masks: of the rows.
        images: paths of the images.
        image_sizes: (n, 2), their heights and widths.

    >>> import tempfile
    >>> from sigmascope.dissection import read_broden
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "label.csv").write_text("number,name\n7,street\n")
    ...     _ = Path(folder, "index.csv").write_text(
    ...         "image,split,ih,iw,sh,sw,scene\na.jpg,train,8,8,4,4,7\n"
    ...     )
    ...     found = read_broden(folder)
    >>> found.image_sizes.tolist(), found.masks.concepts
    ([[8, 8]], (Concept(name='street', category='scene'),))
    """

    folder: Path
    masks: Masks
    images: tuple[Path, ...] = field(repr=False)
    image_sizes: Tensor = field(repr=False)

    def pixels(self, start: int, stop: int) -> Tensor:
        """Return images of one size, from start to before stop, (n, 3, h, w), uint8."""
        pictures = [
            torch.from_numpy(_picture(path)).permute(2, 0, 1) for path in self.images[start:stop]
        ]
        if len({picture.shape for picture in pictures}) > 1:
            raise FileFormatError(
                f"{self.folder}: images {start} to {stop} differ in size. Read them one by one."
            )
        return torch.stack(pictures)


def read_broden(
    folder: str | Path,
    *,
    split: str | None = None,
    categories: Sequence[str] | None = None,
    limit: int | None = None,
) -> Broden:
    r"""Return the masks and images of a directory in the layout of Broden, read on demand.

    A label in two categories makes two concepts. All rows must have label maps of one size, as in
    the published sets, with labels that `label.csv` lists.

    Args:
        folder: the directory with `index.csv`.
        split: of the rows to keep, such as "train" or "val"; all by default.
        categories: to keep; all by default.
        limit: the number of rows to keep, the first ones.

    Raises:
        InputError: no such directory, or no rows left.
        OptionError: an unknown category or split.
        FileFormatError: an index in another layout; on reading, a label that is not listed, or a
            map that is corrupt or of another size.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "label.csv").write_text("number,name\n7,street\n8,kitchen\n")
    ...     _ = Path(folder, "index.csv").write_text(
    ...         "image,split,ih,iw,sh,sw,scene\na.jpg,train,8,8,4,4,7\nb.jpg,val,8,8,4,4,8\n"
    ...     )
    ...     found = read_broden(folder, split="val")
    >>> found.masks.size, found.images[0].name
    ((4, 4), 'b.jpg')
    """
    place = Path(folder)
    header, rows = _table(place / "index.csv", FIXED[:1] + FIXED[2:])
    known = _categories(place, header)
    wanted = known if categories is None else categories
    named = [wanted] if isinstance(wanted, str) else wanted
    chosen = [check_choice("categories", name, known) for name in named]
    if split is not None:
        check_choice("split", split, sorted({row.get("split", "") for row in rows}))
        rows = [row for row in rows if row["split"] == split]
    rows = rows[:limit]
    if not rows:
        raise InputError(f"{place / 'index.csv'} has no rows left. Choose another split or limit.")
    sizes = torch.tensor([[_whole(row, key, place) for key in FIXED[2:]] for row in rows])
    different = sorted({(row["sh"], row["sw"]) for row in rows})
    if len(different) > 1:
        raise InputError(
            f"{place}: label maps must have one size, got {different[0]}, {different[1]}, …. "
            "Select rows of one size with split or limit."
        )
    labels = _Labels(place, rows, chosen, (int(sizes[0, 2]), int(sizes[0, 3])), _names(place))
    about = f"Broden layout, {', '.join(chosen)}" + (f", split {split}" if split else "")
    masks = Masks(labels.concepts, len(rows), labels.size, labels.read, about)
    return Broden(place, masks, tuple(_inside(place, row["image"]) for row in rows), sizes[:, :2])


class _Labels:
    """Reads the label maps of rows, with places of concepts instead of numbers of labels."""

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
        concepts = [
            (number, Concept(name, category))
            for category in categories
            for number, (name, member_of) in names.items()
            if category in member_of or not member_of
        ]
        self.concepts = tuple(concept for _, concept in concepts)
        self._place = {
            category: np.full(max(names) + 1, NONE, dtype=np.int64) for category in categories
        }
        for place, (number, concept) in enumerate(concepts):
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
                values = self._entry(category, entry)
                # A concept in an earlier layer of a pixel is not counted again.
                again = (labels[number, :layer] == values).any(axis=0)
                labels[number, layer] = np.where(again, NONE, values)
        return LabelMap(torch.from_numpy(labels), torch.tensor([bool(some) for some in entries]))

    def _entry(self, category: str, entry: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        if entry.isdecimal():
            codes = np.full(self.size, int(entry), dtype=np.int64)
        else:
            pixels = _picture(_inside(self._folder, entry)).astype(np.int64)
            codes = pixels[..., 0] + 256 * pixels[..., 1]
            if codes.shape != self.size:
                raise _corrupt(
                    entry, f"expected {self.size} pixels as in the index, got {codes.shape}"
                )
        table = self._place[category]
        known = np.where(codes < len(table), table[np.minimum(codes, len(table) - 1)], NONE)
        unknown = codes[(known == NONE) & (codes != 0)]
        if len(unknown):
            raise _corrupt(entry, f"label.csv does not list label {unknown[0]} of {category}")
        return known


def _names(folder: Path) -> dict[int, tuple[str, frozenset[str]]]:
    """Return number -> name and categories of a label, if label.csv has them: `object(12)`."""
    header, rows = _table(folder / "label.csv", ("number", "name"))
    names = {}
    for row in rows:
        categories = row.get("category", "") if "category" in header else ""
        member_of = frozenset(one.partition("(")[0] for one in categories.split(";") if one)
        names[_whole(row, "number", folder)] = row["name"], member_of
    if not names:
        raise _corrupt(folder / "label.csv", "it lists no labels")
    return names


def _categories(folder: Path, header: Sequence[str]) -> list[str]:
    behind = [name for name in header if name not in FIXED]
    if not (folder / "category.csv").is_file():
        return behind
    _, rows = _table(folder / "category.csv", ("name",))
    return [row["name"] for row in rows if row["name"] in behind]


def _table(path: Path, wanted: Sequence[str]) -> tuple[list[str], list[dict[str, str]]]:
    if not path.is_file():
        raise InputError(f"{path} does not exist. Pass the directory of index.csv and label.csv.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = list(reader.fieldnames or ())
    except (csv.Error, UnicodeDecodeError) as error:
        raise _corrupt(path, f"not a table of comma-separated values ({error})") from error
    missing = [name for name in wanted if name not in header]
    if missing:
        raise _corrupt(path, f"the columns {', '.join(missing)} are missing")
    if any(None in row or None in row.values() for row in rows):
        raise _corrupt(path, "a row is longer or shorter than the first")
    return header, rows


def _whole(row: Mapping[str, str], key: str, folder: Path) -> int:
    if not row[key].isdecimal() or not int(row[key]):
        raise _corrupt(folder, f"{key} must be a whole number > 0, got {row[key]!r:.40}")
    return int(row[key])


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a picture; raise if it leads out of the directory."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise _corrupt(folder, f"the path {name!r:.80} leads out of images/")
    return folder / "images" / path


def _picture(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a picture (h, w, 3)."""
    from PIL import Image  # comes with matplotlib

    try:
        with Image.open(path) as image:
            return np.array(image.convert("RGB"))
    except Exception as error:  # each format of PIL raises errors of its own
        raise _corrupt(path, f"not a complete image ({error})") from error


def _corrupt(place: object, what: str) -> FileFormatError:
    return FileFormatError(f"{place}: {what}. Restore the data set.")
