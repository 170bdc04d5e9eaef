r"""Kernels between samples, channel by channel.

For features x of n samples, c channels and p positions the kernels are

- max: $K_{mn} = \max_c \sum_p x_{mcp} x_{ncp}$; median: the lower median over the channels instead;
- sum: $K_{mn} = \sum_{cp} x_{mcp} x_{ncp}$, the linear kernel,

with a diagonal of zeros, as the unbiased estimator of HSIC needs. The max kernel is not positive
semi-definite, and nothing here relies on that. The (n, n, c) tensor never exists: tiles of rows and
columns are multiplied in batches, a few channels at a time, and reduced while they are in the
cache. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sigmascope.errors import InputError

REDUCTIONS = ("max", "median", "sum")

# Bytes of scaled features in memory at a time, and of features in the cache.
SCALED_BYTES, CACHE_BYTES = 2**27, 2**21
# Rows of a tile; bytes of the products of two tiles; bytes of all channels of a tile, for a median.
TILE = {"cpu": 384, "cuda": 2048}
PRODUCT = {"cpu": 2**23, "cuda": 2**29}
MEDIAN_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is subtracted from each channel, and what it is then multiplied by.

    Attributes:
        shift, factor: (c,), float64; the factor of a channel that does not vary, or is zero, is 0.
        live: (c,), which channels vary; without centering, which are not zero.
    """

    shift: Tensor
    factor: Tensor
    live: Tensor


def scaling_of(features: Tensor, *, centered: bool, normalize: str) -> Scaling:
    """Return how to center and normalize features (n, c, ...) over samples and positions.

    Centering subtracts the mean of each channel; normalize="channels" divides it by its norm.
    """
    count = features.shape[0] * math.prod(features.shape[2:])
    shift = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
    if centered:
        shift = sum((block.sum(dim=(0, 2)) for block in _blocks(features)), start=shift) / count
    zero = torch.zeros_like(shift)
    blocks = ((block - shift[:, None]).square_() for block in _blocks(features))
    squares = sum((block.sum(dim=(0, 2)) for block in blocks), start=zero)
    if not bool(torch.isfinite(squares).all()):
        raise InputError(
            "the features hold NaN or infinite values, or squares of them overflow. Repair "
            "them first."
        )
    live = squares > 0
    if centered:
        # The mean of equal numbers may be rounded, and then a constant channel is not quite 0.
        doubtful = live & (squares <= 1e-20 * count * shift.square())
        for channel in torch.nonzero(doubtful)[:, 0].tolist():
            values = features[:, channel]
            live[channel] = bool((values != values.flatten()[0]).any())
    factor = squares.rsqrt() if normalize == "channels" else torch.ones_like(squares)
    return Scaling(shift, torch.where(live, factor, 0.0), live)


