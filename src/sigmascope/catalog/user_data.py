"""The user's data: directories of images, files of sentences, and what `datasets` opens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sigmascope.catalog.data_source import Request, Source, picture_of, pictures, sentences
from sigmascope.catalog.optional import one_line, optional
from sigmascope.checks import check_choice
from sigmascope.errors import FileFormatError, InputError, OptionError

# Names of columns preferred among several of text, and of labels whose type does not tell.
TEXTS, LABELS = ("text", "sentence", "content"), ("label", "labels")


def imagefolder(request: Request) -> Source:
    """Return the images of a directory that has one directory per class."""
    folder = Path(request.rest)
    remedy = "Pass a directory with one directory of images per class."
    if not folder.is_dir():
        raise InputError(f"imagefolder:{request.rest} is not a directory. {remedy}")
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
        raise InputError(f"{folder} contains no directories with images. {remedy}")

    def picture(number: int) -> Any:
        return picture_of(image, found[number][0])

    return pictures(len(found), picture, lambda number: found[number][1])


def textfile(request: Request) -> Source:
    """Return the sentences of a text file, one per line, without blank lines."""
    path = Path(request.rest)
    if not path.is_file():
        raise InputError(
            f"text:{request.rest} is not a file. Pass a text file with one sentence per line."
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path}: not UTF-8 ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{path} contains no sentence. Write one per line.")
    return sentences(texts)


def hub(request: Request) -> Source:
    """Return data of `datasets`: a directory written by `save_to_disk`, NAME or NAME:CONFIGURATION.

    The first column of images or of text is used, whichever the transform takes, with labels where
    there are any.
    """
    library = optional("datasets")
    table, name = _table(library, request), f"hf/{request.rest}"
    columns = _columns(library, table.features)
    preferred = (request.takes, "images", "text")
    gives = next((kind for kind in preferred if kind and columns.get(kind)), None)
    if gives is None:
        listing = ", ".join(table.features)
        raise InputError(f"{name} has no column of images or text; it has {listing}.")
    column = columns[gives][0]
    label = _label(library, table.features)
    if gives == "text":
        return sentences(table[column], None if label is None else table[label])

    def picture(number: int) -> Any:
        found = table[number][column]
        if not hasattr(found, "convert"):
            raise InputError(f"{name}: row {number} of {column} is not an image. Remove such rows.")
        return found

    return pictures(len(table), picture, None if label is None else lambda n: int(table[n][label]))


def _columns(library: Any, features: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the columns of images and of text, the preferred ones first."""
    images = [name for name, kind in features.items() if isinstance(kind, library.Image)]
    strings = ("string", "large_string")
    texts = [name for name, kind in features.items() if getattr(kind, "dtype", "") in strings]
    return {"images": images, "text": sorted(texts, key=lambda name: name not in TEXTS)}


def _label(library: Any, features: Mapping[str, Any]) -> str | None:
    typed = [name for name, kind in features.items() if isinstance(kind, library.ClassLabel)]
    kinds = {name: str(getattr(features.get(name), "dtype", "")) for name in LABELS}
    named = [name for name, kind in kinds.items() if kind.startswith(("int", "uint"))]
    return next(iter(typed + named), None)


def _table(library: Any, request: Request) -> Any:
    """Return one split."""
    folder = Path(request.rest)
    try:
        if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
            found = library.load_from_disk(request.rest)
        else:
            name, _, configuration = request.rest.partition(":")
            found = library.load_dataset(name, configuration or None)
    except Exception as error:  # of datasets and its readers, by what is damaged
        raise InputError(
            f"hf/{request.rest} is not on this machine and cannot be downloaded "
            f"({one_line(error, 300)}). Pass a directory written by save_to_disk of datasets, as "
            "hf/FOLDER, or a data set of the hub, as hf/NAME or hf/NAME:CONFIGURATION."
        ) from error
    if isinstance(found, Mapping):
        return found[check_choice("split", request.split, found)]
    if request.split != "test":
        raise OptionError(
            f"split={request.split!r}: hf/{request.rest} has no splits. Leave split out."
        )
    return found
