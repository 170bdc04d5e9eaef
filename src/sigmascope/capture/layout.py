"""Which axis of a tensor holds the channels: known from what produced it, and followed through what
happens to it since.

A convolution and its norms put channels on axis 1, a linear layer and its norms on the last axis.
From there the axis is followed through permutations, reshapes, sums, slices and everything else
that keeps it recognizable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from sigmascope.capture.moves import Shape, contracted, followed, multiplied

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
    "multi_head_attention_forward",
    "rms_norm",
    "rnn_tanh",
    "rnn_relu",
    "scaled_dot_product_attention",
    "__matmul__",
)


PRODUCTS = ("matmul", "__matmul__", "bmm", "mm")


@dataclass(frozen=True)
class Layout:
    """The channel axis of a tensor, counted from the front, and how it is known; the axis is None
    where it is not.
    """

    axis: int | None
    reason: str


@dataclass(frozen=True)
class _Trace:
    axis: int
    producer: str
    shape: Shape  # of the tensor then: what is done in place may change it


class Layouts:
    """What is known of the tensors of one forward pass."""

    def __init__(self) -> None:
        self._traces: Any = WeakIdKeyDictionary()
        self._latest: tuple[str, int] | None = None  # the last producer and its number of channels
        # the sides, 1 or -1, on which producers have put channels so far
        self._sides: set[int] = set()

    def of(self, tensor: Tensor) -> Layout:
        """Say where the channels of a tensor are."""
        if tensor.ndim < 3:
            return Layout(1 if tensor.ndim == 2 else None, "the only axis beside the samples")
        trace: _Trace | None = self._traces.get(tensor)
        if trace is not None and trace.shape == tensor.shape:
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
            return Layout(
                axis, f"every layer so far put them {'on axis 1' if axis == 1 else 'last'}"
            )
        return Layout(
            None, "nothing is known of what produced the tensor; pass channel_axis={pattern: axis}"
        )

    def note(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[Tensor]
    ) -> None:
        """Note what a function made of the tensors it was given."""
        produces = _side(name) and not _spans_axes(name, args, kwargs)
        for output in outputs:
            trace = self._multiplied(name, args, output) if name in PRODUCTS else None
            if trace is None:
                trace = (
                    self._produced(name, output)
                    if produces
                    else self._followed(name, args, kwargs, output)
                )
            if trace is not None:
                self._traces[output] = trace

    def _multiplied(self, name: str, args: tuple[Any, ...], output: Tensor) -> _Trace | None:
        """Find the channels of a factor again, unless they were summed over; a matrix in front of
        them puts its rows there.
        """
        for source in _tensors(args):
            trace: _Trace | None = self._traces.get(source)
            if trace is None or trace.shape != tuple(source.shape):
                continue
            axis = multiplied(name, trace.axis, args, source, output.ndim)
            if (
                axis is None
                and source.ndim > 2
                and trace.axis == source.ndim - 2
                and self._traces.get(args[0]) is None
            ):
                axis = output.ndim - 2
            if axis is not None and 0 <= axis < output.ndim:
                return _Trace(axis, trace.producer, tuple(output.shape))
        return None

    def _produced(self, name: str, output: Tensor) -> _Trace | None:
        if output.ndim < 2:
            return None
        axis = 1 if _side(name) == 1 else output.ndim - 1
        self._latest = name, output.shape[axis]
        if output.ndim > 2:
            self._sides.add(_side(name))
        return _Trace(axis, name, tuple(output.shape))

    def _followed(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
    ) -> _Trace | None:
        for source in _tensors(args[:1] if name == "__getitem__" else args):
            trace: _Trace | None = self._traces.get(source)
            if trace is not None:
                shape = tuple(output.shape)
                if name == "einsum":
                    axis = contracted(
                        trace.axis, args[0], [one is source for one in _tensors(args)]
                    )
                else:
                    axis = followed(name, trace.axis, (args, kwargs), trace.shape, shape)
                if axis is not None:
                    return _Trace(axis, trace.producer, shape)
        return None


def _side(producer: str) -> int:
    return 1 if producer in FIRST else -1 if producer in LAST else 0


def _spans_axes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether a norm is one over several axes, as over (channels, height, width), which says
    nothing of the last.
    """
    given = args[1] if len(args) > 1 else kwargs.get("normalized_shape", ())
    return name in ("layer_norm", "rms_norm") and len(given) > 1


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
