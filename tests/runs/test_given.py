"""What tells functions apart, when a run that used them is continued."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from sigmascope.runs.given import told_function

SCALE = 2


def by_global(x: Tensor) -> Tensor:
    return x * SCALE


def closed(value: Any) -> Callable[[Tensor], Any]:
    return lambda x: (x, value)


def default(value: Any) -> Callable[[Tensor], Any]:
    def function(x: Tensor, by: Any = value, *, more: Any = value) -> Any:
        return x, by, more

    return function


@pytest.mark.parametrize("make", [closed, default, lambda value: functools.partial(max, value)])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        ("a", "b"),
        ((1, (2, "x")), (1, (3, "x"))),
        (torch.zeros(3), torch.ones(3)),
        (closed(1), closed(2)),
        (1, [1]),
    ],
    ids=["numbers", "texts", "tuples", "tensors", "functions", "kinds"],
)
def test_other_values_are_another_function(
    make: Callable[[Any], Any], one: Any, other: Any
) -> None:
    assert told_function(make(one)) != told_function(make(other))
    assert told_function(make(one)) == told_function(make(one))


def test_other_globals_are_another_function(monkeypatch: pytest.MonkeyPatch) -> None:
    before = told_function(by_global)
    monkeypatch.setattr(f"{__name__}.SCALE", 3)
    assert told_function(by_global) != before


def test_what_changes_while_it_is_used_is_no_part() -> None:
    seen: list[Tensor] = []
    function = closed(seen)
    before = told_function(function)
    seen.append(torch.zeros(1))
    assert told_function(function) == before


def test_functions_that_call_themselves_end() -> None:
    def count(n: int) -> int:
        return count(n - 1) if n else 0

    assert told_function(count) == told_function(count)
