"""The sums of moments as one vector, which processes can exchange, and back."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from sigmascope.errors import InputError
from sigmascope.maths.grouped_sums import GROUPS, Sums
from sigmascope.maths.moments import Moments

HEAD = 2  # numbers before the sums: the width, and the precision


def pack(moments: Moments) -> Tensor:
    """Return the sums of moments as a vector of float64; it has no entries if there are none.

    >>> moments = Moments()
    >>> moments.update(torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [2.0]]))
    >>> len(pack(moments)), next(unpack(pack(moments)))
    (60, Moments(n=2, dim=1))
    """
    moments._fold()
    sums = moments._sums
    if sums is None:
        return torch.empty(0, dtype=torch.float64)
    head = torch.tensor([moments.dim, moments._precision], dtype=torch.float64)
    parts = (head, sums.count, sums.shift, sums.first, sums.second)
    return torch.cat([part.to(sums.first).flatten() for part in parts])


def unpack(vector: Tensor, *, eps: float | None = None) -> Iterator[Moments]:
    """Yield the moments of vectors that `pack` returned and somebody has joined.

    Raises:
        InputError: the vector is not made of those.
    """
    while len(vector):
        width = 2 * int(vector[0])
        shapes = ((GROUPS,), (width,), (GROUPS, width), (GROUPS, width, width))
        sizes = [torch.Size(shape).numel() for shape in shapes]
        if width < 2 or vector.ndim != 1 or len(vector) < HEAD + sum(sizes):
            raise InputError(
                f"a vector of {len(vector)} numbers does not hold the sums of moments. Pass the "
                "state of a metric as it is."
            )
        precision = float(vector[1])
        head, vector = vector[HEAD : HEAD + sum(sizes)], vector[HEAD + sum(sizes) :]
        count, shift, first, second = (
            part.reshape(shape)
            for part, shape in zip(torch.split(head, sizes), shapes, strict=True)
        )
        moments = Moments(eps=eps)
        moments._take(Sums(count.cpu(), first, second, shift))
        moments._precision = precision
        yield moments


def merged(vectors: list[Tensor], *, eps: float | None = None) -> Moments:
    """Return the moments of all samples whose sums these vectors hold."""
    total = Moments(eps=eps)
    for vector in vectors:
        for moments in unpack(vector, eps=eps):
            total.merge(moments)
    return total
