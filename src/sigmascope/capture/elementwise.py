"""Functions that act on every element alone, and which activation a formula of them is."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.capture.words import words

# They leave every element what it is, at most in another type; dropout does in evaluation mode.
SAME = frozenset(
    words("""
    alpha_dropout bfloat16 clone contiguous cpu cuda detach double dropout dropout1d dropout2d
    dropout3d feature_alpha_dropout feature_dropout float half nan_to_num requires_grad to type
    type_as view
""")
)
# Functions of two values that are affine in each, and what they are without underscores.
SUMS = frozenset(words("add sub subtract rsub __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__"))
PRODUCTS = frozenset(words("mul multiply __mul__ __rmul__ __imul__"))
QUOTIENTS = frozenset(words("div divide true_divide __div__ __truediv__ __itruediv__"))
NEGATIONS = frozenset(words("neg negative __neg__ positive __pos__"))
AFFINE = SUMS | PRODUCTS | QUOTIENTS | NEGATIONS | SAME
OTHERS = frozenset(
    words("""
    __abs__ __and__ __eq__ __ge__ __gt__ __invert__ __ipow__ __le__ __lt__ __ne__ __or__ __pow__
    __rdiv__ __rpow__ __rtruediv__ abs absolute addcdiv addcmul arcsinh arctan asinh atan bool clamp
    clamp_max clamp_min clip copysign cos cosh eq erf erfc erfcx exp exp2 expm1 float_power fmax
    fmin ge greater greater_equal gt heaviside hypot isfinite isinf isnan le lerp less less_equal
    log log10 log1p log2 log_ndtr logaddexp logaddexp2 logical_and logical_not logical_or logit lt
    masked_fill maximum minimum ne ndtr not_equal pow reciprocal relu rsqrt sgn sigmoid sign sin
    sinc sinh sqrt square tan tanh where xlogy
""")
)
# Functions that are no activation on their own: they make numbers positive, or keep them in bounds.
GUARDS = frozenset(
    words("""
    __rdiv__ __rpow__ __rtruediv__ clamp clamp_max clamp_min clip exp exp2 fmax fmin isfinite isinf
    isnan log log10 log2 logit maximum minimum reciprocal rsqrt sqrt
""")
)
# Their results say something of all elements together.
REDUCTIONS = frozenset(
    words("""
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d all amax amin aminmax any argmax
    argmin avg_pool1d avg_pool2d avg_pool3d cdist cosine_similarity count_nonzero cumsum dist
    linalg_norm linalg_vector_norm logcumsumexp logsumexp lp_pool1d lp_pool2d max mean median min
    nanmean nansum norm prod scatter_add scatter_reduce segment_reduce std std_mean sum trace var
    var_mean
""")
)
# Those that say how large or how far apart elements are.
DISTANCES = frozenset(
    words("""
    cdist cosine_similarity dist linalg_norm linalg_vector_norm norm pairwise_distance std std_mean
    var var_mean
""")
)
# Functions with weights, which take what an activation returns.
LAYERS = frozenset(
    words("""
    __matmul__ __rmatmul__ addmm baddbmm batch_norm bilinear bmm conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d einsum group_norm instance_norm layer_norm
    linear matmul mm rms_norm
""")
)
SIGNS = {
    **dict.fromkeys(("add", "iadd"), "+"),
    **dict.fromkeys(("sub", "subtract"), "-"),
    **dict.fromkeys(("mul", "multiply"), "*"),
    **dict.fromkeys(("div", "divide", "truediv", "true_divide"), "/"),
    "pow": "**",
    "and": "&",
    "or": "|",
    **dict.fromkeys(("gt", "greater"), ">"),
    **dict.fromkeys(("lt", "less"), "<"),
    **dict.fromkeys(("ge", "greater_equal"), ">="),
    **dict.fromkeys(("le", "less_equal"), "<="),
}
# New tensors that hold none of the samples, whatever tensor they look like.
FACTORIES = frozenset(
    words("""
    arange empty_like eye full full_like linspace new_empty new_full new_ones new_tensor new_zeros
    ones ones_like rand rand_like randint_like randn randn_like tensor zeros zeros_like
