"""JSON files that say what they are, written and read strictly."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections import Counter

from sigmascope.errors import FileFormatError, InputError
from sigmascope.store.digests import digest_of
from sigmascope.store.files import LIMIT, Location, read_bytes, write_atomic
from sigmascope.store.limits import check_content, check_number

FORMAT = "sigmascope"
LARGEST = 2**64 - 1  # holds every seed and size; other JSON readers disagree on larger numbers
# How a document begins; the rest of other files is not read, whatever their size.
OPENING = re.compile(rb'\s*\{\s*"format"\s*:\s*"sigmascope"\s*,\s*"kind"\s*:\s*"([\w-]+)"')
OPENING_LENGTH = 256
DIGEST = "digest"  # the entry of a document with the digest of the others
EDITED = f"Restore a copy or write it again. To accept it as it is, remove its {DIGEST!r} entry."
SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)  # perhaps without its partner


def write_json(path: Location, kind: str, version: int, content: object) -> None:
    """Write `content` as a JSON document of a kind and version, atomically.

    Args:
        path: the file.
        kind: what the content is, such as "signature".
        version: of this kind's layout, increased when older readers would misread it.
        content: dicts with string keys, lists, strings, booleans, None, finite floats and integers
            of at most 64 bits; see `encode` for dataclasses.

    Raises:
        InputError: content that would not be read back unchanged; a path that is a directory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(f"{folder}/a.json", "scores", 1, {"relu": 0.62})
    ...     read_json(f"{folder}/a.json", "scores", 1)
    {'relu': 0.62}
    """
    document = wrap(kind, version, content)
    write_atomic(path, dump(document, indent=1, sealing=True) + b"\n")


def read_json(path: Location, kind: str, version: int, *, oldest: int | None = None) -> object:
    """Return the content of a document that `write_json` wrote.

    Args:
        path: the file.
        kind: what it must be.
        version: the layout that the caller understands.
        oldest: the first version that it understands too; by default only `version`.

    Raises:
        FileFormatError: corrupt, edited, not a sigmascope file, of another kind or version, too
            large, or not strict JSON: NaN and Infinity, numbers out of range, a key that occurs
            twice, an unpaired surrogate, nesting too deep. Files of earlier versions have no digest
            that tells whether they were edited.
        FileNotFoundError: there is no such file.
    """
    data = read_bytes(path)
    try:
        document = parse(data)
    except ValueError as error:
        raise FileFormatError(
            f"{path} is truncated, damaged or not a JSON file of sigmascope: {error}. "
            "Restore a copy or write it again."
        ) from error
    return unwrap(document, str(path), kind, version, oldest=oldest)


def kind_of(path: Location) -> str:
    """Return the kind of a document from its first bytes; "" if sigmascope did not write it."""
    with open(path, "rb") as file:
        opening = OPENING.match(file.read(OPENING_LENGTH))
    return opening[1].decode() if opening else ""


def wrap(kind: str, version: int, content: object) -> dict[str, object]:
    """Return a document: the content and what it is."""
    return {"format": FORMAT, "kind": kind, "version": version, "content": content}


def sealed(document: dict[str, object]) -> dict[str, object]:
    """Return a document with the digest of everything in it, in front of the content.

    >>> [*sealed(wrap("scores", 1, [0.5]))]
    ['format', 'kind', 'version', 'digest', 'content']
    """
    *opening, content = document.items()
    return dict([*opening, (DIGEST, digest_of(document)), content])


def unwrap(
    document: object,
    source: str,
    kind: str,
    version: int,
    *,
    oldest: int | None = None,
    remedy: str = EDITED,
) -> object:
    """Return the content of a document, if it is of this kind and version, or one from `oldest` on.

    Raises:
        FileFormatError: it is not, or does not match its digest; the message names the `source`,
            and for the digest the `remedy`.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(f"{source} was not written by sigmascope. Pass a {kind} file.")
    if document.get("kind") != kind:
        other = reprlib.repr(document.get("kind"))
        raise FileFormatError(f"{source} is of kind {other}. Pass a file of kind {kind!r}.")
    found = document.get("version")
    if type(found) is int and found > version:
        raise FileFormatError(
            f"{source} was written by a newer sigmascope: {kind} version {found}, this one "
            f"reads {version}. Upgrade sigmascope."
        )
    if type(found) is not int or found < (version if oldest is None else oldest):
        raise FileFormatError(
            f"{source} has {kind} version {reprlib.repr(found)}, this sigmascope reads "
            f"{version}. Write it again."
        )
    entries = {name: value for name, value in document.items() if name != DIGEST}
    if entries.keys() != wrap(kind, version, None).keys():
        raise FileFormatError(
            f"{source} has the keys {reprlib.repr(sorted(document))}: it is damaged. Write it "
            "again."
        )
    if DIGEST in document and document[DIGEST] != digest_of(entries):
        raise FileFormatError(
            f"{source} does not match its digest: it is damaged, or was edited. {remedy}"
        )
    return document["content"]


def dump(value: object, indent: int | None = None, *, sealing: bool = False) -> bytes:
    """Return plain values as JSON that `parse` turns back into the same values.

    Args:
        value: as the content of `write_json`.
        indent: spaces per level, with one value per line; None for a single line.
        sealing: whether to add the digest of this document.

    Raises:
        InputError: it would not come back unchanged: NaN, a key that is not a string, a tuple, an
            object of another type.

    >>> dump({"score": 0.5, "sites": [1, 2]})
    b'{"score": 0.5, "sites": [1, 2]}'
    """
    try:
        if sealing and isinstance(value, dict):
            value = sealed(value)
        data = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent).encode()
        unchanged = parse(data) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"This cannot be written as JSON: {error}. Pass plain values, or dataclasses "
            "through encode()."
        ) from error
    if not unchanged:
        raise InputError(
            "This cannot be written as JSON: tuples, or keys that are not strings, would come back "
            "changed."
        )
    if len(data) > LIMIT:
        raise InputError(
            f"This cannot be written as JSON: it has {len(data)} bytes, the limit is {LIMIT}."
        )
    return data


def parse(data: bytes) -> object:
    """Return the value of strict UTF-8 JSON, rejecting what Python's reader accepts beyond it.

    Raises:
        ValueError: saying why, for callers that know the name of the file.

    >>> parse(b'{"score": NaN}')
    Traceback (most recent call last):
    ValueError: NaN is not JSON
    """
    check_content(data)
    text = data.decode()
    try:
        value: object = json.loads(
            text,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
        if SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _whole(text: str) -> int:
    if len(text) > len(f"-{LARGEST}") or abs(int(text)) > LARGEST:
        raise ValueError(f"the integer {reprlib.repr(text)} has more than 64 bits")
    return int(text)


def _finite(text: str) -> float:
    check_number(text)
    if not math.isfinite(float(text)):
        raise ValueError(f"the number {reprlib.repr(text)} is out of range")
    return float(text)


def _refuse_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {reprlib.repr(name)} occurs twice")
    return found
