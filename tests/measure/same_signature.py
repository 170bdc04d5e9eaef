"""Everything that two signatures hold, compared."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

EXACT = 1e-9


def assert_same(one: Any, other: Any, where: str = "signature") -> None:
    """Compare two results field by field, numbers up to rounding."""
    if isinstance(one, float):
        same = math.isnan(one) and math.isnan(other)
        assert same or one == pytest.approx(other, abs=EXACT), where
    elif hasattr(one, "__dataclass_fields__"):
        for field in fields(one):
            name = field.name
            assert_same(getattr(one, name), getattr(other, name), f"{where}.{name}")
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for name in one:
            assert_same(one[name], other[name], f"{where}[{name}]")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}[{number}]")
    else:
        assert one == other, where
