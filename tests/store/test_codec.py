"""Dataclasses to plain values and back."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, NamedTuple, Optional

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sigmascope.checks import check_choice
from sigmascope.errors import (
    FileFormatError,
    InputError,
    InputTypeError,
    OptionError,
    SigmascopeError,
)
from sigmascope.store import decode, encode
from sigmascope.store.documents import dump, parse


@dataclass(frozen=True)
class Site:
    name: str
    score: float
    kept: bool
    size: int


@dataclass(frozen=True)
class Report:
    sites: tuple[Site, ...]
    span: tuple[int, float]
    nothing: tuple[()]
    grid: list[list[float]]
    by_name: dict[str, Site | None]
    best: Site | None
    seed: Optional[int]  # noqa: UP045 - the old spelling has to work as well
    cutoff: float | None
    absent: None
    area: float = field(default=0.0, init=False)


text = st.text(st.characters(exclude_categories=["Cs"]))
integers = st.integers(-(2**64) + 1, 2**64 - 1)
numbers = st.floats(allow_infinity=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
sites = st.builds(Site, text, numbers, st.booleans(), integers)
reports = st.builds(
    Report,
    st.lists(sites, max_size=4).map(tuple),
    st.tuples(integers, numbers),
    st.just(()),
    st.lists(st.lists(numbers, max_size=3), max_size=3),
    st.dictionaries(text, st.none() | sites, max_size=3),
    st.none() | sites,
    st.none() | integers,
    st.none() | finite,
    st.none(),
)
SITE = Site("relu", 0.5, True, 3)
PLAIN: Any = encode(SITE)
REPORT = Report((SITE,), (1, 2.0), (), [[0.5]], {"a": None, "b": SITE}, None, 7, None, None)


def same(left: Any, right: Any) -> bool:
    """Equal in type and bits, at any depth."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or struct.pack("d", left) == struct.pack(
            "d", right
        )
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if is_dataclass(left):
        return all(
            same(getattr(left, part.name), getattr(right, part.name)) for part in fields(left)
        )
    return bool(left == right)


@given(reports)
def test_round_trip_is_exact(report: Report) -> None:
    assert same(decode(Report, parse(dump(encode(report)))), report)


@given(st.lists(sites, max_size=3), st.dictionaries(text, numbers))
def test_containers_of_records(found: list[Site], scores: dict[str, float]) -> None:
    assert same(decode(list[Site], encode(found)), found)
    assert same(decode(tuple[Site, ...], encode(tuple(found))), tuple(found))
    assert same(decode(dict[str, float], encode(scores)), scores)


def test_same_can_tell() -> None:
    assert not same(0.0, -0.0)
    assert not same([1], (1,))
    assert not same(SITE, Site("relu", 0.5, True, 4))
    assert not same(1, True)
    assert same(math.nan, -math.nan)


def test_form_is_plain() -> None:
    assert encode(SITE) == {"name": "relu", "score": 0.5, "kept": True, "size": 3}
    assert encode((SITE, math.nan)) == [encode(SITE), None]
    encoded = encode(REPORT)
    assert isinstance(encoded, dict)
    assert "area" not in encoded
    assert list(encoded)[:2] == ["sites", "span"]


