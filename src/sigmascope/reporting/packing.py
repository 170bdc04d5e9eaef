"""Columns of texts and numbers in little room; scripts/data.js unpacks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any


def front_coded(paths: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return for every path how many characters it shares with the one before, and the rest.

    >>> front_coded(["block.0.relu", "block.1.relu", "fc"])
    ([0, 6, 0], ['block.0.relu', '1.relu', 'fc'])
    """
    shared = [_common(before, path) for before, path in zip(["", *paths], paths, strict=False)]
    return shared, [path[length:] for path, length in zip(paths, shared, strict=True)]


def _common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def column(values: Iterable[float | None]) -> Any:
    """Return a list, or its value where all are equal."""
    found = list(values)
    return found[0] if len(found) > 1 and len(set(found)) == 1 else found


def named(values: Iterable[str]) -> dict[str, Any]:
    """Return the different texts in order of appearance, and the number of each value."""
    found = list(values)
    names = list(dict.fromkeys(found))
    return {"names": names, "of": column(names.index(value) for value in found)}
