r"""The inverse of many lower triangular matrices at once, mostly by matrix products.

$\begin{pmatrix}A & 0\\B & C\end{pmatrix}^{-1} =
\begin{pmatrix}A^{-1} & 0\\-C^{-1}BA^{-1} & C^{-1}\end{pmatrix}$: inverses of small blocks are put
together to those of blocks twice as large. On a GPU a triangular solve of 512 rows takes as long as
thirty products.
"""

from __future__ import annotations

import torch
from torch import Tensor

SMALL = 64  # rows of a block that is solved


def inverse_of_lower(lower: Tensor) -> Tensor:
    """Return the inverses of lower triangular matrices (b, d, d); what is above is not read.

    >>> inverse_of_lower(torch.tensor([[[2.0, 0.0], [1.0, 1.0]]])).tolist()
    [[[0.5, 0.0], [-0.5, 1.0]]]
    """
    size = lower.shape[-1]
    while size > SMALL and size % 2 == 0:
        size //= 2
    blocks = _diagonal_blocks(lower, size)
    identity = torch.eye(size, dtype=lower.dtype, device=lower.device)
    inverse: Tensor = torch.linalg.solve_triangular(blocks, identity.expand_as(blocks), upper=False)
    while size < lower.shape[-1]:
        upper_left, lower_right = inverse[::2], inverse[1::2]
        size *= 2
        below = _diagonal_blocks(lower, size)[:, size // 2 :, : size // 2]
        corner = torch.bmm(lower_right, torch.bmm(below, upper_left))
        inverse = inverse.new_zeros(len(corner), size, size)
        inverse[:, : size // 2, : size // 2] = upper_left
        inverse[:, size // 2 :, size // 2 :] = lower_right
        inverse[:, size // 2 :, : size // 2] = -corner
    return inverse


def _diagonal_blocks(matrices: Tensor, size: int) -> Tensor:
    """Return the blocks (b · d / size, size, size) on the diagonals, those of a matrix together."""
    count = matrices.shape[-1] // size
    parted = matrices.reshape(len(matrices), count, size, count, size)
    blocks: Tensor = parted.diagonal(dim1=1, dim2=3).movedim(-1, 1).flatten(0, 1)
    return blocks
