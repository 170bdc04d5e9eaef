"""Affinity scores of activation calls that have too many channels for their samples.

A population score needs 2.5 samples for each channel: a hidden layer of 4,096 channels has none on
2,000 images. Such a call would come last in a ranking, however little it does. Its channels are
scored in blocks instead, as those of wide layers are by `sigmascope.AffinityPenalty`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.capture.chosen_calls import Key, chosen_calls
from sigmascope.capture.guard import preserve_state
from sigmascope.capture.observer import Finish
from sigmascope.capture.pools import Axes
from sigmascope.linearize.collecting import ActivationCall
from sigmascope.linearize.data import Data
from sigmascope.linearize.score import Score
from sigmascope.maths.moments import Moments
from sigmascope.maths.population import samples_needed
from sigmascope.maths.samples import rounding_of
from sigmascope.maths.scoring import score_all

ROWS = 4  # for each channel of a block: below that, intervals are too short (2.5 are a must)


def width_of(channels: int, rows: int) -> int:
    """Return the channels of a block: as many as the rows allow, in blocks of about one width.

    0 where the rows do not suffice for any block, or for all channels together.

    >>> width_of(4096, 2000), width_of(512, 2000), width_of(4096, 20)
    (456, 0, 0)
    """
    if rows >= samples_needed(channels) or rows < samples_needed(1):
        return 0
    count = math.ceil(channels / (rows // ROWS))
    return math.ceil(channels / count)


@dataclass
class _Blocks:
    """The sums of one call, by blocks of consecutive channels."""

    call: ActivationCall
    width: int
    pooled: bool
    sums: list[Moments] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sums = [Moments() for _ in range(0, self.call.channels, self.width)]

    def add(self, x: Tensor, y: Tensor, first: int) -> None:
        """Add the inputs and outputs of a batch whose first sample has a number."""
        rows = [self._rows(one) for one in (x, y)]
        samples, positions, _ = rows[0].shape
        index = torch.as_tensor(first + np.repeat(np.arange(samples), positions))
        rounding = rounding_of(x.dtype)
        parts = [torch.split(one.flatten(0, 1), self.width, dim=1) for one in rows]
        for moments, block_x, block_y in zip(self.sums, *parts, strict=True):
            moments.take(block_x.contiguous(), block_y.contiguous(), index, rounding=rounding)

    def _rows(self, tensor: Tensor) -> Tensor:
        """Return (samples, positions, channels), at least in float32."""
        outer, inner = self.call.parts
        assert self.call.axis is not None
        axes = Axes(self.call.samples, self.call.axis % tensor.ndim, outer, inner, "")
        ordered = axes.ordered(tensor if tensor.dtype.itemsize >= 4 else tensor.float())
        found = ordered.flatten(1, -2)
        return found.mean(dim=1, keepdim=True) if self.pooled else found


def scores_in_blocks(
    network: nn.Module,
    data: Data,
    widths: dict[Key, int],
    calls: list[ActivationCall],
    samples: Literal["batch", "positions"],
) -> dict[Key, Score]:
    """Return the mean scores of blocks of channels, from one pass; no entry where there is none.

    The blocks are scored on the same samples, so that the interval of their mean is at most as long
    as the mean of their intervals, which is what is returned.

    Args:
        network: in any mode; it is run in evaluation mode.
        data: the batches.
        widths: key of a call -> the channels of a block.
        calls: those calls, and perhaps others.
        samples: whether positions are averaged ("batch").
    """
    chosen = {call.key: call for call in calls if call.key in widths}
    pooled = samples == "batch"
    blocks = {key: _Blocks(call, widths[key], pooled) for key, call in chosen.items()}
    first = 0
    unread = set[Key]()

    def observe(key: Key, x: Tensor) -> Finish:
        before = x.detach().clone() if chosen[key].inplace else x.detach()

        def finish(y: Tensor) -> None:
            if y.shape == before.shape:
                blocks[key].add(before, y.detach(), first)
            else:
                unread.add(key)

        return finish

    with preserve_state(network, mode="eval"), chosen_calls(network, chosen, observe):
        for batch in data.batches(network):
            if batch.masks:  # padding would count as samples
                return {}
            data.forward(network, batch.content)
            first += batch.size
    return _means({key: one for key, one in blocks.items() if key not in unread})


def _means(blocks: dict[Key, _Blocks]) -> dict[Key, Score]:
    found = {}
    for key, one in blocks.items():
        scores = score_all(one.sums)
        score, low, high = (
            float(np.mean([getattr(each, part) for each in scores]))
            for part in ("score", "low", "high")
        )
        if not math.isnan(score):
            found[key] = Score(score, low, high, blocks=len(scores))
    return found
