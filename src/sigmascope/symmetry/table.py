"""The table of intertwiner groups. A new activation is one row here; the law tests run over all of
them.

Why a scale λ ≠ 1 is, or is not, admissible, that is σ(λx) = μ σ(x) for some μ and all x:

- at 0: σ(0) ≠ 0 forces μ = 1. If σ(x)/x is continuous at 0 and μ = λ ≠ ±1, then σ(x)/x is constant
    and σ linear.
- at ±∞: a finite limit other than 0 forces μ = ±1; linear growth forces |μ| = |λ|. A negative λ
  swaps the two ends, which must then be alike up to a factor.
- between: x is a kink of σ(λ·) when λx is a kink of σ, so a finite set of kinks other than 0 forces
    |λ| = 1.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.errors import OptionError
from sigmascope.symmetry.groups import Group
from sigmascope.symmetry.scalars import (
    ABSOLUTE,
    SAME,
    SCALARS,
    ScalarMap,
    is_real,
    is_whole,
    raised,
)

__all__ = ["GROUPS", "find_group"]

Sigma = Callable[[Tensor], Tensor]


def _gaussian(x: Tensor) -> Tensor:
    return torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)


def _softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))  # torch's softplus is the identity beyond 20


def _group(
    name: str, sigma: Sigma, scalars: str, image: ScalarMap = SAME, **parameters: float
) -> Group:
    return Group(name, sigma, SCALARS[scalars], image, tuple(parameters.items()))


def _leaky_relu(slope: float = 0.01) -> Group:
    special = {1.0: "identity", 0.0: "relu", -1.0: "abs"}.get(slope)
    if special is not None:
        return find_group(special, {})
    return _group(
        "leaky_relu", partial(F.leaky_relu, negative_slope=slope), "positive", slope=slope
    )


def _power(degree: float = 2) -> Group:
    if degree < 1 or degree != int(degree):
        raise OptionError(
            f"degree={degree!r}: only whole powers from 1 on have a group here. Pass 2, 3, …"
        )
    if degree == 1:
        return find_group("identity", {})
    return _group(
        "power",
        partial(torch.pow, exponent=int(degree)),
        "nonzero",
        raised(int(degree)),
        degree=int(degree),
    )


def _elu(alpha: float = 1.0) -> Group:
    return (
        _group("elu", partial(F.elu, alpha=alpha), "one", alpha=alpha)
        if alpha
        else find_group("relu", {})
    )


def _celu(alpha: float = 1.0) -> Group:
    if alpha == 0:
        raise OptionError(
            "alpha=0: celu divides by it. Pass another number, or use relu, its limit."
        )
    return _group("celu", partial(F.celu, alpha=alpha), "one", alpha=alpha)


def _hardtanh(low: float = -1.0, high: float = 1.0) -> Group:
    if low >= high:
        raise OptionError(
            f"low={low:g} and high={high:g}: hardtanh with these is constant. Pass low < high."
        )
    scalars = "signs" if low == -high else "one"
    return _group(
        "hardtanh", partial(F.hardtanh, min_val=low, max_val=high), scalars, low=low, high=high
    )


_FIXED = (
    _group("abs", torch.abs, "nonzero", ABSOLUTE),
    _group("gaussian", _gaussian, "signs", ABSOLUTE),
    _group("gelu", F.gelu, "one"),
    _group("hardshrink", F.hardshrink, "signs"),
    _group("hardsigmoid", F.hardsigmoid, "one"),
    _group("hardswish", F.hardswish, "one"),
    _group("identity", torch.clone, "linear"),
    _group("logsigmoid", F.logsigmoid, "one"),
    _group("mish", F.mish, "one"),
    _group("new_gelu", partial(F.gelu, approximate="tanh"), "one"),
    _group("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), "one"),
    _group("relu", torch.relu, "positive"),
    _group("relu6", F.relu6, "one"),
    _group("relu_squared", lambda x: torch.relu(x).square(), "positive", raised(2)),
    _group("selu", F.selu, "one"),
    _group("sigmoid", torch.sigmoid, "one"),
    _group("silu", F.silu, "one"),
    _group("sin", torch.sin, "signs"),
    _group("softplus", _softplus, "one"),
    _group("softshrink", F.softshrink, "signs"),
    _group("softsign", F.softsign, "signs"),
    _group("tanh", torch.tanh, "signs"),
    _group("tanhshrink", F.tanhshrink, "signs"),
)

GROUPS: Mapping[str, Group | Callable[..., Group]] = MappingProxyType(
    {
        **{row.name: row for row in _FIXED},
        "celu": _celu,
        "elu": _elu,
        "hardtanh": _hardtanh,
        "leaky_relu": _leaky_relu,
        "power": _power,
    }
)
"""Name of an activation -> its group, or the function of its parameters that makes it."""


def find_group(name: str, parameters: Mapping[str, Any]) -> Group:
    """Return the group of a row; see `sigmascope.symmetry.group`."""
    check_choice("activation", name, sorted(GROUPS))
    row = GROUPS[name]
    known = [] if isinstance(row, Group) else [*inspect.signature(row).parameters]
    for key, value in parameters.items():
        if key not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no parameter"
            raise OptionError(f"{name} has no parameter {key!r}: it {takes}.")
        if not is_real(value) or not math.isfinite(value):
            raise OptionError(f"{key}={value!r:.40} is no value for {name}. Pass a finite number.")
    # Scalars of NumPy become numbers of Python, as which they are printed and compared.
    numbers = {
        key: int(value) if is_whole(value) else float(value) for key, value in parameters.items()
    }
    return row if isinstance(row, Group) else row(**numbers)
