r"""Kernels between samples, channel by channel, and the similarity of two kernels.

For features x of n samples, c channels and p positions the kernels are

- max: $K_{mn} = \max_c \sum_p x_{mcp} x_{ncp}$, and median, the lower median over the channels
    instead;
- sum: $K_{mn} = \sum_{cp} x_{mcp} x_{ncp}$, the linear kernel,

with a diagonal of zeros, as the unbiased estimator of HSIC asks for. The max kernel is not positive
semi-definite, and nothing here relies on that. The (n, n, c) tensor never exists: tiles of rows and
columns meet in batched products, a few channels at a time, and a running maximum takes them in
while they are in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sigmascope.errors import InputError

__all__ = [
    "REDUCTIONS",
    "Products",
    "Scaling",
    "accumulate_kernel",
    "empty_kernel",
    "hsic",
    "hsic_products",
    "scaling_of",
]

REDUCTIONS = ("max", "median", "sum")

# Bytes of scaled features that are kept at a time, of the rows of kernels that are centered, and of
# features in the cache.
SCALED_BYTES, BLOCK_BYTES, CACHE_BYTES = 2**27, 2**21, 2**21
# Rows of a tile; bytes of the products of two tiles.
TILE = {"cpu": 384, "cuda": 2048}
PRODUCT = {"cpu": 2**23, "cuda": 2**29}
# Bytes of all channels of a tile, for a median.
MEDIAN_BYTES = 2**26
# Powers of two by which kernels are divided stay in this range, so that they and their inverses are
# normal numbers.
EXPONENT = 1000


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is subtracted from each channel, and what it is then multiplied by.

    Attributes:
        shift, factor: (c,), float64; the factor of a channel that does not vary, or is zero, is 0.
        live: (c,), which channels do vary; without centring, which are not zero.
    """

    shift: Tensor
    factor: Tensor
    live: Tensor


def scaling_of(features: Tensor, *, centered: bool, normalize: str) -> Scaling:
    """Measure how to center and normalize features over samples and positions.

    Args:
        features: (n, c, ...).
        centered: whether the mean of each channel is taken off.
        normalize: "channels" divides each channel by its norm, "none" leaves them as they are.
    """
    count = features.shape[0] * math.prod(features.shape[2:])
    shift = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
    if centered:
        shift = sum((block.sum(dim=(0, 2)) for block in _blocks(features)), start=shift) / count
    zero = torch.zeros_like(shift)
    squares = sum(
        ((block - shift[:, None]).square_().sum(dim=(0, 2)) for block in _blocks(features)),
        start=zero,
    )
    if not bool(torch.isfinite(squares).all()):
        raise InputError(
            "the features hold NaN or infinite values, or squares of them overflow. Repair "
            "them first."
        )
    live = squares > 0
    # The mean of equal numbers may be rounded, and then something is left of a constant channel.
    for channel in (
        torch.nonzero(live & (squares <= 1e-20 * count * shift.square()))[:, 0].tolist()
        if centered
        else []
    ):
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
    """Take channels into a kernel, in place; of "max" and "sum" any number of times, of "median"
    all channels at once.

    Args:
        kernel: (n, n), see `empty_kernel`; products are computed in its type, float32 or float64.
        features: (n, c, ...), of any floating type, contiguous or not.
        scaling: of these channels.
        reduction: "max", "median" or "sum".
        tile: rows of a tile, chosen for the machine by default.

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
    work = torch.empty(
        max(PRODUCT[place] // kernel.itemsize, tile * tile),
        dtype=kernel.dtype,
        device=kernel.device,
    )
    step = (
        c
        if reduction == "median"
        else max(1, SCALED_BYTES // (n * math.prod(features.shape[2:]) * work.itemsize))
    )
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
    """Take channels into the tiles on and above the diagonal."""
    rows_of = _scaled_rows(features, scaling, kernel.dtype, plan)
    for i in range(0, len(kernel), plan.tile):
        rows = rows_of(i)
        for j in range(i, len(kernel), plan.tile):
            block = kernel[i : i + plan.tile, j : j + plan.tile]
            _reduce(block, rows, rows if i == j else rows_of(j), plan)


def _mirror(kernel: Tensor, tile: int) -> None:
    """Copy what is above the diagonal below it, and set the diagonal to 0.

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
    """Return a function from the first row of a tile to its scaled rows.

    All are scaled once, before they meet; but for a median, which needs more channels at once than
    there may be room for.
    """
    joined = plan.reduction == "sum"
    if plan.reduction == "median":
        return lambda start: _scaled(
            features[start : start + plan.tile], scaling, dtype, joined=joined
        )
    ready = _scaled(features, scaling, dtype, joined=joined)
    return lambda start: ready[:, start : start + plan.tile]


