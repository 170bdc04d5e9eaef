r"""The equation $HK + KH = C$ for many positive definite H at once, by matrix products alone.

The sign of the block matrix $\begin{pmatrix}H & C\\0 & -H\end{pmatrix}$ is
$\begin{pmatrix}I & 2K\\0 & -I\end{pmatrix}$. The polynomials that carry the eigenvalues of H to 1
(see `sigmascope.maths.gpu.polar`) compute it; only two of the four blocks are worked on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sigmascope.maths.gpu.polar import ROUNDING, polynomials


def solve_lyapunov(
    matrices: Tensor, right: Tensor, *, smallest: float, error: float = ROUNDING
) -> Tensor:
    """Return the symmetric K (b, r, r) with HK + KH = C.

    Args:
        matrices: H (b, r, r), symmetric with eigenvalues in [smallest, 1].
        right: C (b, r, r), symmetric.
        smallest: a lower bound of the eigenvalues.
        error: how far from 1 eigenvalues may end; fewer steps do for a larger one.

    >>> h, c = torch.eye(2).double()[None] / 2, torch.tensor([[[1.0, 2.0], [2.0, 4.0]]]).double()
    >>> solve_lyapunov(h, c, smallest=0.5).round(decimals=9).tolist()
    [[[1.0, 2.0], [2.0, 4.0]]]
    """
    diagonal, corner = matrices, right
    for linear, cubic, quintic in polynomials(smallest, error):
        squared, crossed = torch.bmm(diagonal, torch.cat([diagonal, corner], dim=2)).chunk(2, dim=2)
        # a + bs + cs² = c(s + b/2c)² + a - b²/4c, also of the block matrix
        shifted = squared.contiguous()
        shifted.diagonal(dim1=1, dim2=2).add_(cubic / (2 * quintic))
        # antisymmetric, since both blocks are symmetric
        crossed = crossed - crossed.mT
        bent = torch.bmm(shifted, crossed)
        bent = bent - bent.mT
        factor = torch.baddbmm(shifted, shifted, shifted, beta=0, alpha=quintic)
        factor.diagonal(dim1=1, dim2=2).add_(linear - cubic**2 / (4 * quintic))
        corner = torch.baddbmm(torch.bmm(corner, factor), diagonal, bent, alpha=quintic)
        corner = (corner + corner.mT) / 2
        diagonal = torch.bmm(diagonal, factor)
    return corner / 2
