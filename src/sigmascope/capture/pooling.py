"""From a tensor to a matrix (n, d): which axes are samples and channels; the others are pooled."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import torch
from torch import Tensor

from sigmascope.capture.gpu.means import means
from sigmascope.capture.marks import Descent
from sigmascope.capture.observer import Call
from sigmascope.capture.pools import POOLS, Axes, NotSamplesError, UnreadableError, precise
from sigmascope.capture.positions import Drawn, Draws, divided

SampleFunction: TypeAlias = Callable[[str, Tensor], int | None]
UNFIT = "does not fit a tensor of shape"
# State of a tensor's samples -> why it has none that could be scored.
NOT_SAMPLES = {
    "constant": "computed from the weights alone, it does not depend on the samples",
    "merged": "a tensor of shape {shape} that no longer has an axis of samples",
    "single": "a tensor of shape {shape} computed from sample {number} of the batch alone; the "
    "score compares samples, so give the layer all of them in one call",
    "features": "a layer took the axis of the samples as features, as where an input has no axis "
    "of samples; pass inputs with one, such as batch[None], or name it by batch_axis",
}
DECODER = "decoder"
PADDED = (
    "the network pads packed sequences of unequal lengths itself, and after that the padding is "
    "scored like tokens; pass batches as dictionaries with an attention_mask to leave it out"
)
KNOWN = ("known", "part", "selected")  # states of samples that have an axis
UNKNOWN = ("blank", "filling", "unknown")  # states of samples that may be known by their number


@dataclass
class Pooling:
    """How the tensors of one batch become matrices.

    Attributes:
        pool: a name in `POOLS`, or a function from a tensor to a matrix (n, d).
        samples: "batch", or "tokens" or "positions" for rows that are single positions instead of
            averages.
        channel_axis: pattern of a path -> axis, which overrides the axis that was followed.
        sample_axis: the same of the samples; every entry of the axis is a row.
        sample_function: from the name of a site and its input to this axis, or None.
        graphs: of a batch of graphs, number of rows -> (rows,), the graph of each row.
        batch_axis: the axis of the samples in the network's inputs.
        size: the number of samples in the batch.
        masks: part of the network, "" or "decoder" -> (n, t), which of its tokens are not padding.
        draws: the positions to use where they are samples; None for "batch".
    """

    pool: str | Callable[[Tensor], Tensor]
    samples: str
    channel_axis: Mapping[str, int]
    batch_axis: int
    size: int
    masks: Mapping[str, Tensor]
    draws: Draws | None = None
    sample_axis: Mapping[str, int] = field(default_factory=dict)
    graphs: Mapping[int, Tensor] = field(default_factory=dict)
    sample_function: SampleFunction | None = None

    @property
    def reading(self) -> tuple[object, ...]:
        """All that `axes` depends on beside the call and the shape of the tensor."""
        axes = tuple(self.channel_axis.items()), tuple(self.sample_axis.items())
        batch = self.batch_axis, self.size, tuple(self.masks), tuple(self.graphs)
        return self.samples, axes, batch, self.sample_function

    @property
    def takes_selected(self) -> bool:
        """Whether rows that are whole samples are read as such, in whatever order they are."""
        named = self.sample_axis or self.sample_function is not None
        return self.samples == "batch" and not self.graphs and not named

    @property
    def keeps_padding(self) -> bool:
        """Whether rows are single positions, and it is not known which ones are padding."""
        return self.samples != "batch" and not self.masks

    def axes(self, call: Call, tensor: Tensor) -> Axes:
        """Return how to read a tensor.

        Raises:
            UnreadableError: the axes are not known, or the tensor does not hold the samples.
        """
        if tensor.ndim == 0:
            raise NotSamplesError("a single number, not samples")
        place = self._place(call, tensor)
        channels, reason = self._channels(call, tensor, place)
        if channels is not None and channels == place.axis and place.state in KNOWN:
            raise UnreadableError(
                f"axis {channels} would be both samples and channels; pass channel_axis="
                "{pattern: axis}"
            )
        if place.state == "selected":
            return Axes(0, channels, 1, 1, f"{reason}; the samples that were selected")
        if place.state == "lost":
            rows = "a node, an edge or a graph" if self.graphs else "a sample, in no known order"
            return Axes(None, channels, 1, 1, f"{reason}; every row {rows}")
        decoding = any(name.startswith(DECODER) for name in call.path.split("."))
        part = DECODER if DECODER in self.masks and decoding else ""
        place_in_batch = (place.first, place.count) if place.state == "part" else (0, 0)
        return Axes(place.axis, channels, place.outer, place.inner, reason, part, *place_in_batch)

    def _place(self, call: Call, tensor: Tensor) -> Descent:
        """Return where the samples are: as named, as followed, otherwise by their number."""
        named = _named(self.sample_axis, "sample_axis", call, tensor)
        named_axis = self._asked(call, tensor) if named is None else named[0]
        if named_axis is not None:
            return Descent("known", named_axis)
        if call.sequence_first and tensor.ndim == 3:
            return Descent("known", 1)
        if self.graphs:
            return self._place_of_graphs(call.descent, tensor)
        place = call.descent
        if place.state == "puzzling":
            raise UnreadableError(call.layout.reason)
        # where samples are whole, their order does not matter, but for masks
        if place.state == "packed" or place.order < 0 or (place.order and self.masks):
            place = Descent("lost")
        if place.state in NOT_SAMPLES:
            shape = list(tensor.shape)
            raise NotSamplesError(NOT_SAMPLES[place.state].format(shape=shape, number=place.first))
        if place.state == "lost" and self.samples == "batch":
            raise UnreadableError(
                f"which sample each row of {list(tensor.shape)} belongs to is not known, so they "
                "cannot be averaged by sample; samples='tokens' scores them row by row, and "
                "sample_axis={pattern: axis} names an axis whose entries are samples"
            )
        return self._place_by_size(tensor) if place.state in UNKNOWN else place

    def _asked(self, call: Call, tensor: Tensor) -> int | None:
        """Return the axis of the samples that the function given for it names."""
        if self.sample_function is None:
            return None
        try:
            axis = self.sample_function(call.name, tensor)
        except Exception as error:
            raise UnreadableError(
                f"the function given as samples raised {type(error).__name__}: {error}"
            ) from error
        if axis is None:
            return None
        if type(axis) is not int or not -tensor.ndim <= axis < tensor.ndim:
            raise UnreadableError(
                f"the function given as samples returned {axis!r:.80}, which {UNFIT} "
                f"{list(tensor.shape)}; return a whole number or None"
            )
        return axis % tensor.ndim

    def _place_of_graphs(self, place: Descent, tensor: Tensor) -> Descent:
        """Return that every row is a sample, where the rows are nodes, graphs or edges."""
        if place.state != "constant" and len(tensor) in self.graphs:
            return Descent("lost")
        shape = list(tensor.shape)
        reason = NOT_SAMPLES.get(place.state, "the rows of {shape} are no nodes, edges or graphs")
        raise NotSamplesError(reason.format(shape=shape, number=place.first))

    def _place_by_size(self, tensor: Tensor) -> Descent:
        shape = tuple(tensor.shape)
        if self.batch_axis < tensor.ndim and shape[self.batch_axis] == self.size:
            return Descent("known", self.batch_axis)
        if shape.count(self.size) == 1 and self.size > 1:
            return Descent("known", shape.index(self.size))
        raise NotSamplesError(
            f"no axis of {list(shape)} counts the {self.size} samples of the batch"
        )

    def _channels(self, call: Call, tensor: Tensor, place: Descent) -> tuple[int | None, str]:
        if tensor.ndim == 1:
            return None, "one number per sample"
        named = _named(self.channel_axis, "channel_axis", call, tensor)
        if named is not None:
            if place.state in KNOWN and named[0] == place.axis:
                raise UnreadableError(f"{named[1]} {UNFIT} {list(tensor.shape)}")
            return named
        if tensor.ndim == 2:
            return (1 - place.axis if place.state in KNOWN else 1), call.layout.reason
        if call.layout.axis is None:
            raise UnreadableError(call.layout.reason)
        return call.layout.axis, call.layout.reason

    def matrix(self, tensor: Tensor, axes: Axes) -> Tensor:
        """Return a new matrix (n, d) of float32 or float64.

        Raises:
            UnreadableError: this tensor cannot be pooled.
        """
        if self.samples != "batch":
            return self._rows(tensor, axes)
        if isinstance(self.pool, str):
            mask = self._mask(axes.ordered(tensor), axes) if self.masks else None
            return POOLS[self.pool](tensor, axes, mask)
        try:
            pooled = self.pool(tensor)
        except Exception as error:
            raise UnreadableError(
                f"the function given as pool raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(pooled, Tensor) or pooled.ndim != 2:
            shape = f" of shape {tuple(pooled.shape)}" if isinstance(pooled, Tensor) else ""
            found = f"a {'tensor' if shape else type(pooled).__name__}{shape}"
            raise UnreadableError(
                f"the function given as pool returned {found}, not a matrix (n, d)"
            )
        return pooled.to(precise(pooled), copy=True)

    def both(self, tensor: Tensor, axes: Axes, formula: str) -> tuple[Tensor, Tensor] | None:
        """Return the matrices of a tensor and of a function of it, from one reading.

        None where it takes two.
        """
        pair = axes.pair if self.pool == "channels" and self.samples == "batch" else None
        if pair is None or self.masks or not tensor.is_cuda or type(tensor) is not Tensor:
            return None
        return means(tensor, samples=pair[0], channels=pair[1], formula=formula)

    def _mask(self, ordered: Tensor, axes: Axes) -> Tensor | None:
        """Return the mask of all positions of a tensor, if one of its axes has the same length."""
        mask = self.masks.get(axes.part)
        if mask is not None and axes.count:
            mask = mask[axes.first : axes.first + axes.count]
        if mask is not None and axes.rows is not None and axes.samples is not None:
            mask = mask[axes.rows.numbers().to(mask.device)]
        if mask is None or axes.samples is None or len(ordered) != len(mask):
            return None
        positions = tuple(ordered.shape[1:-1])
        times = axes.inner // mask.shape[1] if mask.shape[1] else 0
        if times > 1 and times * mask.shape[1] == axes.inner and mask.shape[1] not in positions:
            mask = mask.repeat_interleave(times, dim=1)  # tokens repeated for several experts
        if positions.count(mask.shape[1]) != 1:
            return None
        tokens = positions.index(mask.shape[1])
        sizes = [mask.shape[1] if axis == tokens else 1 for axis in range(len(positions))]
        along = mask.reshape(len(mask), *sizes)
        return along.expand(len(mask), *positions).flatten(1).to(ordered.device)

    def index(self, tensor: Tensor, axes: Axes, rows: int) -> Tensor | None:
        """Return (rows,), the sample of the batch that each row of `matrix` is of, on the host.

        None where row i is of sample i. Rows in no known order are divided evenly.
        """
        if self.samples != "batch":
            drawn = self._draw(axes.ordered(tensor), axes)
            whole = axes.samples is None and tensor.ndim < 3 and len(tensor) in self.graphs
            if not whole:
                return drawn.index
            graphs = self.graphs[len(tensor)]
            return graphs if drawn.place is None else graphs[drawn.place.cpu()]
        if axes.samples is None and rows in self.graphs:
            return self.graphs[rows]
        if axes.samples is not None and axes.rows is not None:
            return axes.rows.numbers().cpu()
        if axes.count and rows == axes.count:
            return axes.first + torch.arange(rows)
        if rows == self.size or (
            self.pool in ("channels", "sum", "flatten")
            and not self.sample_axis
            and self.sample_function is None
        ):
            return None
        if self.pool == "published" and axes.samples == 0:
            return torch.arange(rows) // axes.inner % max(1, rows // (axes.inner * axes.outer))
        return divided(rows, self.size)

    def _rows(self, tensor: Tensor, axes: Axes) -> Tensor:
        """Return the positions drawn from a tensor, one a row."""
        ordered = axes.ordered(tensor)
        place = self._draw(ordered, axes).place
        if place is None:
            return ordered.flatten(0, -2).to(precise(tensor), copy=True)
        inner = []
        for length in reversed(ordered.shape[1:-1]):
            inner.append(place % length)
            place = place // length
        return ordered[(place, *reversed(inner))].to(precise(tensor))

    def _draw(self, ordered: Tensor, axes: Axes) -> Drawn:
        draws = cast(Draws, self.draws)
        if axes.rows is not None and axes.rows.count == ordered[..., 0].numel():
            return draws.selected(axes.rows, self.masks.get(axes.part), ordered.device)
        return draws.of(
            tuple(ordered.shape[:-1]),
            self._mask(ordered, axes),
            part=axes.part,
            lost=axes.samples is None,
            device=ordered.device,
            start=axes.first,
        )


def _named(
    axes: Mapping[str, int], option: str, call: Call, tensor: Tensor
) -> tuple[int, str] | None:
    """Return the axis that an option names for a call, counted from the front, and the option."""
    for pattern, axis in axes.items():
        if fnmatch.fnmatchcase(call.path, pattern):
            given = f"{option}={{{pattern!r}: {axis}}}"
            if not -tensor.ndim <= axis < tensor.ndim:
                raise UnreadableError(f"{given} {UNFIT} {list(tensor.shape)}")
            return axis % tensor.ndim, given
    return None
