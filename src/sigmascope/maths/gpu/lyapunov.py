r"""The equation $HK + KH = C$ for many positive definite H at once, by matrix products alone.

The sign of the block matrix $\begin{pmatrix}H & C\\0 & -H\end{pmatrix}$ is
$\begin{pmatrix}I & 2K\\0 & -I\end{pmatrix}$. The polynomials that carry the eigenvalues of H to 1
(see `sigmascope.maths.gpu.polar`) compute it; only two of the four blocks are worked on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sigmascope.maths.gpu.polar import polynomials


def solve_lyapunov(matrices: Tensor, right: Tensor, *, smallest: float) -> Tensor:
    """Return the symmetric K (b, r, r) with HK + KH = C.

    Args:
        matrices: H (b, r, r), symmetric with eigenvalues in [smallest, 1].
        right: C (b, r, r), symmetric.
        smallest: a lower bound of the eigenvalues.

    >>> h, c = torch.eye(2).double()[None] / 2, torch.tensor([[[1.0, 2.0], [2.0, 4.0]]]).double()
    >>> solve_lyapunov(h, c, smallest=0.5).round(decimals=9).tolist()
    [[[1.0, 2.0], [2.0, 4.0]]]
    """
    diagonal, corner = matrices, right
    for linear, cubic, quintic in polynomials(smallest):
        squared = torch.bmm(diagonal, diagonal)
        factor = torch.baddbmm(squared, squared, squared, beta=cubic, alpha=quintic)
        factor.diagonal(dim1=1, dim2=2).add_(linear)
        # of the square of the block matrix: antisymmetric, since both blocks are symmetric
        crossed = torch.bmm(diagonal, corner)
        crossed = crossed - crossed.mT
        bent = torch.bmm(squared, crossed)
        bent = cubic * crossed + quintic * (bent - bent.mT)
        corner = torch.bmm(diagonal, bent) + torch.bmm(corner, factor)
        corner = (corner + corner.mT) / 2
        diagonal = torch.bmm(diagonal, factor)
    return corner / 2
