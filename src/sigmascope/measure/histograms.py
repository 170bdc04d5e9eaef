"""How often inputs and outputs of an activation occur together."""

from __future__ import annotations

import torch
from torch import Tensor

from sigmascope.measure.site import PairHistogram

CELLS = 20  # on each side
VALUES = 65_536  # at most; more would say the same
TAIL = 0.01  # of the values, which a range leaves out at each end


def histogram_of(x: Tensor, y: Tensor) -> PairHistogram | None:
    """Return the histogram of inputs and outputs (n, d), or None where they are not finite.

    >>> found = histogram_of(torch.tensor([[-1.0], [1.0]]), torch.tensor([[0.0], [1.0]]))
    >>> found.counts[0][0], found.counts[-1][-1], sum(map(sum, found.counts))
    (1, 1, 2)
    """
    # An odd distance, so that it does not always meet the same channels.
    every = -(-x.numel() // VALUES) | 1
    inputs, outputs = (side.reshape(-1)[::every].double() for side in (x, y))
    if not len(inputs) or not bool(torch.isfinite(inputs + outputs).all()):
        return None
    (x_low, x_high), (y_low, y_high) = _range(inputs), _range(outputs)
    places = _cell(inputs, x_low, x_high) * CELLS + _cell(outputs, y_low, y_high)
    counts = torch.bincount(places, minlength=CELLS * CELLS)
    table = counts.view(CELLS, CELLS).tolist()
    rows = tuple(" ".join(map(str, row)) for row in table)
    return PairHistogram((x_low, x_high), (y_low, y_high), rows)


def _range(values: Tensor) -> tuple[float, float]:
    low, high = torch.quantile(values, torch.tensor([TAIL, 1 - TAIL]).to(values)).tolist()
    return low, high


def _cell(values: Tensor, low: float, high: float) -> Tensor:
    """Return the cell of each value; where all are equal, the first one."""
    width = (high - low) / CELLS
    cells = (values - low) / width if width > 0 else torch.zeros_like(values)
    return cells.clamp(0, CELLS - 1).long()
