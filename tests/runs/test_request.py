"""What is asked for is checked at once, and two requests are told apart by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

import sigmascope as sg
from sigmascope.runs import Request, Selection, Shard, request_for
from sigmascope.store import decode, differences, encode
from tests.runs.tiny import DATA, asked, names_in, network_file


def named(there: Request, here: Request) -> list[str]:
    old, new = (cast(dict[str, Any], encode(request)) for request in (there, here))
    return differences(old, new)


def test_the_options_are_those_of_a_signature() -> None:
    request = asked(["sigmascope/resnet20"], options={"metrics": "cka", "seed": 3})
    assert request.options.metrics == ("cka",)
    assert request.options.seed == 3
    assert request.options.covariance == "ledoit-wolf"
    assert request.options.activations == ("pointwise",)


def test_a_request_survives_the_way_to_the_disk(tmp_path: Path) -> None:
    request = asked(
        names_in(tmp_path, "conv", "wide"), Selection("cifar10", "somewhere", "train", 5, 2)
    )
    assert decode(Request, encode(request)) == request


def test_a_change_in_a_file_makes_another_request(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv")
    before = asked(names)
    path = network_file(tmp_path)
    path.write_text(path.read_text() + "\n# changed\n")
    [told] = named(before, asked(names))
    assert told.startswith(f"files.{path} is '")
    assert named(before, before) == []


def test_weights_of_a_file_are_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"1")
    one = asked(["sigmascope/resnet20"], weights=str(tmp_path / "w.safetensors"))
    (tmp_path / "w.safetensors").write_bytes(b"2")
    other = asked(["sigmascope/resnet20"], weights=str(tmp_path / "w.safetensors"))
    assert one.files.keys() == other.files.keys() == {str(tmp_path / "w.safetensors")}
    assert one != other


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"names": ("a/1", "a/3")}, ["names: a/2 only there", "names: a/3 only here"]),
        ({"names": ("a/1",)}, ["names: a/2 only there"]),
        ({"names": ("a/2", "a/1")}, ["names: in another order"]),
        ({"weights": "none"}, ["weights is 'default' there and 'none' here"]),
        ({"data": replace(DATA, batch_size=8)}, ["data.batch_size is 16 there and 8 here"]),
        (
            {"data": replace(DATA, root="x", limit=None)},
            ["data.limit is 64 there and None here", "data.root is None there and 'x' here"],
        ),
        (
            {"options": asked(["a/1"], options={"seed": 1}).options},
            ["options.seed is 0 there and 1 here"],
        ),
    ],
)
def test_differences_are_named(change: dict[str, Any], told: list[str]) -> None:
    request = asked(["a/1", "a/2"])
    assert named(request, replace(request, **change)) == told


@pytest.mark.parametrize(
    ("names", "more", "error", "message"),
    [
        ([], {}, sg.InputError, "names is empty"),
        ("sigmascope/resnet20", {}, sg.InputTypeError, "names must be a list"),
        ([3], {}, sg.InputTypeError, "names must be a list"),
        (["a/1", "a/2", "a/1"], {}, sg.InputError, "a/1 is listed 2 times"),
        (["a/1"], {"weights": "missing.pt"}, sg.InputError, "'missing.pt' does not exist"),
        (["a/1", "a/2"], {"weights": "w.pt"}, sg.InputError, "cannot fit 2 networks"),
        (
            ["a/1"],
            {"options": {"covarience": "biased"}},
            sg.OptionError,
            "Did you mean 'covariance'",
        ),
        (["a/1"], {"options": {"covariance": "baised"}}, sg.OptionError, "Did you mean 'biased'"),
        (["a/1"], {"options": {"pool": len}}, sg.OptionError, "pool is a function"),
    ],
)
def test_what_cannot_be_is_refused(
    names: Any, more: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        request_for(names, DATA, **more)


@given(st.lists(st.integers(), unique=True), st.integers(1, 9))
def test_shards_share_everything_and_nothing_twice(items: list[int], count: int) -> None:
    parts = [Shard(index, count).of(items) for index in range(1, count + 1)]
    assert sorted(item for part in parts for item in part) == sorted(items)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("index", "count"), [(0, 1), (2, 1), (1, 0), (-1, 3)])
def test_no_such_shard(index: int, count: int) -> None:
    with pytest.raises(
        sg.InputError, match=f"must be from 1 to the number of shards, got {index} of {count}"
    ):
        Shard(index, count)
