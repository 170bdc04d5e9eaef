"""Products of queries and keys, whose channels are positions of a sequence."""

from __future__ import annotations

from sigmascope.capture.elementwise import SUMS
from sigmascope.capture.flow import GLU, NOWHERE, Flow, places, tensors_of_step
from sigmascope.capture.steps import Place, Step

# Product -> where its second factor is among its tensors.
FACTORS = {"matmul": 1, "__matmul__": 1, "bmm": 1, "baddbmm": 2, "__rmatmul__": 0}
# They hide some positions, or add a column for none of them.
MASKING = ("cat", "masked_fill", "where")


def is_attention_map(flow: Flow, place: Place) -> bool:
    """Return whether a tensor is a product of queries and keys, or an affine function of one.

    A mask or a bias may have been added, whatever it depends on.
    """
    waiting, seen = [place], set[int]()
    while waiting:
        number = flow.step_of(waiting.pop())
        if number == NOWHERE or number in seen:
            continue
        seen.add(number)
        step = flow.steps[number]
        if _contracts_channels(flow, step):
            return True
        # an activation of a map is one, as a softmax after a soft cap is
        further = number in flow.ends and flow.fact(number).kind != GLU
        if further or flow.passes(number) or step.name in SUMS or step.name in MASKING:
            waiting += flow.moving(number)
    return False


def _contracts_channels(flow: Flow, step: Step) -> bool:
    """Return whether a step sums over the channels of two tensors of the samples.

    Weights times values sum over positions, and leave the channels of the values.
    """
    if len(places(step)) < 2 or not all(map(flow.depends, places(step)[-2:])):
        return False
    if step.name == "einsum":
        return _is_summed(step)
    operands = tensors_of_step(step)
    which = FACTORS.get(step.name)
    if which is None or which >= len(operands):
        return False
    keys = operands[which]
    return isinstance(keys, Place) and len(keys.shape) - 2 in _channel_axes(keys)


def _is_summed(step: Step) -> bool:
    """Return whether an einsum of two tensors sums over the channels of both."""
    equation, factors = step.args[0], places(step)
    if not isinstance(equation, str) or "->" not in equation or len(factors) != 2:
        return False
    terms, output = equation.replace(" ", "").split("->")
    summed = []
    for letters, factor in zip(terms.split(","), factors, strict=False):
        ends = letters.rpartition("...")[2]  # letters from the back, which dots do not shift
        axes = [axis - len(factor.shape) for axis in _channel_axes(factor)]
        summed.append({ends[axis] for axis in axes if -len(ends) <= axis} - {*output})
    return len(summed) == 2 and bool(summed[0] & summed[1])


def _channel_axes(place: Place) -> tuple[int, ...]:
    trace = None if place.mark is None else place.mark.trace
    return () if trace is None else (trace.axis, *trace.pieces)
