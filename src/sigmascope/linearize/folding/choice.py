"""Which neighbors in a chain of linear layers to merge, by what that costs.

A chain is cut into segments, each of which becomes one layer. The cost of a segment is measured by
itself, and the cheapest cut is found by dynamic programming: three layers may be worth merging
where two of them are not, as in an inverted residual block.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from sigmascope.linearize.folding.graph import Link
from sigmascope.linearize.folding.latency import Timer, threads_of_torch
from sigmascope.linearize.folding.layers import Geometry
from sigmascope.linearize.folding.merging import joined, merged, numbers_of
from sigmascope.linearize.folding.pieces import Piece, module_of
from sigmascope.linearize.maps import Affine

Bounds = tuple[int, int]
"""The first item of a segment, and the last."""

LARGEST = 2**24  # numbers in a merged weight that is larger than twice what it replaces
MOST = 6  # items in a segment: kernels grow with each
MARGIN = 1.03  # by which several layers must be slower than one, so that noise merges nothing
WORST = {"faster": 3.0, "fewer": 1.0, "all": 16.0}
"""Choice -> merges that take so many times the multiply-adds are not tried."""


@dataclass
class Item:
    """A layer with the maps behind it, or a map before the first layer.

    Attributes:
        links: the nodes that it stands for.
        piece: what they compute.
        value: an example of what it reads, one sample in the dtype of the network.
    """

    links: list[Link]
    piece: Piece
    value: Tensor | None = None

    @property
    def size(self) -> int:
        """How many of its nodes compute or copy something."""
        return sum(link.counts for link in self.links)

    def module(self) -> nn.Module:
        """Return what computes it now: the module itself or, of several, a merged one."""
        if self.size > 1:
            return cast(module_of(self.piece), self.links)
        return next(link.module for link in self.links if link.piece is not None)


def cast(module: nn.Module, links: Sequence[Link]) -> nn.Module:
    """Return a merged module in the dtype of the modules that it was merged of."""
    tensors: list[Tensor] = [one for link in links for one in link.module.parameters()]
    tensors += [one for link in links for one in link.module.buffers()]
    dtypes = [one.dtype for one in tensors if one.is_floating_point()]
    return module.to(dtypes[0])


def items_of(chain: Sequence[Link]) -> list[Item]:
    """Return a chain as layers, each with the maps of single channels that follow it.

    These cost nothing in the layer: its rows are multiplied.
    """
    found: list[Item] = []
    waiting: list[Link] = []
    for link in chain:
        if link.piece is None:
            (found[-1].links if found else waiting).append(link)
        elif found and link.piece.is_map and link.piece.is_diagonal:
            both = joined(found[-1].piece, link.piece)
            assert isinstance(both, Piece)
            found[-1] = Item([*found[-1].links, link], both)
        else:
            found.append(Item([*waiting, link], link.piece))
            waiting = []
    if len(found) > 1 and found[0].piece.is_map and found[0].piece.is_diagonal:
        both = joined(found[0].piece, found[1].piece)
        # a layer as large as it was, unless a shift before zero padding needs a kernel of its own
        if isinstance(both, Piece) and both.ones is None and not both.bordered:
            found[:2] = [Item([*found[0].links, *found[1].links], both)]
    return found


@dataclass
class Segment:
    """Some items as one layer.

    Attributes:
        multiply_adds: for one sample.
        seconds: where they were measured.
        reason: why it is not made; empty where it could be.
    """

    multiply_adds: int = 0
    seconds: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class Chooser:
    """How segments are chosen.

    Attributes:
        keep: "faster", "fewer" or "all".
        timer: see `Timer`.
        merges: names of the segments to make; None to choose.
        used: names of those that were found.
        progress: whether to show how many chains of layers are done, on a terminal.
    """

    keep: str
    timer: Timer
    merges: frozenset[str] | None = None
    used: set[str] = field(default_factory=set)
    progress: bool = True

    def cut(self, items: Sequence[Item], prefix: str) -> tuple[list[Bounds], dict[Bounds, Segment]]:
        """Return the bounds of the chosen segments, and all that were considered."""
        segments = {(number, number): Segment() for number in range(len(items))}
        self._count(items, segments)
        self._merge(items, segments)
        if self.merges is not None:
            names = {bounds: segment_name(items, bounds, prefix) for bounds in segments}
            self.used.update(set(names.values()) & self.merges)
            return _cheapest(len(items), segments, self._given(names)), segments
        if self.keep == "faster":
            self._measure(items, segments)
        return _cheapest(len(items), segments, COSTS[self.keep]), segments

    def _given(self, names: dict[Bounds, str]) -> Callable[[Bounds, Segment], tuple[float, ...]]:
        assert self.merges is not None
        wanted = self.merges

        def cost(bounds: Bounds, segment: Segment) -> tuple[float, ...]:
            if bounds[0] == bounds[1]:
                return (0.0,)
            return (-1.0 if names[bounds] in wanted else math.inf,)

        return cost

    def _count(self, items: Sequence[Item], segments: dict[Bounds, Segment]) -> None:
        for number, item in enumerate(items):
            segments[number, number].multiply_adds = multiply_adds(item.module(), item.value)

    def _merge(self, items: Sequence[Item], segments: dict[Bounds, Segment]) -> None:
        """Add all segments of several items."""
        for first, item in enumerate(items):
            found: Piece | str = item.piece
            for last in range(first + 1, min(len(items), first + MOST)):
                assert isinstance(found, Piece)
                alone = sum(segments[one, one].multiply_adds for one in range(first, last + 1))
                least = numbers_of(found, items[last].piece) * _positions(items[first : last + 1])
                is_end = last + 1 == min(len(items), first + MOST)
                if is_end and least > WORST[self.keep] * alone and self.merges is None:
                    segments[first, last] = _too_many(least, alone)
                    break
                found = _merged_within(found, items[last].piece)
                if isinstance(found, str):
                    segments[first, last] = Segment(reason=found)
                    break
                segments[first, last] = self._segment(found, item.value, alone)

    def _segment(self, piece: Piece, value: Tensor | None, alone: int) -> Segment:
        made = module_of(piece)
        count = multiply_adds(made, value)
        if piece.bordered and value is not None and not has_inside(made, value):
            return Segment(reason="the map is so small that all of it is border")
        if count > WORST[self.keep] * alone and self.merges is None:
            return _too_many(count, alone)
        return Segment(count)

    def _measure(self, items: Sequence[Item], segments: dict[Bounds, Segment]) -> None:
        """Measure single items and segments in turns."""
        bounds = [one for one, segment in segments.items() if not segment.reason]
        if len(bounds) == len(items):  # nothing to choose
            return
        calls = []
        for first, last in bounds:
            item = items[first]
            module = item.module() if first == last else merged_module(items[first : last + 1])
            calls.append(_call(module, item.value))
        with threads_of_torch(1):
            for one, seconds in zip(bounds, self.timer(calls), strict=True):
                segments[one].seconds = seconds


def _too_many(count: int, alone: int) -> Segment:
    ratio = count / max(1, alone)
    return Segment(count, reason=f"one layer would take {ratio:.1f} times the multiply-adds")


def _positions(items: Sequence[Item]) -> int:
    """Return for how many positions several items in a row compute their output."""
    value = items[0].value
    assert value is not None
    rank = items[0].piece.rank
    sizes = list(value.shape[value.ndim - rank :])
    for item in items:
        piece = item.piece
        for axis in range(rank):
            along = piece.kernel[axis], piece.stride[axis], piece.dilation[axis]
            sizes[axis] = Geometry(*along, *piece.padding[axis]).size(sizes[axis])
    return math.prod(value.shape[: value.ndim - rank - 1]) * math.prod(sizes)


def _merged_within(first: Piece, then: Piece) -> Piece | str:
    """Return two pieces as one, unless that would not fit into memory."""
    numbers = numbers_of(first, then)
    if numbers > max(LARGEST, 2 * (first.weight.numel() + then.weight.numel())):
        return "one layer would have too many parameters to compute"
    return joined(first, then)


def merged_module(items: Sequence[Item], *, exact: bool = False) -> nn.Module:
    """Return items as one layer in the dtype of the network or, if `exact`, in float64."""
    piece = merged([item.piece for item in items])
    assert isinstance(piece, Piece)
    made = module_of(piece)
    return made if exact else cast(made, [link for item in items for link in item.links])


def _call(module: nn.Module, value: Tensor | None) -> Callable[[], object]:
    assert value is not None

    def call() -> object:
        with torch.inference_mode():
            return module(value)

    return call


def _by_seconds(bounds: Bounds, segment: Segment) -> tuple[float, ...]:
    several = bounds[0] < bounds[1]
    # where nothing can be merged, nothing was measured
    seconds = 0.0 if math.isnan(segment.seconds) else segment.seconds
    return seconds * (MARGIN if several else 1.0), 1.0


def _by_multiply_adds(bounds: Bounds, segment: Segment) -> tuple[float, ...]:
    return float(segment.multiply_adds), 1.0


def _by_layers(bounds: Bounds, segment: Segment) -> tuple[float, ...]:
    return 1.0, float(segment.multiply_adds)


COSTS = {"faster": _by_seconds, "fewer": _by_multiply_adds, "all": _by_layers}
"""Choice -> the cost of a segment; the second number counts where the first are equal."""


def _cheapest(
    count: int,
    segments: dict[Bounds, Segment],
    cost: Callable[[Bounds, Segment], tuple[float, ...]],
) -> list[Bounds]:
    """Return the segments that together cost least and cover all items."""
    best: list[tuple[tuple[float, ...], list[Bounds]]] = [((0.0, 0.0), [])]
    for last in range(count):
        choices = []
        for first in range(last + 1):
            segment = segments.get((first, last))
            if segment is None or segment.reason:
                continue
            total, before = best[first]
            added = cost((first, last), segment)
            sums = tuple(one + two for one, two in zip(total, added, strict=False))
            choices.append((sums, [*before, (first, last)]))
        best.append(min(choices, key=lambda choice: choice[0]))
    return best[-1][1]


def segment_name(items: Sequence[Item], bounds: Bounds, prefix: str) -> str:
    """Return the name of a merge: its first and last node."""
    first, last = items[bounds[0]].links[0], items[bounds[1]].links[-1]
    return f"{prefix}{first.node.name}:{last.node.name}"


def multiply_adds(module: nn.Module, value: Tensor | None) -> int:
    """Return the multiply-adds of a layer for one input, without running it."""
    assert value is not None
    if isinstance(module, Affine):
        factor = module.weight if module.weight is not None else module.scale
        assert factor is not None
        return value.numel() // module.channels * factor.numel()
    nowhere = copy.deepcopy(module).to("meta", value.dtype)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        nowhere(torch.empty_like(value, device="meta"))
    return int(counter.get_total_flops()) // 2


def has_inside(module: nn.Module, value: Tensor) -> bool:
    """Return whether a merged convolution computes anything that is not border."""
    return bool(getattr(module, "computes_inside", lambda _: True)(value.shape[2:]))
