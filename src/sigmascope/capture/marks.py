"""What is known of the tensors of a forward pass, by identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import ref

from torch import Tensor

from sigmascope.capture.axis_moves import Shape

Value = TypeVar("Value")


class Marks(Generic[Value]):
    """Values by tensor, on top of those of a `base`; they keep no tensor alive.

    Every function that a network calls looks its tensors up here. The dictionaries of
    `torch.utils.weak` would take most of the time that watching takes.

    Attributes:
        entries: `id` of a tensor -> a reference to it and its value; without those of the base.
    """

    def __init__(self, base: Marks[Value] | None = None) -> None:
        self.entries: dict[int, tuple[ref[Tensor], Value]] = {}
        self._base = base

    def get(self, tensor: Tensor) -> Value | None:
        """Return the value of a tensor, or None."""
        entry = self.entries.get(id(tensor))
        # The number of a tensor that is gone may have passed to another one.
        if entry is not None and entry[0]() is tensor:
            return entry[1]
        return None if self._base is None else self._base.get(tensor)

    def __setitem__(self, tensor: Tensor, value: Value) -> None:
        self.entries[id(tensor)] = ref(tensor), value


@dataclass(frozen=True)
class Descent:
    """What is known of the samples in a tensor.

    Attributes:
        state: "known"; "part" where the axis holds some consecutive samples only; "single" where
            the tensor is computed from one sample and has no axis of samples; "filling" where so
            far `count` samples were written along the axis; "lost" where it depends on the samples
            in an unknown order; "selected" where it holds some of them, and which is known of each
            batch; "merged" where several were combined; "features" where a layer took
            the entries of their axis as features; "constant" where it depends on the weights alone;
            "blank" where its values are yet to be written; "packed" where it holds packed
            sequences; "unknown" where its computation was not seen.
        axis: the axis of the samples; its entries are (outer, samples, inner), the last running
            fastest.
        outer: how often the samples are repeated as a whole.
        inner: how many consecutive entries each sample has.
        first, count: of a part or a single sample, the number of its first one and how many.
        order: the order of the samples, a number other than 0 where it is not that of the batch;
            below 0 where the rows of each sample are no longer together.
    """

    state: str
    axis: int = 0
    outer: int = 1
    inner: int = 1
    first: int = 0
    count: int = 0
    order: int = 0


@dataclass(frozen=True)
class Trace:
    """The channel axis of a tensor, the function that put the channels there, and its shape then.

    An in-place function may have changed the shape. Where the channels were split over several
    axes, `pieces` are the others of them.
    """

    axis: int
    producer: str
    shape: Shape
    pieces: Shape = ()


@dataclass(frozen=True, eq=False)  # equal only to itself, so that it is a fast key
class Mark:
    """Where the samples and the channels of a tensor of a shape are; a trace of None is unknown."""

    descent: Descent
    shape: Shape
    trace: Trace | None
