"""The table of activations: names of functions, and module classes that compute one in several
steps.

A function is known by the name under which torch dispatches it, whether it is called as `F.relu`,
`torch.relu`, `x.relu_()` or `torch.ops.aten.relu`. A module such as `nn.ReLU` needs no entry, since
it calls its function. A module that computes an activation in several steps, such as CLIP's
QuickGELU, has one: it counts as one call, and what it calls inside does not count.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import get_overridable_functions, handle_torch_function, has_torch_function

from sigmascope.errors import InputTypeError, OptionError

__all__ = [
    "FAMILIES",
    "chosen_kinds",
    "function_name",
    "kind_of_function",
    "kind_of_layer",
    "kind_of_module",
    "known_activations",
    "register_activation",
]

POINTWISE = (
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
)
SOFTMAX = ("gumbel_softmax", "log_softmax", "softmax", "softmin")
GATED = ("glu",)

# Names that torch gives to the same functions.
ALIASES = {
    "_log_softmax": "log_softmax",
    "_prelu_kernel": "prelu",
    "_softmax": "softmax",
    "_threshold": "threshold",
    "expit": "sigmoid",
    "hard_tanh": "hardtanh",
    "log_sigmoid": "logsigmoid",
    "special_expit": "sigmoid",
    "special_log_softmax": "log_softmax",
    "special_softmax": "softmax",
}
_FUNCTIONS = {**{name: name for name in (*POINTWISE, *SOFTMAX, *GATED)}, **ALIASES}

# Classes of other libraries and of many papers, known by name so that nothing has to be imported.
_NAMED_CLASSES = {
    "AccurateGELUActivation": "accurate_gelu",
    "BloomGelu": "new_gelu",
    "ClippedGELUActivation": "clipped_gelu",
    "FastGELUActivation": "fast_gelu",
    "GELUActivation": "gelu",
    "GELUTanh": "gelu",
    "HardMish": "hard_mish",
    "HardMishMe": "hard_mish",
    "HardSigmoid": "hardsigmoid",
    "HardSigmoidMe": "hardsigmoid",
    "HardSwish": "hardswish",
    "HardSwishMe": "hardswish",
    "Hsigmoid": "hardsigmoid",
    "Hswish": "hardswish",
    "LaplaceActivation": "laplace",
    "MemoryEfficientMish": "mish",
    "MemoryEfficientSwish": "silu",
    "MishActivation": "mish",
    "MishMe": "mish",
    "NewGELU": "new_gelu",
    "NewGELUActivation": "new_gelu",
    "OnnxHardSigmoid": "hardsigmoid",
    "QuickGELU": "quick_gelu",
    "QuickGELUActivation": "quick_gelu",
    "ReLUSquaredActivation": "relu_squared",
    "SiLUActivation": "silu",
    "Snake1d": "snake",
    "SnakeBeta": "snake",
    "SqrtSoftplusActivation": "sqrt_softplus",
    "SquaredReLU": "relu_squared",
    "StarReLU": "star_relu",
    "Swish": "silu",
    "SwishMe": "silu",
    "XIELUActivation": "xielu",
    "h_sigmoid": "hardsigmoid",
    "h_swish": "hardswish",
}
_registered_functions: dict[object, str] = {}  # a name, or a wrapper made here -> the kind
_registered_classes: dict[type[nn.Module], str] = {}

FAMILIES = MappingProxyType(
    {
        "pointwise": (*POINTWISE, *sorted({*_NAMED_CLASSES.values()} - {*POINTWISE})),
        "softmax": SOFTMAX,
        "gated": GATED,
    }
)
"""Family -> the kinds in it. What users register belongs to "pointwise"."""

Target = TypeVar("Target", bound=Callable[..., Any])


def kind_of_function(function: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Name the activation that a dispatched function computes, or return None.

    >>> kind_of_function(torch.relu_, (), {}), kind_of_function(nn.functional.hardtanh, (0, 0.0, 6.0), {})
    ('relu', 'relu6')
    """
    name = function_name(function)
    own = _registered_functions.get(function) or _registered_functions.get(name)
    if own is not None:
        return own
    kind = _FUNCTIONS.get(name)
    if kind == "hardtanh" and _limits(args, kwargs) == (0, 6):  # this is how nn.ReLU6 calls it
        return "relu6"
    return kind


def function_name(function: object) -> str:
    """Return the name of a function, the same for `relu`, `relu_` and `torch.ops.aten.relu.default`.

    Properties arrive as the `__get__` of their descriptor.
    """
    function = getattr(function, "_overloadpacket", function)
    name: str = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", "")
    return name if name.endswith("__") else name.removesuffix("_")


