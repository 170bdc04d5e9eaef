"""Rules for functions that move axes, slice, join and pad: where the channels are afterwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from torch import Tensor

from sigmascope.capture.axis_moves import MOVES, Shape
from sigmascope.symmetry.wiring.calls import Call, Rule, if_moving
from sigmascope.symmetry.wiring.ties import BOTH, Channels


def _same(call: Call) -> Channels:
    return call.channels


def reduced(call: Call) -> Channels:
    """Follow a permutation of the axes, or a sum or mean over positions."""
    channels = call.channels
    order = MOVES[call.name](call.source.ndim, call.args, dict(call.kwargs))
    if channels.axis not in order:
        raise call.refused("it is taken over the channels")
    return channels.at(order.index(channels.axis))


def reshaped(channels: Channels, source: Shape, output: Shape) -> Channels | None:
    """Return channels after a reshape; None where their axis is split.

    The axis may be joined with axes before and after it: each channel then occurs once for each of
    their positions.
    """
    before, count = math.prod(source[: channels.axis]), len(channels)
    behind = math.prod(source[channels.axis + 1 :])
    # The same axis first: a single channel is found on every axis, also on that of the samples.
    for axis in sorted(range(len(output)), key=lambda axis: axis != channels.axis):
        length, outside = output[axis], math.prod(output[:axis])
        if outside == 0 or before % outside or (length == 1 and count > 1):
            continue
        tiles = before // outside
        copies, rest = divmod(length, tiles * count)
        if copies and not rest and behind % copies == 0 and (length > 1 or count == 1):
            index = np.tile(np.repeat(np.arange(count), copies), tiles)
            return channels[index].at(axis)
    return None


def _reshaped(call: Call) -> Channels:
    channels = call.channels
    found = reshaped(channels, tuple(call.source.shape), tuple(call.output.shape))
    if found is None:
        shapes = f"from {tuple(call.source.shape)} to {tuple(call.output.shape)}"
        raise call.refused(f"{shapes} it splits the channels into groups")
    return found


def _expanded(call: Call) -> Channels:
    channels = call.channels
    axis = channels.axis - call.source.ndim + call.output.ndim
    if call.output.shape[axis] != len(channels):
        raise call.refused("it repeats the channels")
    return channels.at(axis)


def _cut(call: Call, channels: Channels, start: int, stop: int) -> Channels:
    """Return neighboring channels; those before them stay together, for the count of copies."""
    call.wiring.ties.keep_together(channels.place[:start])
    return channels[start:stop]


def _indexed(call: Call) -> Channels:
    channels = call.channels
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    order = MOVES["__getitem__"](call.source.ndim, call.args, {})
    if channels.axis not in order or any(isinstance(part, (list, Tensor)) for part in index):
        raise call.refused("channels can only be sliced; other axes also take numbers")
    parts: list[object] = []
    given = [one for one in index if one is not None]
    for part in given:
        filled = [slice(None)] * (call.source.ndim - len(given) + 1)
        parts += filled if part is Ellipsis else [part]
    part = parts[channels.axis] if channels.axis < len(parts) else slice(None)
    start, stop, step = part.indices(len(channels)) if isinstance(part, slice) else (0, 0, 0)
    if step != 1:
        raise call.refused("channels can only be sliced without a step")
    return _cut(call, channels, start, stop).at(order.index(channels.axis))


def _rolled(call: Call) -> Channels:
    channels = call.channels
    dims = call.argument(2, "dims")
    axes = (dims,) if isinstance(dims, int) else tuple(dims or ())
    if not axes or channels.axis in [axis % call.source.ndim for axis in axes]:
        raise call.refused("it rolls the channels; only positions may be rolled")
    return channels


def _split(call: Call) -> list[Channels | None]:
    channels = call.channels
    axis = call.argument(2, "dim", 0) % call.source.ndim
    if axis != channels.axis:
        return [channels] * len(call.output)
    ends = np.cumsum([part.shape[axis] for part in call.output]).tolist()
    return [_cut(call, channels, start, stop) for start, stop in pairwise([0, *ends])]


def joined(call: Call) -> Channels | None:
    """Follow tensors joined along the channels, or tied to each other along another axis."""
    tensors: Sequence[Tensor] = call.argument(0, "tensors")
    axis = call.argument(1, "dim", call.kwargs.get("axis", 0)) % tensors[0].ndim
    found = [call.wiring.of(tensor) for tensor in tensors]
    moving = [channels for channels in found if channels is not None]
    if not moving:
        return None
    if len({channels.axis for channels in moving}) > 1:
        raise call.refused("the channels of its tensors are on different axes")
    if axis != moving[0].axis:
        for channels in moving[1:]:
            call.tie(moving[0], channels, "they are joined along another axis")
        if len(moving) < len(tensors):
            for tensor in tensors:
                call.wiring.note_still(tensor)
            call.pin(moving[0], "they are joined with a tensor that does not move")
        return moving[0]
    both = zip(found, tensors, strict=True)
    return Channels.side_by_side([own or _still(call, tensor, axis) for own, tensor in both])


def _still(call: Call, tensor: Tensor, axis: int) -> Channels:
    """Return channels for a tensor without any: zeros are free to move, others are fixed."""
    channels = call.wiring.ties.fresh(tensor.shape[axis], axis)
    if not call.wiring.is_zero(tensor):
        call.wiring.note_still(tensor)
        call.pin(channels, "it does not move")
    return channels


def _padded(call: Call) -> Channels:
    channels = call.channels
    pads, mode = call.argument(1, "pad"), call.argument(2, "mode", "constant")
    value = call.argument(3, "value")
    if mode == "constant" and value:
        call.restrict(channels, "it is padded with a constant", *BOTH)
    back = call.source.ndim - 1 - channels.axis
    left, right = pads[2 * back : 2 * back + 2] if 2 * back < len(pads) else (0, 0)
    if not left and not right:
        return channels
    if mode != "constant" or value or left < 0 or right < 0:
        raise call.refused("channels may be padded with zeros only")
    ends = [call.wiring.ties.fresh(count, channels.axis) for count in (left, right)]
    return Channels.side_by_side([ends[0], channels, ends[1]])


KEPT = "clone contiguous cpu cuda data detach double float requires_grad to type"
AXES = "permute transpose swapaxes swapdims movedim moveaxis t T mT mean sum"

RULES: dict[str, Rule] = {
    "__getitem__": _indexed,
    "pad": _padded,
    "roll": _rolled,
    **dict.fromkeys(("chunk", "split", "tensor_split", "split_with_sizes"), _split),
    **dict.fromkeys(("expand", "broadcast_to"), _expanded),
    **dict.fromkeys(("flatten", "reshape", "squeeze", "unsqueeze", "view"), _reshaped),
    **dict.fromkeys(AXES.split(), reduced),
    **dict.fromkeys(KEPT.split(), _same),
}
SHAPE_RULES = {name: if_moving(rule) for name, rule in RULES.items()}
"""Name of a function -> its rule."""
