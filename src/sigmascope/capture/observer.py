"""What an observer is told of an activation call, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from sigmascope.capture.call_site import CallSite
from sigmascope.capture.channel_axis import Layout
from sigmascope.capture.marks import Descent


@dataclass(frozen=True)
class Call(CallSite):
    """One call of an activation, as an observer sees it.

    Attributes:
        layout: where the channels of the input are.
        descent: where its samples are.
        sequence_first: whether the call belongs to a layer that expects (time, batch, channels).
        plain: whether torch's own function of this kind computes the output.
        formula: what it computes of x, where it is written as a formula.
    """

    layout: Layout
    descent: Descent
    sequence_first: bool
    plain: bool = False
    formula: str = ""

    @property
    def others(self) -> tuple[object, ...]:
        """All that is known of it but the path and the number."""
        return (self.kind, self.layout, self.descent, self.sequence_first, self.plain, self.formula)

    @property
    def number(self) -> int:
        """Which call of its module it is, from 0; the same as `call`."""
        return self.call


Finish: TypeAlias = Callable[[Tensor], None]
Observer: TypeAlias = Callable[[Call, Tensor], Finish | None]
"""Receives the input before the activation runs, which may overwrite it; returns a function that
receives the output, or None.
"""
