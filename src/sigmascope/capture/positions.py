"""Positions drawn as samples: which ones, follows from the number of the image in the data alone.

So batches of any size, and any division of the data over processes, give the same rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

# SplitMix64 (Steele et al., OOPSLA 2014) in signed whole numbers, in which all devices agree.
STEP, FIRST, SECOND = (
    number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
BITS = 31  # of a random number, so that its product with a number of positions fits


def draw_positions(
    numbers: Tensor, positions: int, *, most: int, seed: int, mask: Tensor | None = None
) -> Tensor:
    """Return (r,), places in the flattened (n, positions), of at most so many positions per image.

    The positions of an image are divided into as many runs as are drawn, and one is drawn from each
    run. Then all are shifted in a circle, so that every position is equally likely.

    Args:
        numbers: (n,), the numbers of the images in the data.
        positions: the number of positions of each.
        most: how many to draw of each.
        seed: of the draw.
        mask: (n, positions), those to draw from; by default all.

    >>> draw_positions(torch.arange(2), 9, most=3, seed=0)
    tensor([ 8,  3,  5, 17, 11, 13])
    """
    number, slot = numbers[:, None], torch.arange(min(positions, most), device=numbers.device)
    allowed = torch.full_like(number, positions) if mask is None else mask.sum(1, keepdim=True)
    drawn = allowed.clamp(max=most)
    runs = drawn.clamp_min(1)
    start = slot * allowed // runs
    length = (slot + 1) * allowed // runs - start
    key = _mixed(_mixed(_mixed(torch.full_like(number, seed)) + allowed) + number)
    inside, shift = _below(_mixed(key + 1 + slot), length), _below(key, allowed)
    chosen = (start + inside + shift) % allowed.clamp_min(1)
    image = torch.arange(len(numbers), device=numbers.device)[:, None] * positions
    if mask is None:
        return (image + chosen).flatten()
    among = mask.logical_not().argsort(dim=1, stable=True)  # the allowed ones first, in order
    return (image + among.gather(1, chosen))[slot < drawn]


def _mixed(key: Tensor) -> Tensor:
    """Return whole numbers that look random, one for each key; overflow wraps around."""
    key = key + STEP
    key = (key ^ _shifted(key, 30)) * FIRST
    key = (key ^ _shifted(key, 27)) * SECOND
    return key ^ _shifted(key, 31)


def _shifted(key: Tensor, by: int) -> Tensor:
    """Return a shift to the right that fills up with zeros, whatever the sign."""
    return (key >> by) & (2 ** (64 - by) - 1)


def _below(random: Tensor, count: Tensor) -> Tensor:
    """Return whole numbers from 0 to below `count`."""
    return (_shifted(random, 64 - BITS) * count) >> BITS