""")
)
FILLED = {"zeros_like": 0.0, "new_zeros": 0.0, "zeros": 0.0, "ones_like": 1.0, "new_ones": 1.0}
# Where formulas are compared, in order; the second part tells far bounds from none.
NEAR, FAR = torch.linspace(-8, 8, 257), torch.linspace(-4000, 4000, 64)
IN_PLACE = frozenset(words("__iadd__ __imul__ __ipow__ __isub__ __itruediv__"))
GRID = torch.cat([NEAR, FAR]).double()
COUNT = len(NEAR)
CLOSE = 1e-4  # a formula is an activation to this share of its largest value


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


KNOWN: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("relu", torch.relu),
    ("relu6", F.relu6),
    ("gelu", F.gelu),
    ("gelu", _tanh_gelu),
    ("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x)),
    ("silu", F.silu),
    ("mish", F.mish),
    ("sigmoid", torch.sigmoid),
    ("tanh", torch.tanh),
    ("softplus", F.softplus),
    ("softsign", F.softsign),
    ("hardswish", F.hardswish),
    ("hardsigmoid", F.hardsigmoid),
    ("hardtanh", F.hardtanh),
    ("elu", F.elu),
    ("selu", F.selu),
    ("logsigmoid", F.logsigmoid),
    ("tanhshrink", F.tanhshrink),
    ("relu_squared", lambda x: torch.relu(x) ** 2),
    ("sin", torch.sin),
)
"""Kind -> the function that it is, up to a factor."""


def is_elementwise(name: str) -> bool:
    """Return whether a function, by name, acts on every element alone."""
    return name in AFFINE or name in OTHERS


def is_reduction(name: str, operands: int) -> bool:
    """Return whether a function of so many tensors summarizes them."""
    return name in REDUCTIONS or (name == "einsum" and operands == 1)


def is_affine(name: str, operands: int, *, first: bool) -> bool:
    """Return whether a function of so many values that depend on the samples is affine in them.

    `first` tells whether they come first among its arguments.
    """
    if operands != 1:
        return False
    return name in SAME | NEGATIONS | SUMS | PRODUCTS or (name in QUOTIENTS and first)


def kind_of_values(values: Tensor) -> str | None:
    """Return the activation f that has these values on the grid, up to a factor, or None.

    So has -f(-x), which bends as f does on the other side.

    >>> kind_of_values(3 * GRID * torch.sigmoid(GRID)), kind_of_values(GRID**3)
    ('silu', None)
    >>> kind_of_values(GRID.clamp(max=0)), kind_of_values(GRID.clamp(min=1e-6))
    ('relu', None)
    """
    if values.shape != GRID.shape or not bool(values[:COUNT].isfinite().all()):
        return None
    return _kind(values) or _kind(-mirrored(values), upright=True)


def mirrored(values: Tensor) -> Tensor:
    """Return the values of a function on the grid at -x instead of x."""
    return torch.cat([values[:COUNT].flip(0), values[COUNT:].flip(0)])


def is_falling(values: Tensor) -> bool:
    """Return whether values are smaller at the end of the near grid than at its beginning.

    >>> is_falling(-GRID), is_falling(GRID[:0])
    (True, False)
    """
    return values.shape == GRID.shape and bool(values[COUNT - 1] < values[0])


def _kind(values: Tensor, *, upright: bool = False) -> str | None:
    near = values[:COUNT]
    for kind, known in _known_values():
        factor = float(near @ known[:COUNT] / (known[:COUNT] @ known[:COUNT]))
        if upright and factor < 0:
            continue
        if factor and _is_close(near, factor * known[:COUNT]):
            far = _is_close(values[COUNT:], factor * known[COUNT:])
            return kind if far and not _keeps_above(kind, near) else None
    if _is_leaky(near):
        return "leaky_relu"
    return "hardtanh" if _has_bounds(values) else None


def _keeps_above(kind: str, near: Tensor) -> bool:
    """Return whether a function that looks like a ReLU only keeps numbers above a small one."""
    return kind == "relu" and float(near[: COUNT // 2].abs().min()) > 1e-12


def _has_bounds(values: Tensor) -> bool:
    """Return whether values are the grid, cut off at two bounds that it goes far beyond.

    Bounds next to 0 or 1 keep a logarithm finite.
    """
    low, high = float(values.min()), float(values.max())
    near = GRID[:COUNT]
    inside = float(near[0]) < low < high < float(near[-1])
    guards = any(0 < abs(abs(bound) - edge) < 0.01 for bound in (low, high) for edge in (0, 1))
    return inside and not guards and torch.equal(values, GRID.clamp(low, high))


def is_multiple(values: Tensor, other: Tensor) -> bool:
    """Return whether values on the grid are others up to a factor."""
    if values.shape != GRID.shape or other.shape != GRID.shape:
        return False
    near, known = values[:COUNT], other[:COUNT]
    return _is_close(near, float(near @ known / (known @ known)) * known)


def _is_close(values: Tensor, known: Tensor) -> bool:
    """Return whether values agree, where they are numbers at all."""
    finite = values.isfinite() & known.isfinite()
    apart, largest = (values - known)[finite].abs(), known[finite].abs()
    return not len(apart) or float(apart.max()) <= CLOSE * float(largest.max())


@functools.cache
def _known_values() -> list[tuple[str, Tensor]]:
    return [(kind, function(GRID)) for kind, function in KNOWN]


def _is_leaky(values: Tensor) -> bool:
    """Return whether these are straight on both sides of 0, steeper to the right."""
    grid = GRID[:COUNT]
    left, right = values[grid < 0] / grid[grid < 0], values[grid > 0] / grid[grid > 0]
    slopes = left.mean(), right.mean()
    straight = all(
        float((side - slope).abs().max()) <= CLOSE
        for side, slope in zip((left, right), slopes, strict=True)
    )
    # what is straight up to rounding, as a function and its inverse are, bends nowhere
    return straight and 0 < float(slopes[0] / slopes[1]) < 1 - 10 * CLOSE


def is_straight(values: Tensor) -> bool:
    """Return whether values on the grid are an affine function of it.

    >>> is_straight(2 * GRID + 1), is_straight(GRID.abs()), is_straight(torch.zeros(3))
    (True, False, False)
    """
    if values.shape != GRID.shape or not bool(values[:COUNT].isfinite().all()):
        return False
    values, grid = values[:COUNT], GRID[:COUNT]
    slope = (values[-1] - values[0]) / (grid[-1] - grid[0])
    line = values[0] + slope * (grid - grid[0])
    apart = (values - line)[grid != 0]  # where 0 alone is replaced, nothing is bent
    return float(apart.abs().max()) <= 1e-9 * max(float(values.abs().max()), 1.0)


def evaluated(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return a function, by name, of values on the grid."""
    if name in SAME or name == "selected":
        return next(value for value in args if isinstance(value, Tensor))
    if name in IN_PLACE:
        name = f"__{name[3:]}"
    # as a method it takes the condition second
    masked = name == "where" and isinstance(args[0], Tensor) and args[0].dtype is torch.bool
    places = (torch,) if masked else (Tensor, torch, F, torch.special)
    function = next(found for place in places if (found := getattr(place, name, None)) is not None)
    result: Tensor = function(*args, **{key: kwargs[key] for key in kwargs if key != "inplace"})
    return result


