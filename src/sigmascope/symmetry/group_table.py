"""The table of intertwiner groups. A new activation is one row; the law tests cover all of them.

Why a scale λ ≠ 1 is, or is not, admissible, that is σ(λx) = μ σ(x) for some μ and all x:

- at 0: σ(0) ≠ 0 forces μ = 1. If σ(x)/x is continuous at 0 and μ = λ ≠ ±1, then σ(x)/x is constant
  and σ linear.
- at ±∞: a finite limit other than 0 forces μ = ±1; linear growth forces |μ| = |λ|. A negative λ
  swaps the two ends, which must then agree up to a factor.
- between: x is a kink of σ(λ·) if λx is a kink of σ, so a finite set of kinks other than 0 forces
  |λ| = 1.

Godfrey et al., NeurIPS 2022, arXiv:2205.14258.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.checks import check_choice, check_whole
from sigmascope.errors import OptionError
from sigmascope.symmetry.groups import Group
from sigmascope.symmetry.scalars import ABSOLUTE, SAME, SCALARS, ScalarMap, raised

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
    k = check_whole("degree", int(degree) if degree == int(degree) else degree, 1)
    if k == 1:
        return find_group("identity", {})
    return _group("power", partial(torch.pow, exponent=k), "nonzero", raised(k), degree=k)


def _elu(alpha: float = 1.0) -> Group:
    if alpha == 0:
        return find_group("relu", {})
    return _group("elu", partial(F.elu, alpha=alpha), "one", alpha=alpha)


def _celu(alpha: float = 1.0) -> Group:
    if alpha == 0:
        raise OptionError("alpha must not be 0: celu divides by it. Use relu, its limit.")
    return _group("celu", partial(F.celu, alpha=alpha), "one", alpha=alpha)


def _hardtanh(low: float = -1.0, high: float = 1.0) -> Group:
    if low >= high:
        raise OptionError(f"hardtanh needs low < high, got low={low:g} and high={high:g}.")
    sigma = partial(F.hardtanh, min_val=low, max_val=high)
    return _group("hardtanh", sigma, "signs" if low == -high else "one", low=low, high=high)


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
            takes = ", ".join(known) or "no parameter"
            raise OptionError(f"{name} has no parameter {key!r}: it takes {takes}.")
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise OptionError(f"{key} of {name} must be a finite number, got {value!r:.40}.")
    # NumPy scalars become Python numbers, as which they are printed and compared.
    numbers = {
        key: int(value) if isinstance(value, Integral) else float(value)
        for key, value in parameters.items()
    }
    return row if isinstance(row, Group) else row(**numbers)
