r"""The symmetries inside `nn.MultiheadAttention`: heads are permuted, queries and values rotated.

A head h computes softmax(q k) v with q = W_q x + b_q, and so on. For orthogonal matrices R and S,

$$(R q) \cdot (R k) = q \cdot k, \qquad W_o S^\top\,(S v) = W_o v,$$

so queries and keys of a head may be rotated together, and its values against the columns of the
output projection. All heads may change places. Elements are orthogonal although every invertible
matrix would do: those nearest to given weights have a closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

QUERY, KEY, VALUE = range(3)


@dataclass(frozen=True)
class Rows:
    """The part of the input projection that makes queries, keys or values: names, first row."""

    weight: str
    bias: str | None
    first: int
    bias_first: int


@dataclass(frozen=True)
class Heads:
    """The heads of one attention module.

    Attributes:
        site: the module.
        count: number of heads.
        width: rows of one head.
        inputs: of queries, keys and values.
        output: name of the weight of the output projection, whose columns follow the heads.
    """

    site: str
    count: int
    width: int
    inputs: tuple[Rows, Rows, Rows]
    output: str

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that follow the heads."""
        found = [self.output]
        for rows in self.inputs:
            found += [rows.weight, *([rows.bias] if rows.bias else [])]
        return tuple(dict.fromkeys(found))

    def stacked(self, tensors: Mapping[str, Tensor], which: int) -> Tensor:
        """Return [W | b] of queries, keys or values by head: (heads, width, columns)."""
        rows, size = self.inputs[which], self.count * self.width
        part = tensors[rows.weight][rows.first : rows.first + size]
        if rows.bias is not None:
            bias = tensors[rows.bias][rows.bias_first : rows.bias_first + size]
            part = torch.cat([part, bias[:, None]], dim=1)
        return part.reshape(self.count, self.width, -1)

    def columns(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the columns of the output projection by head: (heads, width, rows)."""
        return tensors[self.output].T.reshape(self.count, self.width, -1)

    def turned(self, tensors: Mapping[str, Tensor], element: HeadElement) -> dict[str, Tensor]:
        """Return the new values of the parameters that follow the heads."""
        new = {name: tensors[name].clone() for name in self.names}
        size = self.count * self.width
        for which, rows in enumerate(self.inputs):
            rotation = element.values if which == VALUE else element.queries
            moved = _rotated(self.stacked(tensors, which), element.order, rotation)
            if rows.bias is not None:
                new[rows.bias][rows.bias_first : rows.bias_first + size] = moved[:, -1]
                moved = moved[:, :-1]
            new[rows.weight][rows.first : rows.first + size] = moved
        new[self.output] = _rotated(self.columns(tensors), element.order, element.values).T
        return new


@dataclass(frozen=True, eq=False)
class HeadElement:
    """An element on the heads of one module.

    Attributes:
        order: (heads,), `order[j]` is the head that moves to place j.
        queries: (heads, width, width), the rotation of the queries and keys at place j.
        values: the same for the values.
    """

    order: Tensor
    queries: Tensor
    values: Tensor

    @classmethod
    def identity(cls, heads: Heads, dtype: torch.dtype = torch.float64) -> HeadElement:
        """Return the element that changes nothing."""
        same = torch.eye(heads.width, dtype=dtype).repeat(heads.count, 1, 1)
        return cls(torch.arange(heads.count), same, same)

    @classmethod
    def random(cls, heads: Heads, generator: torch.Generator | None) -> HeadElement:
        """Return a uniform permutation, and uniform orthogonal matrices."""
        order = torch.randperm(heads.count, generator=generator)
        shape = 2, heads.count, heads.width, heads.width
        gaussian = torch.randn(shape, generator=generator, dtype=torch.float64)
        q, r = torch.linalg.qr(gaussian)
        signs = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(q)
        q = q * signs[..., None, :]
        return cls(order, q[0], q[1])

    def after(self, earlier: HeadElement) -> HeadElement:
        """Return the element that applies `earlier` first."""
        queries = self.queries @ earlier.queries[self.order]
        return HeadElement(
            earlier.order[self.order], queries, self.values @ earlier.values[self.order]
        )


def _rotated(parts: Tensor, order: Tensor, rotation: Tensor) -> Tensor:
    """Return rows (heads · width, columns) of the heads in a new order, each rotated."""
    return (rotation.to(parts) @ parts[order]).flatten(0, 1)
