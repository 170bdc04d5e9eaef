"""Rules for functions with parameters: how a weight follows the channels on both sides."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from sigmascope.symmetry.wiring.calls import Call, Rule
from sigmascope.symmetry.wiring.heads import Heads, Rows
from sigmascope.symmetry.wiring.ties import BOTH, SIGN, Channels
from sigmascope.symmetry.wiring.turns import Factor, Turn

EPS = "batch norm divides by √(var + eps): scale behind it, or pass exact_eval=True"


def _owned(call: Call, *tensors: Tensor | None) -> None:
    """Refuse a weight that is neither a parameter nor a buffer."""
    for tensor in tensors:
        if tensor is not None and call.wiring.parameter(tensor) is None:
            raise call.refused("its weight, bias or statistics are computed, not parameters")


def _along(axis: int, channels: Channels, *factors: Factor) -> Turn:
    return Turn(channels.at(axis), factors or ((channels, "value"),))


def _linear(call: Call) -> Channels:
    weight, bias = call.argument(1, "weight"), call.argument(2, "bias")
    _owned(call, weight, bias)
    before = call.wiring.of(call.source)
    if before is not None and before.axis != call.source.ndim - 1:
        raise call.refused(f"it mixes the last axis; its input has channels on axis {before.axis}")
    after = call.fresh(len(weight), call.output.ndim - 1)
    incoming = [] if before is None else [_along(1, before, (before, "inverse"))]
    call.wiring.turn(weight, _along(0, after), *incoming)
    call.wiring.turn(bias, _along(0, after))
    return after


def _convolution(call: Call) -> Channels:
    weight, bias = call.argument(1, "weight"), call.argument(2, "bias")
    groups = call.argument(6, "groups", 1)
    _owned(call, weight, bias)
    before, axis = _before(call, weight.ndim), call.output.ndim - weight.ndim + 1
    if before is not None and groups == len(before) > 1:
        return _depthwise(call, before, weight, bias)
    after = call.fresh(len(weight), axis)
    incoming = []
    width, rows = weight.shape[1], len(weight) // groups
    for number in range(groups):  # permutations stay inside a group
        part = number * rows, (number + 1) * rows
        call.wiring.ties.keep_together(after.place[slice(*part)])
        if before is not None:
            channels = before[number * width : (number + 1) * width]
            call.wiring.ties.keep_together(channels.place)
            incoming.append(Turn(channels.at(1), ((channels, "inverse"),), rows=part))
    call.wiring.turn(weight, _along(0, after), *incoming)
    call.wiring.turn(bias, _along(0, after))
    return after


def _depthwise(call: Call, before: Channels, weight: Tensor, bias: Tensor | None) -> Channels:
    """Follow a filter of each channel by itself: places stay, scales are free again."""
    wide = before[np.repeat(np.arange(len(before)), len(weight) // len(before))]
    after = call.rescaled(wide)
    call.wiring.turn(weight, _along(0, after, (after, "value"), (wide, "inverse")))
    call.wiring.turn(bias, _along(0, after))
    return after


def _transposed_convolution(call: Call) -> Channels:
    weight, bias = call.argument(1, "weight"), call.argument(2, "bias")
    _owned(call, weight, bias)
    if call.argument(6, "groups", 1) != 1:
        raise call.refused("there is no rule for transposed convolutions in groups")
    before, axis = _before(call, weight.ndim), call.output.ndim - weight.ndim + 1
    after = call.fresh(weight.shape[1], axis)
    incoming = [] if before is None else [_along(0, before, (before, "inverse"))]
    call.wiring.turn(weight, _along(1, after), *incoming)
    call.wiring.turn(bias, _along(0, after))
    return after


def _before(call: Call, ndim: int) -> Channels | None:
    """Return the channels that enter a convolution; its input may lack the axis of the samples."""
    before = call.wiring.of(call.source)
    if before is not None and before.axis != call.source.ndim - ndim + 1:
        raise call.refused(f"axis {before.axis} of its input holds channels, not positions")
    return before


def _batch_norm(call: Call) -> Channels | None:
    mean, variance = call.argument(1, "running_mean"), call.argument(2, "running_var")
    weight, bias = call.argument(3, "weight"), call.argument(4, "bias")
    eps = call.argument(7, "eps", 1e-5)
    _owned(call, mean, variance, weight, bias)
    training = call.argument(5, "training", False)
    if call.wiring.of(call.source) is None:
        return None
    before = call.channels
    if before.axis != 1:
        raise call.refused(f"its channels must be on axis 1, not on axis {before.axis}")
    if call.wiring.exact_eval and variance is not None:
        call.wiring.floors.append((before, (eps / (variance + eps)).sqrt().double().cpu().numpy()))
    if eps and (training or not call.wiring.exact_eval):
        why = "batch norm divides by √(var + eps) of the batch" if training else EPS
        call.restrict(before, why, *BOTH)
    after = _affine(call, before, weight, bias, signs=True)
    call.wiring.turn(mean, _along(0, before))
    square = Turn(before.at(0), ((before, "square"),), shift=eps if call.wiring.exact_eval else 0.0)
    call.wiring.turn(variance, square)
    return after


def _affine(
    call: Call, before: Channels, weight: Tensor | None, bias: Tensor | None, *, signs: bool = False
) -> Channels:
    """Follow the gain and offset of a norm, with which new scales begin; without a gain, none."""
    if weight is None:
        call.restrict(before, "the output of a norm without a gain cannot be scaled", *BOTH)
        after = before
    else:
        after = call.rescaled(before)
        factors: list[Factor] = [(after, "value")]
        if signs:
            factors.append((before, "sign"))
        call.wiring.turn(weight, Turn(after.at(0), tuple(factors)))
    call.wiring.turn(bias, _along(0, after))
    return after


def _norm(position: int) -> Rule:
    """Return the rule of a norm over several channels, with the position of its gain argument."""

    def rule(call: Call) -> Channels | None:
        weight = call.argument(position, "weight")
        bias = None if call.name == "rms_norm" else call.argument(position + 1, "bias")
        _owned(call, weight, bias)
        if call.wiring.of(call.source) is None:
            return None
        before = call.channels
        if call.name == "instance_norm" and call.argument(1, "running_mean") is not None:
            raise call.refused("there is no rule for its running statistics")
        _check_extent(call, before)
        call.restrict(before, f"{call.name.replace('_', ' ')} mixes channels", *BOTH)
        return _affine(call, before, weight, bias)

    return rule


def _check_extent(call: Call, before: Channels) -> None:
    if call.name == "group_norm":
        for part in np.split(before.place, call.argument(1, "num_groups")):
            call.wiring.ties.keep_together(part)
    expected = 1 if call.name in ("group_norm", "instance_norm") else call.source.ndim - 1
    shape = call.argument(1, "normalized_shape", (0,))
    if before.axis != expected or (call.name in ("layer_norm", "rms_norm") and len(shape) != 1):
        raise call.refused(
            f"it does not normalize over the axis of the channels, {before.axis}, alone"
        )


def _prelu(call: Call) -> Channels | None:
    weight, channels = call.argument(1, "weight"), call.wiring.of(call.source)
    _owned(call, weight)
    if channels is None:
        return None
    call.restrict(channels, "prelu admits d > 0", SIGN)
    if weight.numel() > 1:
        if channels.axis != 1:
            raise call.refused(f"its slopes are for axis 1; channels are on axis {channels.axis}")
        call.wiring.turn(weight, Turn(channels.at(0), ()))
    else:
        call.wiring.note_still(weight)
    return channels


def _embedding(call: Call) -> Channels:
    weight = call.argument(1, "weight")
    _owned(call, weight)
    if call.argument(3, "max_norm") is not None:
        raise call.refused("max_norm rescales rows by their length")
    after = call.fresh(weight.shape[1], call.output.ndim - 1)
    call.wiring.turn(weight, _along(1, after))
    return after


def attention(call: Call) -> list[Channels | None]:
    """Move what enters and what leaves; inside, the heads (see `Heads`)."""
    weight, out_weight = call.argument(5, "in_proj_weight"), call.argument(11, "out_proj_weight")
    out_bias, joint = call.argument(12, "out_proj_bias"), weight is not None
    names = [f"{one}_proj_weight" for one in "qkv"]
    separate = [call.argument(18 + number, name) for number, name in enumerate(names)]
    parts = [weight] * 3 if joint else separate
    _owned(call, out_weight, out_bias, *parts)
    masks = call.argument(14, "key_padding_mask"), call.argument(16, "attn_mask")
    if any(call.wiring.of(mask) is not None for mask in masks):
        raise call.refused("its mask is computed from channels")
    turns: dict[int, list[Turn]] = {}
    for number, name in enumerate(("query", "key", "value")):
        entering = call.argument(number, name)
        channels = call.wiring.of(entering)
        if channels is None:
            continue
        if channels.axis != entering.ndim - 1:
            raise call.refused(f"axis {channels.axis} of its {name}, not the last, holds channels")
        width = out_weight.shape[1]
        rows = (number * width, (number + 1) * width) if joint else (0, None)
        turn = Turn(channels.at(1), ((channels, "inverse"),), rows=rows)
        turns.setdefault(0 if joint else number, []).append(turn)
    for number, own in turns.items():
        call.wiring.turn(parts[number], *own)
    _note_heads(call, parts, out_weight, joint=joint)
    after = call.fresh(len(out_weight), call.output[0].ndim - 1)
    call.wiring.turn(out_weight, _along(0, after))
    call.wiring.turn(out_bias, _along(0, after))
    return [after, None]


def _note_heads(call: Call, parts: list[Tensor], out_weight: Tensor, *, joint: bool) -> None:
    """Note the heads of an attention, unless something tells one head from another."""
    biases = call.argument(7, "bias_k"), call.argument(8, "bias_v")
    statics = call.argument(21, "static_k"), call.argument(22, "static_v")
    mask, bias = call.argument(16, "attn_mask"), call.argument(6, "in_proj_bias")
    apart = call.output[1] is not None and not call.argument(23, "average_attn_weights", True)
    known = bias is None or call.wiring.parameter(bias) is not None
    if apart or not known or (mask is not None and mask.ndim == 3):
        return
    if any(one is not None for one in (*biases, *statics)):
        return
    size, count = out_weight.shape[1], call.argument(4, "num_heads")
    names = [call.wiring.parameter(part) or "" for part in parts]
    bias_name = None if bias is None else call.wiring.parameter(bias)
    inputs = [
        Rows(name, bias_name, number * size if joint else 0, number * size)
        for number, name in enumerate(names)
    ]
    output = call.wiring.parameter(out_weight) or ""
    heads = Heads(call.site, count, size // count, (inputs[0], inputs[1], inputs[2]), output)
    call.wiring.heads.append(heads)


WEIGHT_RULES: dict[str, Rule] = {
    "batch_norm": _batch_norm,
    "embedding": _embedding,
    "group_norm": _norm(2),
    "instance_norm": _norm(3),
    "layer_norm": _norm(2),
    "linear": _linear,
    "prelu": _prelu,
    "rms_norm": _norm(2),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed_convolution
    ),
}
"""Name of a function -> its rule."""
