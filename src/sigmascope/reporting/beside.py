"""What is known beside the signatures: facts of the networks, a name for the data, and networks
that are missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from sigmascope.errors import InputTypeError

__all__ = ["FACTS", "Missing", "checked_data", "facts_of", "missing_of"]

FACTS = ("accuracy", "depth", "flops")

Missing = Mapping[str, str] | Sequence[tuple[str, str]]


def facts_of(facts: Mapping[str, Any] | None, *names: str) -> dict[str, float]:
    """Return what is known of a network, which goes by several names: the first that has facts counts.

    >>> from types import SimpleNamespace
    >>> facts_of({"resnet18": SimpleNamespace(accuracy=69.8, depth=18, flops=None)}, "resnet18 (2)", "resnet18")
    {'accuracy': 69.8, 'depth': 18}

    Raises:
        InputTypeError: `facts` is no mapping, or a fact is no number.
    """
    if facts is None:
        return {}
    if not isinstance(facts, Mapping):
        raise InputTypeError(
            f"facts is a {type(facts).__name__}. Pass a mapping from names of networks to "
            "their facts."
        )
    found = next((facts[name] for name in names if name in facts), None)
    values = {fact: _number(fact, _value(found, fact)) for fact in FACTS}
    return {fact: value for fact, value in values.items() if value is not None}


def checked_data(data: str | None) -> str | None:
    """Return the text that says what the data are, if it is one.

    Raises:
        InputTypeError: it is something else.
    """
    if data is not None and not isinstance(data, str):
        raise InputTypeError(
            f"data is a {type(data).__name__}. Pass a text such as 'cifar10, 2560 samples'."
        )
    return data or None


def missing_of(missing: Missing) -> list[list[str]]:
    """Return the networks that could not be measured, as pairs of name and reason.

    >>> missing_of({"vit": "out of memory"}) == missing_of([("vit", "out of memory")]) == [["vit", "out of memory"]]
    True

    Raises:
        InputTypeError: neither a mapping nor pairs of texts.
    """
    remedy = "Pass pairs of texts: [('resnet18', 'out of memory')]."
    if not isinstance(missing, (Mapping, Sequence)):
        raise InputTypeError(f"missing is a {type(missing).__name__}. {remedy}")
    pairs = list(missing.items() if isinstance(missing, Mapping) else missing)
    for number, pair in enumerate(pairs):
        if (
            not isinstance(pair, (tuple, list))
            or len(pair) != 2
            or not all(isinstance(text, str) for text in pair)
        ):
            raise InputTypeError(f"Item {number} of missing is no name with a reason. {remedy}")
    return [[name or "(no name)", reason] for name, reason in pairs]


def _value(facts: Any, name: str) -> Any:
    return facts.get(name) if isinstance(facts, Mapping) else getattr(facts, name, None)


def _number(name: str, value: Any) -> float | None:
    """Return a number as one that JSON knows; None for what is not known."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(
            f"The fact {name} is a {type(value).__name__}. Pass a number, or None where it "
            "is not known."
        )
    if isinstance(value, Integral):
        return int(value)
    return float(value) if math.isfinite(value) else None
