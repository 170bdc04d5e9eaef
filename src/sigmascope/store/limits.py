"""Limits on what is read: small files that would take gigabytes or minutes are refused first."""

from __future__ import annotations

import re

# Of one document. A value takes up to 64 bytes of memory, whatever few bytes it has in the file.
MOST_VALUES = 2_000_000
DEEPEST = 100  # lists and dicts within each other
LONGEST_NUMBER = 400  # characters; the time to read one grows with their square
# A string, also one that never ends; possessive, so that no text makes the search quadratic.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
NOT_BRACKETS = bytes(sorted({*range(256)} - {*b"[]{}"}))


def check_content(data: bytes) -> None:
    """Raise unless JSON is small enough to be read, whatever is in it.

    Raises:
        ValueError: saying why, for callers that know the name of the file.

    >>> check_content(b"[" * 101)
    Traceback (most recent call last):
    ValueError: it is nested too deeply: the limit is 100 levels
    """
    opened = data.count(b"[") + data.count(b"{")
    values = opened + data.count(b",")
    if values > MOST_VALUES:
        raise ValueError(f"it has about {values} values, the limit is {MOST_VALUES}")
    if opened > DEEPEST and _depth(data) > DEEPEST:
        raise ValueError(f"it is nested too deeply: the limit is {DEEPEST} levels")


def check_number(text: str) -> None:
    """Raise a ValueError if a number is too long to be read quickly."""
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has {len(text)} characters, the limit is {LONGEST_NUMBER}")


def _depth(data: bytes) -> int:
    depth = deepest = 0
    for bracket in STRING.sub(b"", data).translate(None, NOT_BRACKETS):
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest
