"""The table of activations: functions by name, and module classes that take several steps.

A function is known by the name under which torch dispatches it, whether it is called as `F.relu`,
`torch.relu`, `x.relu_()` or `torch.ops.aten.relu`. A module such as `nn.ReLU` needs no entry, since
it calls its function. A module that computes an activation in several steps, such as CLIP's
QuickGELU, has one: it counts as one call, and the functions it calls do not count.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import MappingProxyType
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import get_overridable_functions, handle_torch_function, has_torch_function

from sigmascope.capture.words import words
from sigmascope.errors import InputTypeError, OptionError

POINTWISE = words("""
    celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish prelu relu
    relu6 rrelu selu sigmoid silu softplus softshrink softsign tanh tanhshrink threshold
""")
SOFTMAX = ("gumbel_softmax", "log_softmax", "softmax", "softmin")
GATED = ("glu",)
MIXING = frozenset((*SOFTMAX, *GATED))  # of which an output depends on several inputs

# Formulas that are recognized only where they are written out.
WRITTEN = ("elementwise", "sin")

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
_LAYERS = {kind.replace("_", ""): kind for kind in _FUNCTIONS.values()}

# Functions of torch that compute a kind without parameters of their own, and nothing else.
_PLAIN: dict[object, str] = {
    **dict.fromkeys((F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_), "relu"),
    **dict.fromkeys((F.relu6, F.hardtanh), "relu6"),
    F.silu: "silu",
}

# Kind -> classes of other libraries and of many papers, by name so that nothing is imported.
CLASSES = {
    "accurate_gelu": "AccurateGELUActivation",
    "clipped_gelu": "ClippedGELUActivation",
    "fast_gelu": "FastGELUActivation",
    "gelu": "GELUActivation GELUTanh",
    "hard_mish": "HardMish HardMishMe",
    "hardsigmoid": "HardSigmoid HardSigmoidMe Hsigmoid OnnxHardSigmoid h_sigmoid",
    "hardswish": "HardSwish HardSwishMe Hswish h_swish",
    "laplace": "LaplaceActivation",
    "mish": "MemoryEfficientMish MishActivation MishMe",
    "new_gelu": "BloomGelu NewGELU NewGELUActivation",
    "quick_gelu": "QuickGELU QuickGELUActivation",
    "relu_squared": "ReLUSquaredActivation SquaredReLU",
    "silu": "MemoryEfficientSwish SiLUActivation Swish SwishMe",
    "snake": "Snake1d SnakeBeta",
    "sqrt_softplus": "SqrtSoftplusActivation",
    "star_relu": "StarReLU",
    "xielu": "XIELUActivation",
}
_NAMED_CLASSES = {name: kind for kind, names in CLASSES.items() for name in words(names)}
_registered_functions: dict[object, str] = {}  # a name, or a wrapper made here -> the kind
_registered_classes: dict[type[nn.Module], str] = {}

own_modes = 0  # that are active, and only look
FAMILIES = MappingProxyType(
    {
        "pointwise": (*POINTWISE, *sorted({*CLASSES} - {*POINTWISE}), *WRITTEN),
        "softmax": SOFTMAX,
        "gated": GATED,
    }
)
"""Family -> its kinds. Kinds that users register belong to "pointwise"."""

Target = TypeVar("Target", bound=Callable[..., Any])


def kind_of_function(function: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return the kind of activation that a dispatched function computes, or None.

    >>> kind_of_function(torch.relu_, (), {})
    'relu'
    >>> kind_of_function(nn.functional.hardtanh, (0, 0.0, 6.0), {})
    'relu6'
    """
    name = function_name(function)
    own = _registered_functions.get(function) or _registered_functions.get(name)
    if own is not None:
        return own
    kind = _FUNCTIONS.get(name)
    if kind == "hardtanh":
        low = args[1] if len(args) > 1 else kwargs.get("min_val", -1.0)
        high = args[2] if len(args) > 2 else kwargs.get("max_val", 1.0)
        return "relu6" if (low, high) == (0, 6) else kind  # this is how nn.ReLU6 calls it
    return kind


def may_be_activation(function: object) -> bool:
    """Return whether a dispatched function is an activation, at least for some arguments."""
    name = function_name(function)
    registered = function in _registered_functions or name in _registered_functions
    return registered or name in _FUNCTIONS


def is_plain(function: object, kind: str) -> bool:
    """Return whether a function is torch's own for a kind, so that its formula is known.

    Not so where it may compute something else, as below another mode.

    >>> is_plain(torch.relu_, "relu"), is_plain(torch.relu_, "my_relu")
    (True, False)
    """
    modes = torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()
    return modes == own_modes and _PLAIN.get(function) == kind


@functools.lru_cache(maxsize=4096)  # a network calls the same few functions over and over
def function_name(function: object) -> str:
    """Return a function's name: the same for `relu`, `relu_` and `torch.ops.aten.relu.default`.

    Properties arrive as the `__get__` of their descriptor.
    """
    function = getattr(function, "_overloadpacket", function)
    name: str = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", "")
    return name if name.endswith("__") else name.removesuffix("_")


def kind_of_module(module: nn.Module) -> str | None:
    """Return the kind of activation that a module computes in several steps, or None.

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
    """Return the kind of activation that a module is, with or without an entry of its own, or None.

    >>> kind_of_layer(nn.LeakyReLU()), kind_of_layer(nn.Linear(1, 1))
    ('leaky_relu', None)
    """
    if type(module).__module__ == nn.ReLU.__module__:
        return _LAYERS.get(type(module).__name__.lower())
    return kind_of_module(module)


def kind_of_base(module: nn.Module) -> str | None:
    """Return the kind of the layer of torch that the class of a module derives from, or None.

    >>> class Mine(nn.LeakyReLU): ...
    >>> kind_of_base(Mine()), kind_of_base(nn.Linear(1, 1))
    ('leaky_relu', None)
    """
    layers = (base for base in type(module).__mro__ if base.__module__ == nn.ReLU.__module__)
    kinds = (_LAYERS.get(layer.__name__.lower()) for layer in layers)
    return next((kind for kind in kinds if kind is not None), None)


def known_activations() -> dict[str, list[str]]:
    """Return the kinds that are recognized, by family; registered ones count as "pointwise".

    >>> "gelu" in known_activations()["pointwise"], sorted(known_activations())
    (True, ['gated', 'pointwise', 'softmax'])
    """
    listing = {family: list(kinds) for family, kinds in FAMILIES.items()}
    registered = {*_registered_functions.values(), *_registered_classes.values()}
    listing["pointwise"] += sorted(registered.difference(*FAMILIES.values()))
    return listing


def registered() -> tuple[int, int]:
    """Return how many functions and classes users have registered."""
    return len(_registered_functions), len(_registered_classes)


def activation_names(activations: str | Collection[str]) -> tuple[str, ...]:
    """Return the names in a choice of activations, sorted, known or not."""
    names = [activations] if isinstance(activations, str) else activations
    if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        raise OptionError(
            "activations must be 'pointwise', 'all', or names of activations, got "
            f"{activations!r:.80}."
        )
    return tuple(sorted({*names}))


def chosen_kinds(activations: str | Collection[str]) -> frozenset[str]:
    """Return the kinds that a choice stands for: "all", or names of families or kinds.

    "gated" ones are always among them, so that they are listed with the reason for a missing score.
    """
    known = known_activations()
    every = set().union(*known.values())
    kinds: set[str] = set(GATED)
    for name in activation_names(activations):
        if name not in every and name not in (*known, "all"):
            raise OptionError(
                f"activations={name!r} is not a valid choice. Choose from 'all', a family "
                f"({', '.join(known)}) or kinds: {', '.join(sorted(every))}. Add your own with "
                "sigmascope.register_activation."
            )
        kinds |= every if name == "all" else set(known.get(name, [name]))
    return frozenset(kinds)


def register_activation(target: Target, kind: str | None = None) -> Target:
    """Register a function or a module class as an activation; a decorator or a plain function.

    Args:
        target: a subclass of `nn.Module`, each call of which is then one activation, whatever it
            calls inside; a torch function, recognized by its name, also as a method or in place;
            or any Python function of a tensor.
        kind: its name in results; by default the name of the target.

    Returns:
        The class or the torch function itself. For a Python function, a wrapper to call instead.

    Raises:
        InputTypeError: neither a module class nor a function.

    >>> @register_activation
    ... def squared_relu(x):
    ...     return torch.relu(x) ** 2
    >>> squared_relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 4.])
    """
    if kind is not None and not (isinstance(kind, str) and kind):
        raise InputTypeError(f"kind must be a name such as 'squared_relu', got {kind!r:.80}.")
    name = kind or str(getattr(target, "__name__", "activation"))
    if inspect.isclass(target) and issubclass(target, nn.Module):
        _registered_classes[target] = name
        return target
    if not callable(target) or inspect.isclass(target) or isinstance(target, nn.Module):
        raise InputTypeError(
            f"{target!r:.80} cannot be registered as an activation. Pass a module class (not an "
            "instance) or a function of a tensor."
        )
    if _is_dispatched(target):
        _registered_functions[function_name(target)] = name
        return target
    wrapper: Target = _dispatched(target, name)
    return wrapper


def _is_dispatched(function: object) -> bool:
    """Return whether torch dispatches calls of a function, so that a recorder sees them."""
    return isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)) or any(
        function is known
        for functions in get_overridable_functions().values()
        for known in functions
    )


def _dispatched(function: Callable[..., Any], name: str) -> Any:
    @functools.wraps(function)
    def visible(*args: Any, **kwargs: Any) -> Any:
        tensors = tuple(arg for arg in (*args, *kwargs.values()) if isinstance(arg, Tensor))
        if has_torch_function(tensors):
            return handle_torch_function(visible, tensors, *args, **kwargs)
        return function(*args, **kwargs)

    _registered_functions[visible] = name
    return visible
