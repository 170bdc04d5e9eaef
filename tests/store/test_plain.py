"""The quick reader gives what the one that names errors gives, or leaves it to that one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from sigmascope.errors import FileFormatError
from sigmascope.store import decode
from sigmascope.store.codec import _decode
from sigmascope.store.plain import NotPlainError, reader_of


@dataclass(frozen=True)
class Inner:
    name: str
    score: float


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    pair: tuple[int, str]
    table: dict[str, float]
    maybe: Inner | None
    flag: bool
    later: int = field(default=3, metadata={"later": True})

    def __post_init__(self) -> None:
        if self.pair[0] < 0:
            raise ValueError("pair must not be negative")


GOOD: dict[str, Any] = {
    "inner": [{"name": "a", "score": 0.5}, {"name": "b", "score": None}],
    "pair": [1, "x"],
    "table": {"n": 2, "m": 0.25},
    "maybe": None,
    "flag": True,
    "later": 4,
}


def test_both_read_the_same() -> None:
    found: Any = reader_of(Outer)(GOOD)
    assert repr(found) == repr(_decode(Outer, GOOD, "content"))
    assert math.isnan(found.inner[1].score)
    assert type(found.table["n"]) is float


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"flag": 1}, r"content\.flag: expected true or false, found 1"),
        ({"pair": [True, "x"]}, r"content\.pair\[0\]: expected a whole number"),
        ({"pair": [1, "x", 2]}, r"content\.pair: expected 2 items, found 3"),
        ({"pair": [-1, "x"]}, r"content: pair must not be negative"),
        ({"table": {"n": "2"}}, r"content\.table\.n: expected a number"),
        ({"table": [2]}, r"content\.table: expected a dict with string keys"),
        ({"inner": {"name": "a"}}, r"content\.inner: expected a list"),
        ({"inner": [{"name": "a"}]}, r"content\.inner\[0\]: missing 'score'"),
        ({"maybe": 3}, r"content\.maybe: expected the fields of Inner"),
        ({"more": 3}, r"content: unknown 'more'"),
    ],
)
def test_what_is_wrong_is_left_to_the_other_one(change: dict[str, Any], told: str) -> None:
    with pytest.raises(NotPlainError, match=r"^$"):
        reader_of(Outer)(GOOD | change)
    with pytest.raises(FileFormatError, match=told):
        decode(Outer, GOOD | change)


def test_earlier_versions_are_left_to_the_other_one() -> None:
    earlier = {name: value for name, value in GOOD.items() if name != "later"}
    with pytest.raises(NotPlainError, match=r"^$"):
        reader_of(Outer)(earlier)
    assert decode(Outer, earlier).later == 3