def kind_of_module(module: nn.Module) -> str | None:
    """Name the activation that a module computes in several steps, or return None.

    >>> class QuickGELU(nn.Module): ...
    >>> kind_of_module(QuickGELU()), kind_of_module(nn.ReLU())
    ('quick_gelu', None)
    """
    for base in type(module).__mro__:
        if base in _registered_classes:
            return _registered_classes[base]
    if type(module).__module__.startswith("torch.nn."):
        return None
    return _NAMED_CLASSES.get(type(module).__name__)


def kind_of_layer(module: nn.Module) -> str | None:
    """Name the activation that a module stands for, whether it calls a function of torch or is
    known itself, or return None.

    >>> kind_of_layer(nn.LeakyReLU()), kind_of_layer(nn.Linear(1, 1))
    ('leaky_relu', None)
    """
    if type(module).__module__ == nn.ReLU.__module__:
        name = type(module).__name__.lower()
        return next(
            (kind for kind in {*_FUNCTIONS.values()} if kind.replace("_", "") == name), None
        )
    return kind_of_module(module)


def known_activations() -> dict[str, list[str]]:
    """List the kinds that are recognized, by family; what users registered is among the "pointwise"
    ones.
    """
    listing = {family: list(kinds) for family, kinds in FAMILIES.items()}
    own = {*_registered_functions.values(), *_registered_classes.values()} - set().union(
        *FAMILIES.values()
    )
    listing["pointwise"] += sorted(own)
    return listing


def chosen_kinds(activations: str | Collection[str]) -> frozenset[str]:
    """Return the kinds that a choice stands for: "all", names of families, names of kinds, or
    several of them.

    "gated" ones are always among them, so that they are listed with the reason why they have no
    score.

    Raises:
        OptionError: an unknown name.
    """
    known = known_activations()
    every = set().union(*known.values())
    if not isinstance(activations, (str, Collection)):
        raise OptionError(
            f"activations={activations!r} is not a choice. Pass 'pointwise', 'all', or names "
            "of activations."
        )
    kinds: set[str] = set(GATED)
    for name in [activations] if isinstance(activations, str) else activations:
        if name == "all":
            kinds |= every
        elif name in known:
            kinds |= set(known[name])
        elif name in every:
            kinds.add(name)
        else:
            raise OptionError(
                f"activations={name!r} is not known. Choose 'all', a family "
                f"({', '.join(known)}) or kinds: "
                f"{', '.join(sorted(every))}. Add your own with sigmascope.register_activation."
            )
    return frozenset(kinds)


def register_activation(target: Target, kind: str | None = None) -> Target:
    """Make a function or a module class known as an activation; as a decorator or as a call.

    Args:
        target: a subclass of `nn.Module`, each call of which is then one activation, whatever it
            calls inside; a function of torch, which is then known by its name, also as a method or
            in place; or any Python function of a tensor.
        kind: how to call it; by default its own name.

    Returns:
        The class or the function of torch itself. For a Python function a wrapper, which is to be
        called instead of it.

    Raises:
        InputTypeError: neither a module class nor a function.

    >>> @register_activation
    ... def squared_relu(x):
    ...     return torch.relu(x) ** 2
    >>> squared_relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 4.])
    """
    if kind is not None and not (isinstance(kind, str) and kind):
        raise InputTypeError(f"kind={kind!r} is no name. Pass a short name such as 'squared_relu'.")
    name = kind or str(getattr(target, "__name__", "activation"))
    if inspect.isclass(target) and issubclass(target, nn.Module):
        _registered_classes[target] = name
        return target
    if not callable(target) or inspect.isclass(target) or isinstance(target, nn.Module):
        raise InputTypeError(
            f"{target!r:.80} is no activation to register. Pass a module class (not an "
            "instance) or a function of a tensor."
        )
    if _is_dispatched(target):
        _registered_functions[function_name(target)] = name
        return target
    wrapper: Target = _dispatched(target, name)
    return wrapper


def _is_dispatched(function: object) -> bool:
    """Tell whether torch lets others see calls of a function."""
    return isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)) or any(
        function is known
        for functions in get_overridable_functions().values()
        for known in functions
    )


def _dispatched(function: Callable[..., Any], name: str) -> Any:
    @functools.wraps(function)
    def visible(*args: Any, **kwargs: Any) -> Any:
        tensors = tuple(one for one in (*args, *kwargs.values()) if isinstance(one, Tensor))
        if has_torch_function(tensors):
            return handle_torch_function(visible, tensors, *args, **kwargs)
        return function(*args, **kwargs)

    _registered_functions[visible] = name
    return visible


def _limits(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    low = args[1] if len(args) > 1 else kwargs.get("min_val", -1.0)
    high = args[2] if len(args) > 2 else kwargs.get("max_val", 1.0)
    return low, high
