"""The table of functions through which channels are followed; others are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.capture.activations import ALIASES, POINTWISE, kind_of_function
from sigmascope.capture.nested import tensors_in
from sigmascope.symmetry.group_table import GROUPS, find_group
from sigmascope.symmetry.groups import Group
from sigmascope.symmetry.wiring.arithmetic import ARITHMETIC_RULES
from sigmascope.symmetry.wiring.calls import Call, Rule, if_moving
from sigmascope.symmetry.wiring.shapes import SHAPE_RULES, joined, reduced
from sigmascope.symmetry.wiring.ties import BOTH, MAGNITUDE, SIGN, Channels
from sigmascope.symmetry.wiring.weights import WEIGHT_RULES, attention

LOSES = {"one": BOTH, "signs": (MAGNITUDE,), "positive": (SIGN,), "nonzero": (), "linear": ()}
"""Scalars that a group admits -> freedoms that a scale loses."""

# Functions of one number beside the activations: any of them commutes with permutations.
OTHER_POINTWISE = """
    acos acosh asin asinh atan atanh cos cosh erf erfc exp expm1 floor log log1p log2 reciprocal
    round rsqrt sign sin sinh sqrt tan trunc
"""
AVERAGES = [f"{kind}avg_pool{axes}d" for kind in ("adaptive_", "") for axes in "123"]
MAXIMA = [
    f"{kind}max_pool{axes}d{places}"
    for kind in ("adaptive_", "")
    for axes in "123"
    for places in ("", "_with_indices")
]
DROPOUTS = "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout"


def _parameters(kind: str, call: Call) -> dict[str, float]:
    if kind == "leaky_relu":
        return {"slope": call.argument(1, "negative_slope", 0.01)}
    return {"alpha": call.argument(1, "alpha", 1.0)} if kind in ("elu", "celu") else {}


def _group_of(call: Call) -> Group | None:
    """Return the group of the activation; None if only permutations are known to commute."""
    kind = kind_of_function(call.function, call.args, dict(call.kwargs)) or call.name
    limits = call.argument(1, "min_val", -1.0), call.argument(2, "max_val", 1.0)
    if kind == "hardtanh" and limits[0] != -limits[1]:
        return None
    return find_group(kind, _parameters(kind, call)) if kind in GROUPS else None


def _through(call: Call, group: Group | None) -> Channels:
    """Follow channels through an activation: restricted to its group, and mapped by φ."""
    channels = call.channels
    if group is None:
        call.restrict(channels, f"{call.name} admits permutations", *BOTH)
        return channels
    call.restrict(channels, f"{group.name} admits {group.scalars}", *LOSES[group.scalars.name])
    image = float(group.image(torch.tensor(-2.0, dtype=torch.float64)))
    exponent = channels.exponent * round(float(np.log2(abs(image))))
    return replace(channels, exponent=exponent, signed=channels.signed & (image < 0))


def _activation(call: Call) -> Channels:
    return _through(call, _group_of(call))


def _relu_at_random(call: Call) -> Channels | None:
    if call.argument(3, "training", False):
        raise call.refused("it is random. Call it in evaluation mode")
    return None if _same(call) is None else _through(call, find_group("relu", {}))


def _power(call: Call) -> Channels:
    degree = 2 if call.name == "square" else call.argument(1, "exponent")
    if isinstance(degree, Tensor):
        raise call.refused("its exponent is a tensor")
    whole = degree == int(degree) and degree >= 1
    return _through(call, find_group("power", {"degree": int(degree)}) if whole else None)


def _clamp(call: Call) -> Channels | None:
    low, high = call.argument(1, "min"), call.argument(2, "max")
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        raise call.refused("its limits are tensors")
    if _same(call) is None:
        return None
    return _through(call, find_group("relu", {}) if low == 0 and high is None else None)


def _maximum(call: Call) -> Channels | list[Channels | None]:
    channels = _average(call)
    call.restrict(channels, "max pooling commutes with d > 0 only", SIGN)
    return [channels, None] if isinstance(call.output, tuple) else channels


def _greatest(call: Call) -> Channels:
    channels = reduced(call)
    call.restrict(channels, "a maximum commutes with d > 0 only", SIGN)
    return channels


def _same(call: Call) -> Channels | None:
    return call.wiring.of(call.source)


def _average(call: Call) -> Channels:
    """Follow a pooling, which runs over the last axes: as many as its name says."""
    axes = next(int(letter) for letter in call.name if letter.isdigit())
    return _in_front(call, call.source.ndim - axes - 1, "it pools over the channels")


def _resized(call: Call) -> Channels:
    return _in_front(call, 1, "it interpolates between the channels")


def _in_front(call: Call, axis: int, otherwise: str) -> Channels:
    """Return the channels, which must be on the axis before the positions."""
    channels = call.channels
    if channels.axis != axis:
        raise call.refused(f"{otherwise}: they are on axis {channels.axis}, not on axis {axis}")
    return channels


def _dropout(call: Call) -> Channels | None:
    if call.argument(2, "training", True):
        raise call.refused("it is random. Use nn.Dropout, or pass training=self.training")
    return _same(call)


def _neighbors(call: Call) -> Channels:
    call.pin(call.channels, "it mixes neighboring channels")
    return call.channels


def _alone(rule: Rule) -> Rule:
    """Refuse a call in which something beside the first argument moves."""

    def checked(call: Call) -> Channels | list[Channels | None] | None:
        others = (
            one for one in tensors_in((call.args, dict(call.kwargs))) if one is not call.source
        )
        if any(call.wiring.of(tensor) is not None for tensor in others):
            raise call.refused("another argument than the first one moves")
        return rule(call)

    return checked


def _rows(names: str | Iterable[str], rule: Callable[[Call], Any]) -> dict[str, Rule]:
    return dict.fromkeys(names.split() if isinstance(names, str) else names, rule)


JOINING: dict[str, Rule] = {
    **ARITHMETIC_RULES,
    **_rows("cat concat concatenate", joined),
    **_rows("multi_head_attention_forward", attention),
    **_rows(
        "expand_as reshape_as type_as view_as",
        lambda call: SHAPE_RULES[call.name.removesuffix("_as")](call),
    ),
}
"""Functions of several tensors that may move."""

ALONE: dict[str, Rule] = {
    **_rows(OTHER_POINTWISE, if_moving(_activation)),
    **_rows((*POINTWISE, *ALIASES), if_moving(_activation)),
    **_rows("abs softmax log_softmax", if_moving(_activation)),
    **_rows(DROPOUTS, _dropout),
    **_rows(AVERAGES, if_moving(_average)),
    **_rows("interpolate upsample", if_moving(_resized)),
    **_rows(MAXIMA, if_moving(_maximum)),
    **_rows("amax", if_moving(_greatest)),
    **_rows("neg negative", _same),
    **_rows("local_response_norm", if_moving(_neighbors)),
    **_rows("pow square", if_moving(_power)),
    **_rows("clamp clip clamp_min", _clamp),
    **_rows("rrelu", _relu_at_random),
    **SHAPE_RULES,
    **WEIGHT_RULES,
}
"""Functions of one tensor that may move, with parameters or without."""

RULES = MappingProxyType({**{name: _alone(rule) for name, rule in ALONE.items()}, **JOINING})
"""Name of a function -> the rule by which its channels are followed."""