def plain_number(value: Tensor) -> float | bool:
    """Return a number that stands for a constant tensor: its mean."""
    if value.dtype is torch.bool:
        return bool(value.any())
    return float(value.detach().double().mean()) if value.numel() else math.nan


def written(name: str, args: list[str]) -> str:
    """Return a function of arguments as one writes it.

    >>> written("__rdiv__", ["x", "1"]), written("erf", ["x"])
    ('(1 / x)', 'erf(x)')
    """
    plain = name.strip("_")
    if plain in ("view", "selected"):
        return args[0]
    if plain in ("neg", "negative"):
        return f"(-{args[0]})"
    if plain in ("mul", "add") and len(args) == 2 and args[1] == "x":
        args = args[::-1] if not args[0].startswith("(") else args
    turned = name in ("rsub", "__rsub__", "__rdiv__", "__rtruediv__", "__rpow__")
    sign = SIGNS.get(plain) or SIGNS.get(plain[1:])
    if sign is None or len(args) != 2:
        return f"{plain}({', '.join(args)})"
    first, second = args[::-1] if turned else args
    return f"({first} {sign} {second})"


def without_outer(text: str) -> str:
    """Return a formula without parentheses around the whole of it.

    >>> without_outer("(x * erf(x))"), without_outer("(x + 1) * (x - 1)")
    ('x * erf(x)', '(x + 1) * (x - 1)')
    """
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            whole = place == len(text) - 1 and text.startswith("(")
            return text[1:-1] if whole else text
    return text
