"""What the user adds to the signatures: facts of networks, a name for the data, failed networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Protocol

from sigmascope.checks import check_mapping
from sigmascope.errors import InputTypeError

FACTS = ("accuracy", "depth", "flops")


class Failed(Protocol):
    """A network that failed in a survey, such as `sigmascope.runs.Failure`."""

    @property
    def message(self) -> str:
        """The reason."""

    @property
    def log(self) -> str:
        """The end of what was printed."""

    @property
    def command(self) -> str:
        """Measures it alone."""


Missing = Mapping[str, str | Failed] | Sequence[tuple[str, str | Failed]]


def facts_of(facts: Mapping[str, Any] | None, *names: str) -> dict[str, float]:
    """Return the known facts of a network, by the first of its names that has any.

    >>> facts_of({"resnet18": {"accuracy": 69.8, "depth": 18}}, "resnet18 (2)", "resnet18")
    {'accuracy': 69.8, 'depth': 18}
    """
    check_mapping("facts", facts or {}, "{'resnet18': {'accuracy': 69.8}}")
    found = next((facts[name] for name in names if name in facts), None) if facts else None
    values = {fact: _number(fact, _value(found, fact)) for fact in FACTS}
    return {fact: value for fact, value in values.items() if value is not None}


def checked_data(data: str | None) -> str | None:
    """Return the name of the data, or None."""
    if data is not None and not isinstance(data, str):
        raise InputTypeError(
            f"data must be a string such as 'cifar10, test split', got {type(data).__name__}."
        )
    return data or None


def missing_of(missing: Missing) -> list[list[str]]:
    """Return the networks that could not be measured: name and reason, or also log and command.

    >>> missing_of({"vit": "out of memory"}), missing_of([("vit", "out of memory")])
    ([['vit', 'out of memory']], [['vit', 'out of memory']])
    """
    form = "pairs of texts such as [('resnet18', 'out of memory')]"
    if not isinstance(missing, (Mapping, Sequence)):
        raise InputTypeError(f"missing must be {form}, got {type(missing).__name__}.")
    pairs = list(missing.items() if isinstance(missing, Mapping) else missing)
    told = []
    for number, pair in enumerate(pairs):
        listed = isinstance(pair, (tuple, list)) and len(pair) == 2
        texts = [pair[0], *_reasons(pair[1])] if listed else []
        if not listed or not all(isinstance(text, str) for text in texts):
            raise InputTypeError(f"missing must be {form}, got {pair!r:.80} as item {number}.")
        told.append([texts[0] or "(no name)", *texts[1:]])
    return told


def _reasons(reason: Any) -> list[Any]:
    """Return a reason; of a failure of a survey its message, log and command."""
    parts = [getattr(reason, part, None) for part in ("message", "log", "command")]
    return parts if all(isinstance(part, str) for part in parts) else [reason]


def _value(facts: Any, name: str) -> Any:
    return facts.get(name) if isinstance(facts, Mapping) else getattr(facts, name, None)


def _number(name: str, value: Any) -> float | None:
    """Return a number that JSON can represent, or None if unknown."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        kind = type(value).__name__
        raise InputTypeError(f"The fact {name} must be a number, or None if unknown, got {kind}.")
    if isinstance(value, Integral):
        return int(value)
    return float(value) if math.isfinite(value) else None
