"""Stacks of pairs of samples: grouped by shape, padded or reduced to one width, centered."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.maths.samples import ROUNDING, center, limits_of

# Added to the diagonal of a Gram matrix (times its columns and the mean square of the side), above
# its rounding. It adds as much to the squared distance.
JITTER = 2e-15
# Pairs up to this width are padded to one: launching their many small kernels costs more than
# computing with zeros.
NARROW = 256
# Bytes on the device that the pairs in work may need together.
PORTION = 6 * 2**30


@dataclass(frozen=True)
class Stack:
    """b pairs of one shape; the first axis, of length 2, is x and y.

    Attributes:
        positions: of the pairs among all.
        widths: original numbers of columns of the pairs.
        points: centered, (2, b, n, r).
        scatter: (2, b, r, r).
        summary: for the host, (2, b, n + 2): the lengths of the rows, the norm of the scatter, and
            the largest original value of the sample, or NaN where it is constant to the rounding
            of its type or could not be reduced.
    """

    positions: list[int]
    widths: list[int]
    points: Tensor
    scatter: Tensor
    summary: Tensor


def portions(shapes: Sequence[torch.Size]) -> Iterator[dict[int, torch.Size]]:
    """Yield the pairs, by position, in portions that need about `PORTION` bytes at most."""
    some: dict[int, torch.Size] = {}
    used = 0
    for position, shape in enumerate(shapes):
        n, width = shape
        columns = max(min(width, 2 * n), NARROW)
        needed = 8 * (2 * n * width + 6 * n * columns + 12 * columns**2 + 6 * n**2)
        if some and used + needed > PORTION:
            yield some
            some, used = {}, 0
        some[position] = shape
        used += needed
    if some:
        yield some


@dataclass(frozen=True)
class Group:
    """Pairs that are computed with one number of columns: positions by original width."""

    columns: int
    positions: dict[int, list[int]]


def grouped(shapes: dict[int, torch.Size]) -> list[Group]:
    """Return the groups of pairs, by their positions, that are computed together."""
    groups: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, (n, width) in shapes.items():
        columns = min(width, 2 * n)
        groups[n, 0 if columns <= NARROW else columns][width].append(position)
    return [
        Group(max(min(width, 2 * n) for width in widths), widths)
        for (n, _), widths in groups.items()
    ]


def stacked(
    pairs: Sequence[tuple[Tensor, Tensor]],
    group: Group,
    *,
    rounding: Sequence[tuple[float, float]],
    relative: bool,
) -> Stack:
    """Return the pairs of a group with one number of columns: padded with zeros, or reduced.

    `rounding` is that of every pair, and `relative` whether it decides what is noise, see `fit`.
    """
    padded: list[Tensor] = []
    stacks: list[Stack] = []
    for width, positions in group.positions.items():
        rows = [pairs[position][side] for side in (0, 1) for position in positions]
        points = torch.stack(rows).double().view(2, len(positions), *rows[0].shape)
        missing = group.columns - width
        if missing < 0:
            stacks.append(_prepare({width: positions}, points, rounding, relative))
        else:
            padded.append(F.pad(points, (0, missing)) if missing else points)
    if padded:
        narrow = {width: some for width, some in group.positions.items() if width <= group.columns}
        points = torch.cat(padded, dim=1) if len(padded) > 1 else padded[0]
        stacks.append(_prepare(narrow, points, rounding, relative))
    return _join(stacks)


def _prepare(
    positions: dict[int, list[int]],
    points: Tensor,
    rounding: Sequence[tuple[float, float]],
    relative: bool,
) -> Stack:
    widths = [width for width, some in positions.items() for _ in some]
    places = [one for some in positions.values() for one in some]
    limits = limits_of(points)
    constant = limits.constant(_on_device([rounding[place] for place in places], points.device))
    noise = constant if relative else limits.constant(ROUNDING)
    points = center(points, limits).masked_fill_(noise, 0)
    largest = limits.largest().amax(dim=(2, 3)).masked_fill(constant.all(dim=3)[..., 0], math.nan)
    if points.shape[3] > 2 * points.shape[2]:
        points, info = _gram_coordinates(points)
        largest = largest.masked_fill(info != 0, math.nan)
    scatter = points.mT @ points
    lengths = torch.linalg.vector_norm(points, dim=3)
    norm = torch.linalg.vector_norm(scatter, dim=(2, 3))
    summary = torch.cat([lengths, norm[..., None], largest[..., None]], dim=2)
    return Stack(places, widths, points, scatter, summary)


def _on_device(rounding: list[tuple[float, float]], device: torch.device) -> Tensor | float:
    """Return the rounding of b pairs, one number if they agree, otherwise (2, b, 1, 1)."""
    if len({one for pair in rounding for one in pair}) == 1:
        return rounding[0][0]
    return torch.tensor(rounding, dtype=torch.float64, device=device).T[..., None, None]


def _gram_coordinates(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the points in 2n coordinates: the rows of the Cholesky factor of their Gram matrix."""
    n = points.shape[2]
    rows = torch.cat([points[0], points[1]], dim=1)
    gram = rows @ rows.mT
    squared = gram.diagonal(dim1=1, dim2=2).view(-1, 2, n)
    squared.add_(JITTER * n * squared.mean(dim=2, keepdim=True))
    lower, info = torch.linalg.cholesky_ex(gram)
    return torch.stack([lower[:, :n], lower[:, n:]]), info


def _join(stacks: list[Stack]) -> Stack:
    if len(stacks) == 1:
        return stacks[0]
    positions = [position for stack in stacks for position in stack.positions]
    widths = [width for stack in stacks for width in stack.widths]
    names = ("points", "scatter", "summary")
    tensors = (torch.cat([getattr(stack, name) for stack in stacks], dim=1) for name in names)
    return Stack(positions, widths, *tensors)
