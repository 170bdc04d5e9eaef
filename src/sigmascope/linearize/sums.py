"""Sums over the inputs and outputs of an activation, and the affine maps that fit them best."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

CHUNK = 2**21
"""Values that are converted to float64 at a time."""


class PairSums:
    """Sums of the inputs x and outputs y of an activation, channel by channel, in float64.

    Every position is a sample. The memory depends on the number of channels only.

    Args:
        channels: their number.
        full: whether to sum the products of all channels, too, for a full matrix.

    >>> sums = PairSums(1)
    >>> x = torch.tensor([[-1.0], [1.0], [2.0]])
    >>> sums.add(x, 3 * x + 2, axis=-1)
    >>> [one.round(decimals=6).tolist() for one in sums.per_channel()]
    [[3.0], [2.0]]
    """

    def __init__(self, channels: int, *, full: bool = False) -> None:
        self.count = 0
        self.rounding = 0.0
        self._shift = torch.zeros(2, channels, 1, dtype=torch.float64)
        self._first = torch.zeros(2, channels, dtype=torch.float64)
        self._squares = torch.zeros(3, channels, dtype=torch.float64)  # xx, xy, yy
        self._positive = torch.zeros(channels, dtype=torch.float64)
        width = 2 * channels if full else 0
        self._products = torch.zeros(width, width, dtype=torch.float64)

    @property
    def is_full(self) -> bool:
        """Whether the products of all channels are known."""
        return len(self._products) > 0

    @property
    def is_finite(self) -> bool:
        """Whether anything was added, and all of it was finite."""
        return self.count > 0 and bool(self._squares.isfinite().all())

    def add(self, x: Tensor, y: Tensor, axis: int | None, mask: Tensor | None = None) -> None:
        """Add inputs and outputs of one shape.

        Args:
            x: inputs, of any floating dtype.
            y: outputs.
            axis: of the channels.
            mask: of the first axes, which positions count.
        """
        self.rounding = max(self.rounding, torch.finfo(x.dtype).eps)
        if mask is not None:
            x, y = x[mask], y[mask]
            axis = -1
        for rows_x, rows_y in zip(_by_channel(x, axis), _by_channel(y, axis), strict=True):
            self._add(torch.stack([rows_x, rows_y]))

    def _add(self, pairs: Tensor) -> None:
        """Add (2, c, m)."""
        if not pairs.shape[2]:
            return
        if not self.count:  # around which sums lose no digits
            self._shift = pairs.mean(dim=2, keepdim=True).cpu()
        self._positive += (pairs[0] > 0).sum(dim=1).cpu()
        pairs -= self._shift.to(pairs.device)
        x, y = pairs
        self.count += pairs.shape[2]
        self._first += pairs.sum(dim=2).cpu()
        squares = [torch.linalg.vecdot(one, two) for one, two in ((x, x), (x, y), (y, y))]
        self._squares += torch.stack(squares).cpu()
        if self.is_full:
            both = pairs.flatten(0, 1)
            self._products += (both @ both.T).cpu()

    @property
    def means(self) -> Tensor:
        """The means (2, c) of x and y."""
        return self._shift[..., 0] + self._first / self.count

    @property
    def covariances(self) -> Tensor:
        """The variances of x, covariances, and variances of y (3, c)."""
        x, y = self._first / self.count
        return self._squares / self.count - torch.stack([x * x, x * y, y * y])

    @property
    def positive(self) -> Tensor:
        """The share of positive inputs (c,)."""
        return self._positive / self.count

    def varies(self) -> Tensor:
        """Return which channels (c,) of the input are not constant up to rounding."""
        mean = self.means[0]
        return self.covariances[0] > (mean.square() + self.covariances[0]) * self.rounding**2

    def per_channel(self) -> tuple[Tensor, Tensor]:
        """Return the scale and the shift (c,) of the least squares fit of each channel.

        The scale is 0 where the input or the output is constant.
        """
        variance, covariance, _ = self.covariances
        varies = self.varies()
        scale = torch.where(varies, covariance / variance.where(varies, torch.ones(())), 0.0)
        mean_x, mean_y = self.means
        return scale, mean_y - scale * mean_x

    def full_matrix(self) -> tuple[Tensor, Tensor]:
        """Return the matrix (c, c) and the shift (c,) of the least squares fit of all channels.

        Among several, as where inputs depend on each other, the matrix with the smallest norm.
        """
        means = self._first.flatten() / self.count
        products = self._products / self.count - torch.outer(means, means)
        c = len(products) // 2
        scale = products[:c, :c].diagonal().clamp_min(0).sqrt()
        scale = torch.where(self.varies(), scale, torch.ones(()))
        # of comparable size, so that one threshold fits all channels
        within = products[:c, :c] / torch.outer(scale, scale)
        across = products[c:, :c] / scale
        weight = across @ torch.linalg.pinv(within, rtol=c * 1e-13, hermitian=True) / scale
        mean_x, mean_y = self.means
        return weight, mean_y - weight @ mean_x

    def residual(self, scale: Tensor, shift: Tensor) -> Tensor:
        """Return the mean square (c,) of scale · x + shift - y."""
        variance, covariance, other = self.covariances
        mean_x, mean_y = self.means
        bias = scale * mean_x + shift - mean_y
        found: Tensor = scale * scale * variance - 2 * scale * covariance + other + bias.square()
        return found

    def full_residual(self, weight: Tensor, shift: Tensor) -> Tensor:
        """Return the mean square (c,) of weight @ x + shift - y."""
        means = self._first.flatten() / self.count
        products = self._products / self.count - torch.outer(means, means)
        joint = torch.cat([weight, -torch.eye(len(weight), dtype=weight.dtype)], dim=1)
        bias = weight @ self.means[0] + shift - self.means[1]
        return ((joint @ products) * joint).sum(dim=1) + bias.square()


def explained(residual: Tensor, sums: PairSums) -> float:
    """Return R², the share of the variance of the outputs that a map explains; 1 if they are equal.

    >>> sums = PairSums(1)
    >>> x = torch.tensor([-1.0, 1.0])
    >>> sums.add(x, x.relu(), axis=None)
    >>> explained(sums.residual(*sums.per_channel()), sums)
    1.0
    """
    total, left = float(sums.covariances[2].sum()), max(0.0, float(residual.sum()))
    rounding = float(sums.means[1].square().sum()) * sums.rounding**2
    if total <= rounding:  # a constant
        return float(left <= 4 * rounding)
    return 1 - left / total


def _by_channel(tensor: Tensor, axis: int | None) -> Iterator[Tensor]:
    """Yield parts (c, m) of a tensor in float64."""
    moved = tensor.detach()[..., None] if axis is None else tensor.detach().movedim(axis, -1)
    rows = max(1, CHUNK * len(moved) // max(1, moved.numel()))
    device = "cpu" if tensor.device.type == "mps" else tensor.device  # which has no float64
    for part in torch.split(moved, rows):
        yield part.movedim(-1, 0).flatten(1).to(device, torch.float64)
