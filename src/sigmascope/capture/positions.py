"""Which positions of tensors are rows of their own, and which sample each row is of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sigmascope.capture.selected_rows import EMPTY, Rows

# SplitMix64 (Steele et al., OOPSLA 2014) in signed whole numbers, in which all devices agree.
STEP, FIRST, SECOND = (
    number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
BITS = 31  # of a random number, so that its product with a number of positions fits


@dataclass(frozen=True)
class Drawn:
    """The positions to use of tensors of one shape (n, ...).

    Attributes:
        place: (r,), their places in the flattened shape; None for all.
        index: (r,), the sample of the batch that each is of, on the host; None for row i of sample
            i.
    """

    place: Tensor | None
    index: Tensor | None


@dataclass
class Draws:
    """Draws positions of a batch, once for all tensors of one shape.

    Attributes:
        tokens: whether a number of all positions of the batch is drawn, not of each sample.
        size: the number of samples in the batch.
        limit: how many to draw of the batch.
        generator: draws them.
        first: the number of the batch's first sample in the data.
        most: how many to draw of each sample.
        seed: draws them.
        step: from the number of a sample to that of the next.
    """

    tokens: bool
    size: int
    limit: int
    generator: torch.Generator
    first: int = 0
    most: int = 1
    seed: int = 0
    step: int = 1
    _drawn: dict[tuple[object, ...], Drawn] = field(default_factory=dict)

    def of(
        self,
        shape: tuple[int, ...],
        mask: Tensor | None,
        *,
        part: str,
        lost: bool,
        device: torch.device,
        start: int = 0,
    ) -> Drawn:
        """Return the positions of a tensor (n, ..., d) without its channels.

        Args:
            shape: (n, ...).
            mask: (n, positions), those that are not padding; None for all.
            part: the part of the network whose mask it is.
            lost: whether the samples are in no known order.
            device: of the tensor.
            start: the number in the batch of its first sample.
        """
        key = (*shape, mask is not None, part, lost, start)
        if key not in self._drawn:
            n, each = shape[0], math.prod(shape[1:])
            if self.tokens:
                place = self._of_batch(n * each, mask)
            elif lost:  # as many of the batch
                step = max(1, math.ceil(n * each / (self.most * (self.size or n))))
                place = torch.arange(0, n * each, step)
            else:
                place = self._of_each(n, each, mask, self.first + start * self.step, device)
            index = self._index(place, n, each, lost=lost, even=mask is None and not self.tokens)
            if not lost and 0 < self.size != n:  # not the whole batch, or more rows than that
                index = torch.arange(n) if index is None else index
                index = start + index if n < self.size else index * self.size // n
            self._drawn[key] = Drawn(None if place is None else place.to(device), index)
        return self._drawn[key]

    def selected(self, rows: Rows, mask: Tensor | None, device: torch.device) -> Drawn:
        """Return the positions of a tensor whose rows were selected from those of the batch.

        Args:
            rows: which rows they are.
            mask: (n, tokens), those that are not padding; None for all.
            device: of the tensor.
        """
        key = (rows, mask is not None)
        if key not in self._drawn:
            numbers, allowed = rows.numbers().cpu(), None
            if mask is not None and mask.shape[1] and rows.inner % mask.shape[1] == 0:
                every = mask.cpu().repeat_interleave(rows.inner // mask.shape[1], dim=1)
                if every.numel() > int(numbers.max() if len(numbers) else 0):
                    allowed = every.reshape(-1)[numbers]
            if (numbers == EMPTY).any():
                full = numbers != EMPTY
                allowed = full if allowed is None else allowed & full
            if allowed is None:
                shape = (rows.count,)
                place = self.of(shape, None, part="", lost=True, device=device).place
            elif self.tokens:
                place = self._of_batch(rows.count, allowed)
            else:
                kept = allowed.nonzero()[:, 0]
                step = max(1, math.ceil(len(kept) / (self.most * (self.size or rows.count))))
                place = kept[::step]
            used = numbers if place is None else numbers[place.cpu()]
            drawn = Drawn(None if place is None else place.to(device), used // rows.inner)
            self._drawn[key] = drawn
        return self._drawn[key]

    def _index(
        self, place: Tensor | None, n: int, each: int, *, lost: bool, even: bool
    ) -> Tensor | None:
        """Return the sample of each row; where all have as many, no device is asked (`even`)."""
        rows = n * each if place is None else len(place)
        if lost:
            return divided(rows, self.size)
        if place is None or even:
            return None if rows == n else torch.arange(n).repeat_interleave(rows // max(1, n))
        return place.cpu() // each

    def _of_batch(self, count: int, mask: Tensor | None) -> Tensor | None:
        """Draw positions from all, or from those that the mask keeps, in order."""
        if mask is None:
            allowed = torch.arange(count)
        else:
            allowed = torch.nonzero(mask.reshape(-1).cpu())[:, 0]
        if len(allowed) <= self.limit:
            return None if mask is None else allowed
        chosen = torch.randperm(len(allowed), generator=self.generator)[: self.limit]
        return allowed[chosen.sort().values]

    def _of_each(
        self, n: int, each: int, mask: Tensor | None, first: int, device: torch.device
    ) -> Tensor | None:
        if mask is None and each <= self.most:
            return None
        numbers = first + self.step * torch.arange(n, device=device)
        return draw_positions(numbers, each, most=self.most, seed=self.seed, mask=mask)


def divided(rows: int, samples: int) -> Tensor:
    """Return (rows,), rows in no known order divided evenly among samples.

    >>> divided(5, 2)
    tensor([0, 0, 0, 1, 1])
    """
    return torch.arange(rows) * (samples or rows) // max(1, rows)


def draw_positions(
    numbers: Tensor, positions: int, *, most: int, seed: int, mask: Tensor | None = None
) -> Tensor:
    """Return (r,), places in the flattened (n, positions), of at most so many positions per image.

    Which ones follows from the numbers of the images, so that batches of any size and any division
    of the data over processes give the same. The positions of an image are divided into as many
    runs as are drawn, and one is drawn from each run. Then all are shifted in a circle, so that
    every position is equally likely.

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
    shifted: Tensor = (key >> by) & (2 ** (64 - by) - 1)
    return shifted


def _below(random: Tensor, count: Tensor) -> Tensor:
    """Return whole numbers from 0 to below `count`."""
    return _shifted(random, 64 - BITS) * count >> BITS
