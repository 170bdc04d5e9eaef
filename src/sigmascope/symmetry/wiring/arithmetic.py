"""Rules for sums, products and quotients of channels with channels, parameters or constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sigmascope.symmetry.wiring.calls import Call, Rule
from sigmascope.symmetry.wiring.ties import BOTH, Channels
from sigmascope.symmetry.wiring.turns import Turn


@dataclass(frozen=True)
class _Pair:
    """The two operands of a call: one that moves, and the other, which may."""

    tensor: Tensor
    channels: Channels
    other: Any
    others: Channels | None

    @staticmethod
    def of(call: Call) -> _Pair:
        first, second = call.source, call.argument(1, "other")
        if call.wiring.of(first) is None:
            first, second = second, first
        channels = call.wiring.of(first)
        if channels is None:
            raise call.refused("neither of its first two arguments moves, but another one does")
        return _Pair(first, channels, second, call.wiring.of(second))

    @property
    def meeting(self) -> int | None:
        """The axis of the other operand that meets the channels; None if it has none."""
        if not isinstance(self.other, Tensor):
            return None
        axis = self.channels.axis - self.tensor.ndim + self.other.ndim
        meets = axis >= 0 and (self.other.shape[axis] > 1 or len(self.channels) == 1)
        return axis if meets else None

    def check_axes(self, call: Call) -> None:
        """Check that channels meet channels, one by one."""
        if self.others is None or self.meeting != self.others.axis:
            raise call.refused("the channels of its two operands are on different axes")

    def result(self, call: Call) -> Channels:
        """Return the channels of the output, which may have more axes."""
        return self.channels.at(self.channels.axis + call.output.ndim - self.tensor.ndim)


def _sum(call: Call) -> Channels:
    pair = _Pair.of(call)
    channels, other, axis = pair.channels, pair.other, pair.meeting
    if pair.others is not None:
        pair.check_axes(call)
        call.tie(channels, pair.others, "they are added")
    elif axis is None:
        call.wiring.note_still(other)
        if isinstance(other, Tensor) or other != 0:
            call.restrict(channels, "the same constant is added to every channel", *BOTH)
    elif call.wiring.parameter(other) is not None and len(channels) == other.shape[axis]:
        call.wiring.turn(other, Turn(channels.at(axis), ((channels, "value"),)))
    elif not call.wiring.is_zero(other):
        call.wiring.note_still(other)
        call.pin(channels, "a tensor that does not move is added")
    return pair.result(call)


def _product(call: Call) -> Channels:
    pair = _Pair.of(call)
    channels, other, axis = pair.channels, pair.other, pair.meeting
    if pair.others is not None:
        pair.check_axes(call)
        return _gated(call, pair.result(call), pair.others)
    if axis is None:
        call.wiring.note_still(other)
    elif call.wiring.parameter(other) is not None and len(channels) == other.shape[axis]:
        after = call.rescaled(pair.result(call))
        call.wiring.turn(other, Turn(channels.at(axis), ((after, "value"), (channels, "inverse"))))
        return after
    else:
        call.wiring.note_still(other)
        call.pin(channels, "it is multiplied by a tensor that does not move")
    return pair.result(call)


def _gated(call: Call, channels: Channels, others: Channels) -> Channels:
    """Follow a product of channels with channels: places are tied, one side keeps its scales."""
    if len(channels) != len(others):
        raise call.refused(f"{len(channels)} channels meet {len(others)}")
    scales = call.wiring.ties.scales
    unscaled = bool((scales.lost[:, scales.roots(channels.scale)] > 0).all())
    kept, gate = (others, channels) if unscaled else (channels, others)
    call.restrict(gate, "it multiplies other channels", *BOTH)
    call.wiring.ties.places.join(channels.place, others.place)
    return kept.at(channels.axis)


def _quotient(call: Call) -> Channels:
    pair = _Pair.of(call)
    if pair.others is not None or pair.tensor is not call.source or call.name.startswith("__r"):
        raise call.refused("channels may not stand in a denominator")
    call.wiring.note_still(pair.other)
    if call.kwargs.get("rounding_mode") is not None:
        call.restrict(pair.channels, "a quotient that is rounded admits permutations", *BOTH)
    if pair.meeting is not None:
        call.pin(pair.channels, "it is divided by a tensor that does not move")
    return pair.result(call)


def _moving(rule: Rule) -> Rule:
    """Return a rule that skips calls in which nothing moves."""

    def checked(call: Call) -> Any:
        given = (*call.args, *call.kwargs.values())
        return rule(call) if any(call.wiring.of(one) is not None for one in given) else None

    return checked


ARITHMETIC_RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "sub", "subtract", "rsub", "__radd__", "__rsub__"), _moving(_sum)),
    **dict.fromkeys(("mul", "multiply", "__rmul__"), _moving(_product)),
    **dict.fromkeys(
        ("div", "divide", "true_divide", "__rdiv__", "__rtruediv__"), _moving(_quotient)
    ),
}
"""Name of a function -> its rule."""
