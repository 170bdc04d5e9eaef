"""Data of the user: folders of images, files of sentences, and what the package `datasets` opens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sigmascope.catalog.optional import optional
from sigmascope.catalog.sources import Request, Source, picture_of, pictures, sentences
from sigmascope.checks import check_choice
from sigmascope.errors import FileFormatError, InputError, OptionError

__all__ = ["hub", "imagefolder", "textfile"]

# Names of columns that are preferred where several hold text, and what labels are called where
# their type does not tell.
TEXTS, LABELS = ("text", "sentence", "content"), ("label", "labels")


def imagefolder(request: Request) -> Source:
    """Read a folder with one folder of images per class."""
    folder = Path(request.rest)
    if not folder.is_dir():
        raise InputError(
            f"imagefolder:{request.rest} is no folder. Pass a folder with one folder of "
            "images per class."
        )
    image = optional("PIL.Image")
    image.init()
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    found = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).rglob("*"))
        if image.EXTENSION.get(path.suffix.lower()) in image.OPEN and path.is_file()
    ]
    if not found:
        raise InputError(f"{folder} holds no folders with images. Make one per class.")

    return pictures(
        len(found),
        lambda number: picture_of(image, found[number][0]),
        lambda number: found[number][1],
    )


def textfile(request: Request) -> Source:
    """Read a text file with one sentence per line; blank lines are dropped."""
    path = Path(request.rest)
    if not path.is_file():
        raise InputError(
            f"text:{request.rest} is no file. Pass a text file with one sentence per line."
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path}: no text in UTF-8 ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{path} holds no sentence. Write one per line.")
    return sentences(texts)


def hub(request: Request) -> Source:
    """Read a folder that `save_to_disk` of datasets wrote, or a name of the hub, as NAME or
    NAME:CONFIGURATION.

    The first column of images or of text is taken, whichever the transform is for; labels, where
    there are some, come along.
    """
    library = optional("datasets")
    table = _table(library, request)
    columns = {
        "images": [
            name for name, kind in table.features.items() if isinstance(kind, library.Image)
        ],
        "text": [
            name
            for name, kind in table.features.items()
            if getattr(kind, "dtype", "") in ("string", "large_string")
        ],
    }
    columns["text"].sort(key=lambda name: name not in TEXTS)
    gives = next(
        (kind for kind in (request.takes, "images", "text") if kind and columns.get(kind)), None
    )
    if gives is None:
        raise InputError(
            f"hf/{request.rest} has no column of images or text; it has "
            f"{', '.join(table.features)}."
        )
    column = columns[gives][0]
    label = _label(library, table.features)
    if gives == "text":
        return sentences(table[column], None if label is None else table[label])

    def picture(number: int) -> Any:
        found = table[number][column]
        if not hasattr(found, "convert"):
            raise InputError(
                f"hf/{request.rest}: row {number} of {column} holds no picture. Leave such "
                "rows out of the data."
            )
        return found

    return pictures(len(table), picture, None if label is None else lambda n: int(table[n][label]))


def _label(library: Any, features: Mapping[str, Any]) -> str | None:
    typed = [name for name, kind in features.items() if isinstance(kind, library.ClassLabel)]
    named = [
        name
        for name in LABELS
        if str(getattr(features.get(name), "dtype", "")).startswith(("int", "uint"))
    ]
    return next(iter(typed + named), None)


def _table(library: Any, request: Request) -> Any:
    """Open one split."""
    try:
        if (Path(request.rest) / "state.json").is_file() or (
            Path(request.rest) / "dataset_dict.json"
        ).is_file():
            found = library.load_from_disk(request.rest)
        else:
            name, _, configuration = request.rest.partition(":")
            found = library.load_dataset(name, configuration or None)
    except (OSError, ValueError, RuntimeError) as error:
        told = " ".join(str(error).split())
        raise InputError(
            f"the data hf/{request.rest} is not here and cannot be fetched ({told:.300}). "
            "Name a folder that save_to_disk of "
            "datasets wrote, as hf/FOLDER, or a set of the hub, as hf/NAME or "
            "hf/NAME:CONFIGURATION."
        ) from error
    if isinstance(found, Mapping):
        check_choice("split", request.split, found)
        return found[request.split]
    if request.split != "test":
        raise OptionError(
            f"split={request.split!r}: hf/{request.rest} has no splits. Leave split out."
        )
    return found
