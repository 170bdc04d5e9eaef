"""The formulas of a network, by the steps of a pass: where each begins and ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
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


class OpenFormulas:
    """The formulas of a plan that are being computed in a pass."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._open: dict[Formula, Callable[[Tensor], None] | None] = {}
        self._ending: list[Formula] = []

    def beginning(self, step: int) -> list[Formula]:
        """Return the formulas that begin with a step."""
        self._ending = self._plan.ends.get(step, [])
        return self._plan.begins.get(step, [])

    def opened(self, formula: Formula, finish: Callable[[Tensor], None] | None) -> None:
        """Note what to do with the output of a formula."""
        self._open[formula] = finish

    def is_part(self, step: int) -> bool:
        """Return whether a step is part of a formula."""
        return step in self._plan.parts

    def end(self, result: object) -> None:
        """Pass on the output of the formulas that the last step ended."""
        for formula in self._ending:
            finish = self._open.pop(formula, None)
            if finish is not None and isinstance(result, Tensor):
                finish(result)
        self._ending = []


def input_of_formula(formula: Formula, args: Any, kwargs: Any) -> Tensor | None:
    """Return the tensor that enters a formula, among the arguments of its first step."""
    tensors = list(tensors_in((args, [*kwargs.values()])))
    return tensors[formula.position] if formula.position < len(tensors) else None
