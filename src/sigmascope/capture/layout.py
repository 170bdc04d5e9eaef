"""Which axis of a tensor holds the channels: known from what produced it, and followed through what happens to it since.

A convolution and its norms put channels on axis 1, a linear layer and its norms on the last axis. From there the axis is
followed through permutations, reshapes, sums, slices and everything else that keeps it recognisable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["Layout", "Layouts"]

FIRST = (
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "group_norm",
    "instance_norm",
    "local_response_norm",
)
LAST = (
    "addmm",
    "baddbmm",
    "bilinear",
    "bmm",
    "embedding",
    "layer_norm",
    "linear",
    "lstm",
    "gru",
    "matmul",
    "mm",
    "rms_norm",
    "rnn_tanh",
    "rnn_relu",
    "scaled_dot_product_attention",
    "__matmul__",
)
RESHAPING = ("flatten", "ravel", "reshape", "reshape_as", "squeeze", "unflatten", "unsqueeze", "view", "view_as")
CUTTING = ("cat", "chunk", "concat", "concatenate", "narrow", "split", "tensor_split", "unsafe_chunk", "unsafe_split")


@dataclass(frozen=True)
class Layout:
    """The channel axis of a tensor, counted from the front, and how it is known; the axis is None where it is not."""

    axis: int | None
    reason: str


@dataclass(frozen=True)
class _Trace:
    axis: int
    producer: str


class Layouts:
    """What is known of the tensors of one forward pass."""

    def __init__(self) -> None:
        self._traces: Any = WeakIdKeyDictionary()
        self._latest: tuple[str, int] | None = None  # the last producer and its number of channels
        self._sides: set[int] = set()  # the sides, 1 or -1, on which producers have put channels so far

    def of(self, tensor: Tensor) -> Layout:
        """Say where the channels of a tensor are."""
        if tensor.ndim < 3:
            return Layout(1 if tensor.ndim == 2 else None, "the only axis beside the samples")
        trace: _Trace | None = self._traces.get(tensor)
        if trace is not None:
            return Layout(trace.axis, f"follows {trace.producer}")
        return self._likely(tensor)

    def _likely(self, tensor: Tensor) -> Layout:
        """Fall back on the producers before, where the tensor itself could not be followed."""
        if self._latest is not None:
            producer, channels = self._latest
            axis = 1 if _side(producer) == 1 else tensor.ndim - 1
            if tensor.shape[axis] == channels:
                return Layout(axis, f"as many as the last {producer} put there")
        if len(self._sides) == 1:
            axis = 1 if self._sides == {1} else tensor.ndim - 1
            return Layout(axis, f"every layer so far put them {'on axis 1' if axis == 1 else 'last'}")
        return Layout(None, "nothing is known of what produced the tensor; pass channel_axis={pattern: axis}")

    def note(self, function: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: object) -> None:
        """Note what a function did to the tensors it was given."""
        outputs = [result] if isinstance(result, Tensor) else [one for one in _items(result) if isinstance(one, Tensor)]
        if not outputs:
            return
        name = _name(function)
        side = _side(name)
        for output in outputs:
            trace = self._produced(name, output) if side else self._followed(name, args, kwargs, output)
            if trace is not None:
                self._traces[output] = trace

    def _produced(self, name: str, output: Tensor) -> _Trace | None:
        if output.ndim < 2:
            return None
        axis = 1 if _side(name) == 1 else output.ndim - 1
        self._latest = name, output.shape[axis]
        if output.ndim > 2:
            self._sides.add(_side(name))
        return _Trace(axis, name)

    def _followed(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> _Trace | None:
        for source in _tensors(args):
            trace: _Trace | None = self._traces.get(source)
            if trace is not None:
                axis = _follow(name, trace.axis, source, (args, kwargs), output)
                if axis is not None:
                    return _Trace(axis, trace.producer)
        return None


def _side(producer: str) -> int:
    return 1 if producer in FIRST else -1 if producer in LAST else 0


def _name(function: object) -> str:
    """Return the name of a function; properties arrive as the `__get__` of their descriptor."""
    function = getattr(function, "_overloadpacket", function)
    name: str = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", "")
    return name.removesuffix("_") if not name.endswith("__") else name


def _items(value: object) -> Iterator[object]:
    if isinstance(value, (tuple, list)):
        yield from value


def _tensors(args: tuple[Any, ...]) -> Iterator[Tensor]:
    """Yield the tensors among the arguments, also those in a list, as `torch.cat` has them."""
    for argument in args:
        if isinstance(argument, Tensor):
            yield argument
        else:
            yield from (one for one in _items(argument) if isinstance(one, Tensor))


def _follow(name: str, axis: int, source: Tensor, called: tuple[tuple[Any, ...], dict[str, Any]], output: Tensor) -> int | None:
    """Return where the channel axis of the source is in the output, or None if it is lost."""
    if name in MOVES:
        order = MOVES[name](source.ndim, *called)
        return order.index(axis) if axis in order else None
    if name in RESHAPING:
        return _reshaped(axis, source, output)
    if output.ndim != source.ndim:
        return None
    return axis if name in CUTTING or output.shape[axis] == source.shape[axis] else None


def _reshaped(axis: int, source: Tensor, output: Tensor) -> int | None:
    """Find an axis again by the strides it covers.

    They are the same; or more, when it was joined with others, as the heads of an attention are; or a part of them, when it
    was split, as for shuffling channels.
    """
    if not source.numel():
        return None
    low, high = _span(source, axis)
    overlaps = {}
    for new in range(output.ndim):
        start, end = _span(output, new)
        if (start <= low and high <= end) or (low <= start and end <= high):
            overlaps[new] = min(end, high) / max(start, low)
    return max(overlaps, key=lambda new: (overlaps[new], output.shape[new] == source.shape[axis]), default=None)


def _span(tensor: Tensor, axis: int) -> tuple[int, int]:
    inner = math.prod(tensor.shape[axis + 1 :])
    return inner, inner * tensor.shape[axis]


def _permuted(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    dims = kwargs.get("dims", args[1:])
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return [dim % ndim for dim in dims]


def _transposed(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    given = [*args[1:], *kwargs.values()] or [ndim - 2, ndim - 1]
    one, other = (dim % ndim for dim in given[:2])
    order = list(range(ndim))
    order[one], order[other] = other, one
    return order


def _moved(ndim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    source, target = ([dims] if isinstance(dims, int) else list(dims) for dims in [*args[1:], *kwargs.values()][:2])
    order = [dim for dim in range(ndim) if dim not in [one % ndim for one in source]]
    for position, dim in sorted(zip((one % ndim for one in target), (one % ndim for one in source), strict=True)):
        order.insert(position, dim)
    return order


MOVES: dict[str, Callable[[int, tuple[Any, ...], dict[str, Any]], list[int]]] = {
    "permute": _permuted,
    "transpose": _transposed,
    "swapaxes": _transposed,
    "swapdims": _transposed,
    "t": lambda ndim, args, kwargs: list(range(ndim))[::-1],
    "T": lambda ndim, args, kwargs: list(range(ndim))[::-1],
    "mT": lambda ndim, args, kwargs: _transposed(ndim, args[:1], {}),
    "movedim": _moved,
    "moveaxis": _moved,
}
"""Name -> function of the number of axes and the arguments that returns, for each new axis, which old one it is."""
