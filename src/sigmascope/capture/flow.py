"""The functions of a whole forward pass as a graph: of what each tensor was computed.

The steps that are remembered to recognize the next pass say it all, whether or not they were worked
out anew in this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from weakref import ref

from sigmascope.capture.activations import MIXING
from sigmascope.capture.axis_moves import RESHAPING
from sigmascope.capture.elementwise import FACTORIES, is_affine, is_elementwise
from sigmascope.capture.steps import LIMIT, SPACING, Place, Step
from sigmascope.capture.words import words

# They put elements elsewhere, leave some out or repeat them.
MOVING = RESHAPING | frozenset(
    words("""
    H T __getitem__ adjoint broadcast_to chunk dropout1d dropout2d dropout3d expand expand_as
    feature_dropout flip gather index_select interpolate mH mT moveaxis movedim narrow pad permute
    pixel_shuffle pixel_unshuffle repeat repeat_interleave roll select split swapaxes swapdims t
    tensor_split transpose unbind unsafe_chunk unsafe_split upsample
""")
)
CASTS = frozenset(words("bfloat16 double float half to type type_as"))
COMPARISONS = frozenset(
    words("""
    __and__ __ge__ __gt__ __invert__ __le__ __lt__ __ne__ __eq__ __or__ eq ge greater greater_equal
    gt isfinite isnan le less less_equal logical_and logical_not logical_or lt ne
""")
)
NOWHERE = -1
GLU = "glu"


class Fact(NamedTuple):
    """Where a function is called, and what it is.

    Attributes:
        path: the innermost module.
        hidden: whether that counts as one activation.
        kind: of an activation; empty for other functions.
    """

    path: str = ""
    hidden: bool = False
    kind: str = ""


class Flow:
    """The steps of a pass.

    Attributes:
        steps: the functions, in order.
        facts: what else is known of them.
        ends: the steps that return the output of an activation; nothing looks behind them.
    """

    def __init__(
        self, steps: Sequence[Step], facts: Mapping[int, Fact], ends: frozenset[int] = frozenset()
    ) -> None:
        self.steps = steps
        self.facts = facts
        self.ends = ends
        self._origins: dict[int, int] = {}
        self._depends: list[bool] = []
        for step in steps:
            computed = step.name not in FACTORIES
            self._depends.append(computed and any(map(self.depends, places(step))))

    def fact(self, number: int) -> Fact:
        """Return what is known of a step."""
        return self.facts.get(number, Fact())

    def step_of(self, place: Place) -> int:
        """Return the step that returned a tensor; -1 where none of the pass did."""
        number = place.made % SPACING - 1 if place.made > 0 else NOWHERE
        return number if number < min(LIMIT - 1, len(self.steps)) else NOWHERE

    def depends(self, place: Place) -> bool:
        """Return whether a tensor is known to depend on the samples."""
        number = self.step_of(place)
        if number != NOWHERE:
            return number < len(self._depends) and self._depends[number]
        return place.mark is not None and place.mark.descent.state not in ("constant", "blank")

    def moving(self, number: int) -> list[Place]:
        """Return the tensors of a step that depend on the samples."""
        return [place for place in places(self.steps[number]) if self.depends(place)]

    def origin(self, place: Place) -> int:
        """Return the step whose result a tensor is, but for affine steps and moved elements."""
        known = self._origins.get(place.made)
        if known is None:
            number = self.step_of(place)
            before = None if number == NOWHERE else self._before(number)
            known = number if before is None else self.origin(before)
            self._origins[place.made] = known
        return known

    def passes(self, number: int) -> bool:
        """Return whether a step is affine in one tensor, or moves its elements."""
        return self._before(number) is not None

    def _before(self, number: int) -> Place | None:
        """Return the tensor that a step only moves, scales or shifts; None for other steps."""
        if number in self.ends or self.fact(number).hidden:
            return None
        step, moving = self.steps[number], self.moving(number)
        if not moving:
            return None
        if step.name in MOVING:
            return moving[0]
        first = bool(step.args) and step.args[0] is moving[0]
        return moving[0] if is_affine(step.name, len(moving), first=first) else None

    def names_before(self, place: Place) -> Iterator[str]:
        """Yield the functions between a tensor and its origin, the latest first."""
        number = self.step_of(place)
        while number != NOWHERE and (before := self._before(number)) is not None:
            yield self.steps[number].name
            number = self.step_of(before)

    def is_computed_from(self, place: Place, number: int) -> bool:
        """Return whether a tensor was computed from the result of a step."""
        waiting, seen = [self.step_of(place)], set[int]()
        while waiting:
            one = waiting.pop()
            if one == number:
                return True
            if one > number and one not in seen:
                seen.add(one)
                waiting += [self.step_of(before) for before in places(self.steps[one])]
        return False

    def roots(self, place: Place) -> frozenset[int]:
        """Return the tensors that a tensor was computed from element by element."""
        found: set[int] = set()
        waiting, seen = [place], set[int]()
        while waiting:
            one = waiting.pop()
            number = self.step_of(one)
            if one.made in seen:
                continue
            seen.add(one.made)
            if number != NOWHERE and self._is_elementwise(number):
                waiting += self.moving(number)
            else:
                found.add(one.made)
        return frozenset(found)

    def _is_elementwise(self, number: int) -> bool:
        kind, name = self.fact(number).kind, self.steps[number].name
        pointwise = kind not in MIXING if kind else is_elementwise(name)
        return pointwise and not self.fact(number).hidden


def places(step: Step) -> list[Place]:
    """Return the tensors of a step that are not constants of the network, in order."""
    return [one for one in tensors_of_step(step) if isinstance(one, Place)]


def tensors_of_step(step: Step) -> list[object]:
    """Return all tensors of a step, in order: constants as references."""
    return [one for one in _flat((step.args, [*step.kwargs.values()])) if type(one) in (Place, ref)]


def size_of(place: Place) -> int:
    """Return how many numbers a tensor holds."""
    return math.prod(place.shape)


def _flat(value: object) -> Iterator[object]:
    if type(value) in (tuple, list):
        for item in value:  # type: ignore[attr-defined]
            yield from _flat(item)
    else:
        yield value