def empty_kernel(
    n: int, reduction: str, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the kernel (n, n) of no channels, for `accumulate_kernel` to add channels to."""
    start = -torch.inf if reduction == "max" else 0.0
    return torch.full((n, n), start, dtype=dtype, device=device)


def accumulate_kernel(
    kernel: Tensor, features: Tensor, scaling: Scaling, *, reduction: str, tile: int | None = None
) -> None:
    """Add channels (n, c, ...) to a kernel (n, n), in place; a "median" needs all at once.

    Products are computed in the type of the kernel, float32 or float64, in tiles of `tile` rows,
    by default chosen for the device.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> kernel = empty_kernel(3, "max", torch.float64)
    >>> plain = Scaling(torch.zeros(2), torch.ones(2), torch.ones(2, dtype=torch.bool))
    >>> accumulate_kernel(kernel, x, plain, reduction="max")
    >>> kernel
    tensor([[0., 0., 1.],
            [0., 0., 1.],
            [1., 1., 0.]], dtype=torch.float64)
    """
    place = "cuda" if kernel.is_cuda else "cpu"
    n, c = features.shape[:2]
    tile = min(n, tile or TILE[place])
    if reduction == "median":  # all channels of a tile at once
        tile = max(1, min(tile, math.isqrt(MEDIAN_BYTES // kernel.itemsize // c)))
    room = max(PRODUCT[place] // kernel.itemsize, tile * tile)
    work = torch.empty(room, dtype=kernel.dtype, device=kernel.device)
    bytes_each = n * math.prod(features.shape[2:]) * work.itemsize
    step = c if reduction == "median" else max(1, SCALED_BYTES // bytes_each)
    for start in range(0, c, step):
        chosen = slice(start, start + step)
        part = Scaling(scaling.shift[chosen], scaling.factor[chosen], scaling.live[chosen])
        _take_in(kernel, features[:, chosen], part, _Plan(reduction, tile, work))
    _mirror(kernel, tile)


class _Plan(NamedTuple):
    """How a kernel is computed: rows per tile, and memory for the products."""

    reduction: str
    tile: int
    work: Tensor


def _take_in(kernel: Tensor, features: Tensor, scaling: Scaling, plan: _Plan) -> None:
    """Add channels to the tiles on and above the diagonal."""
    rows_of = _scaled_rows(features, scaling, kernel.dtype, plan)
    for i in range(0, len(kernel), plan.tile):
        rows = rows_of(i)
        for j in range(i, len(kernel), plan.tile):
            block = kernel[i : i + plan.tile, j : j + plan.tile]
            _reduce(block, rows, rows if i == j else rows_of(j), plan)


def _mirror(kernel: Tensor, tile: int) -> None:
    """Copy the upper triangle to the lower one, and set the diagonal to 0.

    Tiles on the diagonal too: not every matrix product of rows with themselves is symmetric.
    """
    above = torch.ones(tile, tile, dtype=torch.bool, device=kernel.device).triu_()
    for i in range(0, len(kernel), tile):
        block = kernel[i : i + tile, i : i + tile]
        block.copy_(torch.where(above[: len(block), : len(block)], block, block.T))
        for j in range(i + tile, len(kernel), tile):
            kernel[j : j + tile, i : i + tile] = kernel[i : i + tile, j : j + tile].T
    kernel.fill_diagonal_(0)


def _scaled_rows(
    features: Tensor, scaling: Scaling, dtype: torch.dtype, plan: _Plan
) -> Callable[[int], Tensor]:
    """Return a function from the first row of a tile to its scaled rows."""
    tile = plan.tile
    if plan.reduction == "median":  # all channels at once may not fit: scale a tile when needed
        return lambda start: _scaled(features[start : start + tile], scaling, dtype, joined=False)
    ready = _scaled(features, scaling, dtype, joined=plan.reduction == "sum")
    return lambda start: ready[:, start : start + tile]


def _scaled(features: Tensor, scaling: Scaling, dtype: torch.dtype, *, joined: bool) -> Tensor:
    """Return scaled features as (c, n, p), or joined into one long channel, (1, n, c·p).

    They are scaled in float64: a mean far from 0, rounded to float32, would not cancel.
    """
    flat = features.reshape(*features.shape[:2], -1)
    n, c, p = flat.shape
    out = torch.empty((n, c, p) if joined else (c, n, p), dtype=dtype, device=flat.device)
    by_sample = out if joined else out.transpose(0, 1)
    shift, factor = (one.to(torch.float64)[:, None] for one in (scaling.shift, scaling.factor))
    step = n if out.is_cuda else max(1, CACHE_BYTES // (c * p * shift.itemsize))
    for part, rows in zip(torch.split(by_sample, step), torch.split(flat, step), strict=True):
        part.copy_(torch.sub(rows, shift).mul_(factor))  # while they are in the cache
    return out.view(1, n, c * p) if joined else out


def _reduce(block: Tensor, rows: Tensor, columns: Tensor, plan: _Plan) -> None:
    """Add the products of rows and columns, channel by channel, to a block of the kernel."""
    r, b = block.shape
    if plan.reduction == "sum":
        block += torch.mm(rows[0], columns[0].T, out=plan.work[: r * b].view(r, b))
    elif plan.reduction == "median":
        block.copy_(torch.bmm(rows, columns.mT).median(dim=0).values)
    else:
        step = max(1, len(plan.work) // (r * b))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            product = plan.work[: len(some) * r * b].view(len(some), r, b)
            torch.bmm(some, columns[start : start + step].mT, out=product)
            torch.maximum(block, product.amax(dim=0), out=block)


def _blocks(features: Tensor) -> Iterator[Tensor]:
    """Yield features as (b, c, p) in float64, a few samples at a time."""
    per_sample = 8 * max(1, math.prod(features.shape[1:]))
    for block in torch.split(features, max(1, CACHE_BYTES // per_sample)):
        yield block.reshape(*block.shape[:2], -1).to(torch.float64)