def _scaled(features: Tensor, scaling: Scaling, dtype: torch.dtype, *, joined: bool) -> Tensor:
    """Return scaled features as (c, n, p), or joined into one long channel, (1, n, c·p).

    They are scaled in float64: a mean far from 0 that was rounded to float32 first would leave
    something of itself.
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
    """Take the products of rows and columns, channel by channel, into a block of the kernel."""
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


class Products(NamedTuple):
    """HSIC of kernels that were divided each by a power of two, so that no square overflows or
    vanishes.

    Attributes:
        cross: (k, l), each of the one with each of the other.
        x, y: (k,) and (l,), each with itself; exactly 0 for a kernel that is constant off its
            diagonal.
        same: (k, l), which pairs of kernels are equal, entry by entry, before they are divided.
        x_units, y_units: what the kernels were divided by.
    """

    cross: Tensor
    x: Tensor
    y: Tensor
    same: Tensor
    x_units: list[float]
    y_units: list[float]

    def divided(self, i: int, j: int) -> tuple[float, float, float]:
        """Return the HSIC of (x, y), (x, x) and (y, y) for one pair of the divided kernels: for
        their cosine.
        """
        return float(self.cross[i, j]), float(self.x[i]), float(self.y[j])

    def hsic(self, i: int, j: int) -> tuple[float, float, float]:
        """Return the same of the kernels as they are; infinite or 0 where that is out of range."""
        x, y = self.x_units[i], self.y_units[j]
        across, one, other = self.divided(i, j)
        return across * x * y, one * x * x, other * y * y


def hsic_products(x: Sequence[Tensor], y: Sequence[Tensor]) -> Products:
    r"""Center kernels as the unbiased estimator does, and multiply each of `x` with each of `y`, in
    float64.

    $U_{ij} = K_{ij} - (r_i + r_j)/(n - 2) + \sum r / ((n - 1)(n - 2))$ off the diagonal and 0 on
    it, with r the sums of the rows of K; then $\mathrm{HSIC}_1(K, L) = \sum U_K U_L / (n (n - 3))$.
    Kernels are read a few rows at a time. Each is divided by a power of two near its largest entry,
    which rounds nothing; see `Products`.

    Args:
        x: kernels (n, n), symmetric, with a diagonal of zeros; n is at least 4.
        y: others of the same samples.
    """
    units = [[_unit(kernel) for kernel in side] for side in (x, y)]
    sums = [
        [_row_terms(*one) for one in zip(side, own, strict=True)]
        for side, own in zip((x, y), units, strict=True)
    ]
    n, device = len(x[0]), x[0].device
    cross = torch.zeros(len(x), len(y), dtype=torch.float64, device=device)
    selves = [torch.zeros(len(side), dtype=torch.float64, device=device) for side in (x, y)]
    same = torch.ones(len(x), len(y), dtype=torch.bool)
    step = max(1, BLOCK_BYTES // (8 * n * (len(x) + len(y))))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        for i, j in torch.nonzero(same).tolist():
            same[i, j] = torch.equal(x[i][rows], y[j][rows])
        left, right = (
            torch.stack([_centered_rows(*one, rows) for one in zip(side, own, terms, strict=True)])
            for side, own, terms in zip((x, y), units, sums, strict=True)
        )
        cross += left @ right.T
        for one, block in zip(selves, (left, right), strict=True):
            one += block.square().sum(dim=1)
    for one, side, own in zip(selves, (x, y), units, strict=True):
        floor = [_rounding(kernel, unit) for kernel, unit in zip(side, own, strict=True)]
        one[one <= torch.tensor(floor, dtype=torch.float64, device=device)] = 0
    return Products(
        cross / (n * (n - 3)), selves[0] / (n * (n - 3)), selves[1] / (n * (n - 3)), same, *units
    )


def hsic(x: Tensor, y: Tensor) -> float:
    """Return the unbiased HSIC of two kernels; see `hsic_products`.

    >>> kernel = torch.ones(4, 4, dtype=torch.float64).fill_diagonal_(0)
    >>> hsic(kernel, kernel)
    0.0
    """
    return hsic_products([x], [y]).hsic(0, 0)[0]


def _unit(kernel: Tensor) -> float:
    """Return a power of two near the largest entry."""
    largest = max(abs(float(end)) for end in torch.aminmax(kernel))
    exponent = math.frexp(largest)[1] if largest else 0
    return 2.0 ** max(-EXPONENT, min(exponent, EXPONENT))


def _row_terms(kernel: Tensor, unit: float) -> Tensor:
    """Return (n,), what is taken off entry (i, j) as t_i + t_j: half of the constant goes to each."""
    n = len(kernel)
    sums = torch.cat(
        [(rows.double() / unit).sum(dim=1) for rows in torch.split(kernel, _rows_at_once(n))]
    )
    return sums / (n - 2) - sums.sum() / (2 * (n - 1) * (n - 2))


def _centered_rows(kernel: Tensor, unit: float, terms: Tensor, rows: slice) -> Tensor:
    block = kernel[rows].double() / unit
    block -= terms[rows, None]
    block -= terms
    block.diagonal(offset=rows.start).zero_()
    return block.flatten()


def _rounding(kernel: Tensor, unit: float) -> float:
    """Return the sum of squares that rounding alone may leave of a kernel that is constant off its
    diagonal.
    """
    parts = torch.split(kernel, _rows_at_once(len(kernel)))
    squares = math.fsum(float((rows.double() / unit).square_().sum()) for rows in parts)
    return (16 * torch.finfo(kernel.dtype).eps) ** 2 * squares


def _rows_at_once(n: int) -> int:
    return max(1, BLOCK_BYTES // (8 * n))


def _blocks(features: Tensor) -> Iterator[Tensor]:
    """Yield features as (b, c, p) in float64, a few samples at a time."""
    per_sample = 8 * max(1, math.prod(features.shape[1:]))
    for block in torch.split(features, max(1, CACHE_BYTES // per_sample)):
        yield block.reshape(*block.shape[:2], -1).to(torch.float64)
