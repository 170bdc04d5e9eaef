"""Plain values as dataclasses, quickly, where everything is as this version writes it.

Reading a hundred thousand files is mostly this. What is not as expected is left to `codec`, which
knows the names of earlier versions and says where something is wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable

Reader = Callable[[typing.Any], object]
Hint = typing.Any


class NotPlainError(Exception):
    """Something is not as this version writes it."""


@functools.cache
def reader_of(hint: Hint) -> Reader:
    """Return the function that reads values of a hint, see `codec.decode`.

    It raises a `NotPlainError` for every value that is not exactly as expected, and for every value
    of a hint that it does not know.

    >>> reader_of(tuple[float, ...])([0.5, 2, None])
    (0.5, 2.0, nan)
    """
    if hint in LEAVES:
        return LEAVES[hint]
    outer: Hint = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if outer in (typing.Union, types.UnionType):
        others = [part for part in inner if part is not types.NoneType]
        return _optional(reader_of(others[0])) if len(others) == 1 else _unknown
    if outer is list or (outer is tuple and inner[1:] == (...,)):
        return _sequence(outer, reader_of(inner[0]))
    if outer is tuple:
        return _pair([reader_of(part) for part in inner])
    if outer is dict and inner[0] is str:
        return _mapping(reader_of(inner[1]))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _record(hint)
    return _unknown


def _exactly(kind: type) -> Reader:
    def read(value: typing.Any) -> object:
        if type(value) is not kind:
            raise NotPlainError
        return value

    return read


def _number(value: typing.Any) -> object:
    if type(value) is float and math.isfinite(value):
        return value
    if value is None:
        return math.nan
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    raise NotPlainError


LEAVES: dict[Hint, Reader] = {
    **{kind: _exactly(kind) for kind in (str, bool, int, types.NoneType)},
    float: _number,
}


def _unknown(_: typing.Any) -> object:
    raise NotPlainError


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _sequence(kind: type, read: Reader) -> Reader:
    def read_all(value: typing.Any) -> object:
        if type(value) is not list:
            raise NotPlainError
        return kind(map(read, value))

    return read_all


def _pair(readers: list[Reader]) -> Reader:
    def read_each(value: typing.Any) -> object:
        if type(value) is not list or len(value) != len(readers):
            raise NotPlainError
        return tuple(read(one) for read, one in zip(readers, value, strict=True))

    return read_each


def _mapping(read: Reader) -> Reader:
    def read_values(value: typing.Any) -> object:
        if type(value) is not dict or not all(type(name) is str for name in value):
            raise NotPlainError
        return {name: read(one) for name, one in value.items()}

    return read_values


def _record(kind: Hint) -> Reader:
    # readers are found when they are first needed: a dataclass may hold others of its own kind
    @functools.cache
    def readers() -> dict[str, Reader]:
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        return {name: reader_of(hints[name]) for name in names}

    def read_fields(value: typing.Any) -> object:
        own = readers()
        if type(value) is not dict or value.keys() != own.keys():
            raise NotPlainError
        parts = {name: read(value[name]) for name, read in own.items()}
        try:
            return kind(**parts)
        except (TypeError, ValueError):
            raise NotPlainError from None

    return read_fields