def test_numbers_become_floats_where_floats_are_meant() -> None:
    assert same(decode(float, 1), 1.0)
    assert same(encode(Site("a", 1, True, 1)), {"name": "a", "score": 1.0, "kept": True, "size": 1})
    assert same(
        encode(Site("a", np.float64(0.1), True, 1)),
        {"name": "a", "score": 0.1, "kept": True, "size": 1},
    )


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "text for a number": (
        {"sites": [{**PLAIN, "score": "x"}]},
        r"sites\[0\]\.score: expected a number, found 'x'",
    ),
    "the fourth": (
        {"sites": [PLAIN] * 3 + [{**PLAIN, "score": "x"}]},
        r"sites\[3\]\.score: expected a number, found 'x'",
    ),
    "true for a number": (
        {"sites": [{**PLAIN, "score": True}]},
        r"sites\[0\]\.score: expected a number, found True",
    ),
    "true for an integer": ({"seed": True}, r"seed: expected a whole number, found True"),
    "float for an integer": ({"seed": 1.0}, r"seed: expected a whole number, found 1\.0"),
    "null for an integer": (
        {"span": [None, 1.0]},
        r"span\[0\]: expected a whole number, found None",
    ),
    "integer for a boolean": (
        {"best": {**PLAIN, "kept": 1}},
        r"best\.kept: expected true or false, found 1",
    ),
    "number for text": ({"best": {**PLAIN, "name": 1}}, r"best\.name: expected a string, found 1"),
    "value for null": ({"absent": 0}, r"absent: expected nothing, found 0"),
    "list for a record": ({"best": [1]}, r"best: expected the fields of Site, found \[1\]"),
    "record for a list": ({"sites": {}}, r"sites: expected a list, found \{\}"),
    "text for a list": ({"grid": ["ab"]}, r"grid\[0\]: expected a list, found 'ab'"),
    "list for a dict": ({"by_name": []}, r"by_name: expected a dict with string keys, found \[\]"),
    "deep in a dict": (
        {"by_name": {"b": {**PLAIN, "size": "3"}}},
        r"by_name\.b\.size: expected a whole number",
    ),
    "too few items": ({"span": [1]}, r"span: expected 2 items, found 1"),
    "too many items": ({"nothing": [1]}, r"nothing: expected 0 items, found 1"),
    "huge": ({"cutoff": 10**400}, r"cutoff: expected a finite number, found 1000"),
    "infinite": ({"cutoff": math.inf}, r"cutoff: expected a finite number, found inf"),
    "unknown key": ({"best": {**PLAIN, "color": 1}}, r"best: unknown 'color'"),
    "missing keys": ({"best": {"kept": True, "size": 3}}, r"best: missing 'name', 'score'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_data_is_refused_with_its_place(name: str) -> None:
    changes, match = REFUSED[name]
    sound: Any = encode(REPORT)
    assert decode(Report, sound) == REPORT
    with pytest.raises(FileFormatError, match=f"^content.{match}"):
        decode(Report, {**sound, **changes})


def test_place_has_a_name_and_values_are_shortened() -> None:
    with pytest.raises(FileFormatError, match="line 3: expected the fields of Site") as caught:
        decode(Site, "x" * 10**6, "line 3")
    assert len(str(caught.value)) < 200


@dataclass(frozen=True)
class Choice:
    option: str

    def __post_init__(self) -> None:
        check_choice("option", self.option, ["a", "b"])


def test_record_that_refuses_its_values() -> None:
    with pytest.raises(OptionError, match="is not a valid choice"):
        Choice("c")
    with pytest.raises(FileFormatError, match=r"content\[0\]: option='c' is not a valid choice"):
        decode(list[Choice], [{"option": "c"}])


@dataclass(frozen=True)
class Maybe:
    number: float | None


@dataclass(frozen=True)
class Larger(Site):
    more: int = 0


class Pair(NamedTuple):
    left: int
    right: int


@dataclass(frozen=True)
class Holder:
    site: Site
    pair: tuple[int, int] = (1, 2)


UNENCODABLE: dict[str, tuple[object, type[SigmascopeError], str]] = {
    "infinity": (Site("a", math.inf, True, 1), InputError, r"content\.score: inf is infinite"),
    "-infinity": ([1.0, -math.inf], InputError, r"content\[1\]: -inf is infinite"),
    "huge": (Site("a", 10**400, True, 1), InputError, r"content\.score: 1000.*is infinite"),
    "NaN or None": (
        Maybe(math.nan),
        InputError,
        r"content\.number: NaN would be read back as None",
    ),
    "wrong field": (
        Site("a", 0.5, True, 1.5),
        InputTypeError,
        r"content\.size: expected a whole number, found 1\.5",
    ),  # type: ignore[arg-type]
    "list for tuple": (
        Report([], *([None] * 8)),
        InputTypeError,
        r"content\.sites: expected tuple, found \[\]",
    ),  # type: ignore[arg-type]
    "subclass": (
        Holder(Larger("a", 0.5, True, 1)),
        InputTypeError,
        r"content\.site: expected Site, found Larger",
    ),
    "named tuple": (
        Holder(SITE, Pair(1, 2)),
        InputTypeError,
        r"content\.pair: expected tuple, found",
    ),
    "tuple length": (
        Holder(SITE, (1, 2, 3)),
        InputTypeError,
        r"content\.pair: expected 2 items, found 3",
    ),  # type: ignore[arg-type]
    "key": ({"a": {1: 2}}, InputTypeError, r"content\.a: expected a dict with string keys"),
    "object": (
        {"a": {1, 2}},
        InputTypeError,
        r"content\.a: a <class 'set'> cannot be stored. Use plain types",
    ),
    "class": (Site, InputTypeError, r"content: a <class 'type'> cannot be stored"),
}


@pytest.mark.parametrize("name", UNENCODABLE)
def test_what_would_not_come_back_is_not_encoded(name: str) -> None:
    value, error, match = UNENCODABLE[name]
    with pytest.raises(error, match=f"^{match}"):
        encode(value)
    assert encode(Maybe(None)) == {"number": None}
    assert encode(Holder(SITE)) == {"site": encode(SITE), "pair": [1, 2]}


@pytest.mark.parametrize(
    "kind",
    [list, dict, tuple, dict[int, str], int | str, set[int], Literal["a"], object, bytes, Pair],
)
def test_hint_that_leaves_the_type_open(kind: Any) -> None:
    with pytest.raises(InputTypeError, match=r"content: a .* cannot be stored"):
        decode(kind, [])


@dataclass(frozen=True)
class Renamed:
    normalize: int


def test_old_names_of_fields() -> None:
    assert decode(Renamed, {"normalise": 1}) == Renamed(1)
    for data, told in (
        ({"normalise": 1, "normalize": 2}, "unknown 'normalise'"),
        ({"normalize": 1, "at": 2}, "unknown 'at'"),
    ):
        with pytest.raises(FileFormatError, match=told):
            decode(Renamed, data)


@dataclass(frozen=True)
class Scatter:
    std: float
    low: float


@dataclass(frozen=True)
class Later:
    name: str
    scatter: Scatter = field(metadata={"formerly": ("std", "low")})
    low: float = field(default=math.nan, metadata={"later": True})
    how: str = field(default="new", metadata={"later": "old"})
    count: int = field(default=3, metadata={"later": True})


def test_fields_that_became_a_record_and_fields_added_since() -> None:
    found = decode(Later, {"name": "a", "std": 0.5, "low": 0.25})
    assert found.scatter == Scatter(0.5, 0.25)
    assert math.isnan(found.low)
    assert (found.how, found.count) == ("old", 3)
    new = Later("a", Scatter(0.5, 0.25), low=0.125)
    assert new.how == "new"
    assert decode(Later, encode(new)) == new
    with pytest.raises(FileFormatError, match=r"content: missing 'scatter'"):
        decode(Later, {"name": "a", "low": 0.25})
    with pytest.raises(FileFormatError, match=r"content: unknown 'std'"):
        decode(Later, {**encode(new), "std": 0.5})  # type: ignore[dict-item]
