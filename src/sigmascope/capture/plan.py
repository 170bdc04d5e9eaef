"""The formulas of a network, by the steps of a pass: where each begins and ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from sigmascope.capture.formulas import Formula
from sigmascope.capture.nested import tensors_in


class Plan:
    """Formulas that a pass is expected to compute.

    Attributes:
        formulas: all of them.
        parts: the steps inside of them, whose activations do not count on their own.
        begins: step -> the formulas whose input it takes first.
        ends: step -> the formulas whose output it returns.
    """

    def __init__(self, formulas: Sequence[Formula] = ()) -> None:
        self.formulas = tuple(formulas)
        self.parts: frozenset[int] = frozenset().union(*(one.parts for one in formulas))
        self.begins: dict[int, list[Formula]] = defaultdict(list)
        self.ends: dict[int, list[Formula]] = defaultdict(list)
        for one in formulas:
            self.begins[one.begins].append(one)
            self.ends[one.ends].append(one)

    def before(self, step: int) -> list[Formula]:
        """Return the formulas that end before a step."""
        return [one for one in self.formulas if one.ends < step]


def input_of_formula(formula: Formula, args: Any, kwargs: Any) -> Tensor | None:
    """Return the tensor that enters a formula, among the arguments of its first step."""
    tensors = list(tensors_in((args, [*kwargs.values()])))
    return tensors[formula.position] if formula.position < len(tensors) else None
