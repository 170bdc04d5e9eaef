"""Dataclasses as plain values and back, by their type hints."""

from __future__ import annotations

import dataclasses
import functools
import math
import reprlib
import types
import typing
from collections.abc import Iterator, Sequence

from sigmascope.checks import renamed
from sigmascope.errors import FileFormatError, InputError, InputTypeError
from sigmascope.store.plain import NotPlainError, reader_of

T = typing.TypeVar("T")
Hint = typing.Any  # type[...], tuple[X, ...], X | None: the annotation of a field

LEAF, OPTIONAL = "leaf", "optional"
# Metadata of a field: its name in older files, or the names that it now holds as one record;
# whether older files lack it: True if its default holds for them, otherwise the value that does.
FORMERLY, LATER = "formerly", "later"
LEAVES = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    types.NoneType: "nothing",
}


def encode(value: object, where: str = "content") -> object:
    """Return plain values that JSON can hold and `decode` turns back into the same value.

    A dataclass becomes a dict, a tuple a list, NaN becomes None.

    Args:
        value: a dataclass whose fields are str, int, float, bool, None, dataclasses, or list[X],
            tuple[X, ...], tuple[X, Y], dict[str, X] and X | None of these; or one of those itself,
            with items encoded by their own types.
        where: what to call it in messages.

    Raises:
        InputTypeError: a field does not hold what its hint says, or the hint is none of these.
        InputError: an infinite number; NaN in a field that may be None, since both would be read
            back as None.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Site:
    ...     name: str
    ...     scores: tuple[float, ...]
    >>> encode(Site("relu", (0.5, math.nan)))
    {'name': 'relu', 'scores': [0.5, None]}
    """
    if isinstance(value, list | tuple):
        return [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        _check_keys(value, where, InputTypeError)
        return {name: encode(item, f"{where}.{name}") for name, item in value.items()}
    return _encode(type(value), value, where)


def decode(kind: type[T], data: object, where: str = "content") -> T:
    """Return the value of this kind that `encode` turned into plain values.

    Args:
        kind: a dataclass, or any hint that `encode` lists.
        data: plain values, as `read_json` returns.
        where: what to call them in messages.

    Raises:
        FileFormatError: a key is missing or unknown, or a value is of the wrong type or rejected by
            the dataclass; the message says where.
        InputTypeError: the kind is none that `encode` lists.

    >>> decode(tuple[float, ...], [0.5, None])
    (0.5, nan)
    >>> decode(dict[str, int], {"n": 0.5})
    Traceback (most recent call last):
    sigmascope.errors.FileFormatError: content.n: expected a whole number, found 0.5
    """
    hint: Hint = kind
    try:
        found = reader_of(hint)(data)
    except NotPlainError:  # to be read in full, which also says what is wrong and where
        found = _decode(kind, data, where)
    return typing.cast(T, found)


def _encode(hint: Hint, value: typing.Any, where: str) -> object:
    shape, inner = _opened(hint, where)
    if shape is OPTIONAL:
        encoded = None if value is None else _encode(inner[0], value, where)
        if encoded is None and value is not None:
            raise InputError(
                f"{where}: NaN would be read back as None. Use None, or a hint without None."
            )
        return encoded
    if shape is LEAF:
        return _encode_leaf(hint, value, where)
    if not _is_exactly(value, shape):  # a subclass would come back as its base
        raise _unlike(InputTypeError, where, shape.__name__, value)
    if shape in (list, tuple):
        return [_encode(*item) for item in _items(inner, value, where, InputTypeError)]
    if shape is dict:
        _check_keys(value, where, InputTypeError)
        return {name: _encode(inner[1], item, f"{where}.{name}") for name, item in value.items()}
    return {
        name: _encode(hint, getattr(value, name), f"{where}.{name}")
        for name, hint in _fields(shape).items()
    }


def _encode_leaf(hint: Hint, value: object, where: str) -> object:
    leaf = _leaf(hint, value, where, InputTypeError)
    if not isinstance(leaf, float) or math.isfinite(leaf):
        return leaf
    if math.isnan(leaf):
        return None
    raise InputError(
        f"{where}: {reprlib.repr(value)} is infinite, which JSON cannot hold. Use a finite number "
        "or NaN."
    )


def _decode(hint: Hint, data: typing.Any, where: str) -> object:
    shape, inner = _opened(hint, where)
    if shape is OPTIONAL:
        return None if data is None else _decode(inner[0], data, where)
    if shape is LEAF:
        return _decode_leaf(hint, data, where)
    if shape in (list, tuple):
        if not isinstance(data, list):
            raise _unlike(FileFormatError, where, "a list", data)
        return shape(_decode(*item) for item in _items(inner, data, where, FileFormatError))
    if shape is dict:
        _check_keys(data, where, FileFormatError)
        return {name: _decode(inner[1], item, f"{where}.{name}") for name, item in data.items()}
    return _decode_record(shape, data, where)


def _current(kind: Hint, data: dict[str, object]) -> dict[str, object]:
    """Return stored fields under their present names, with the defaults of those added since."""
    data = renamed(data, (field.name for field in dataclasses.fields(kind)))
    for field in dataclasses.fields(kind):
        old, later = field.metadata.get(FORMERLY), field.metadata.get(LATER)
        if field.name in data:
            continue
        if isinstance(old, tuple) and data.keys() >= {*old}:
            data[field.name] = {name: data.pop(name) for name in old}
        elif isinstance(old, str) and old in data:
            data[field.name] = data.pop(old)
        elif LATER in field.metadata:
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            data[field.name] = encode(default if later is True else later)
    return data


def _decode_record(kind: Hint, data: object, where: str) -> object:
    hints = _fields(kind)
    if not isinstance(data, dict):
        raise _unlike(FileFormatError, where, f"the fields of {kind.__name__}", data)
    data = _current(kind, data)
    missing, unknown = hints.keys() - data.keys(), data.keys() - hints.keys()
    if missing or unknown:
        names = ", ".join(map(reprlib.repr, sorted(missing or unknown, key=str)))
        raise FileFormatError(
            f"{where}: {'missing' if missing else 'unknown'} {names}. It is damaged, or another "
            "version wrote it: write it again."
        )
    parts = {name: _decode(hint, data[name], f"{where}.{name}") for name, hint in hints.items()}
    try:
        return kind(**parts)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{where}: {error}") from error


def _decode_leaf(hint: Hint, data: object, where: str) -> object:
    if hint is float and data is None:
        return math.nan
    leaf = _leaf(hint, data, where, FileFormatError)
    if isinstance(leaf, float) and not math.isfinite(leaf):
        raise _unlike(FileFormatError, where, "a finite number", data)
    return leaf


def _leaf(hint: Hint, value: typing.Any, where: str, error: type[Exception]) -> object:
    """Return a value of this type; whole numbers become floats where those are expected."""
    accepted = (int, float) if hint is float else hint
    if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        raise _unlike(error, where, LEAVES[hint], value)
    if hint is not float:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _opened(hint: Hint, where: str) -> tuple[Hint, tuple[Hint, ...]]:
    """Return the outer type of a hint and those within; for X | None, OPTIONAL and X.

    Raises:
        InputTypeError: a value could not be read back by this hint.
    """
    found = _shape(hint)
    if found is None:
        raise InputTypeError(
            f"{where}: a {hint} cannot be stored. Use plain types, list[X], tuple[X, ...], "
            "dict[str, X] or X | None."
        )
    return found


@functools.cache  # of a few hints, each asked for at every value of a file
def _shape(hint: Hint) -> tuple[Hint, tuple[Hint, ...]] | None:
    outer: Hint = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if outer in (typing.Union, types.UnionType):
        others = tuple(part for part in inner if part is not types.NoneType)
        return (OPTIONAL, others) if len(others) == 1 else None
    if outer is list:
        return list, (*inner, ...)  # so that list[X] and tuple[X, ...] are alike
    if outer is tuple or (outer is dict and inner[0] is str):
        return outer, inner
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint, ()
    return (LEAF, ()) if hint in LEAVES else None


@functools.cache
def _fields(kind: type) -> dict[str, Hint]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _items(
    hints: tuple[Hint, ...], values: Sequence[object], where: str, error: type[Exception]
) -> Iterator[tuple[Hint, object, str]]:
    """Yield the hint, the value and the place of each item of a list or tuple."""
    each = hints[:1] * len(values) if hints[1:] == (...,) else hints
    if len(each) != len(values):
        raise error(f"{where}: expected {len(each)} items, found {len(values)}")
    for i, (hint, value) in enumerate(zip(each, values, strict=True)):
        yield hint, value, f"{where}[{i}]"


def _is_exactly(value: object, kind: Hint) -> bool:
    return type(value) is kind


def _check_keys(value: object, where: str, error: type[Exception]) -> None:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _unlike(error, where, "a dict with string keys", value)


def _unlike(error: type[Exception], where: str, expected: str, found: object) -> Exception:
    return error(f"{where}: expected {expected}, found {reprlib.repr(found)}")
