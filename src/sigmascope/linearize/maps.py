"""The affine maps that take the place of activations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.errors import InputError


class Affine(nn.Module):
    """An affine map of the channels: scale · x + shift, or weight @ x + shift.

    Its parameters can be trained. The output has the shape, the dtype and the memory format of the
    input. `torch.fx` traces it as one node, a leaf.

    Args:
        scale: (c,), one factor for each channel; 0 for a channel that is constant.
        shift: (c,).
        axis: of the channels, from the front or, negative, from the back; None for tensors that
            have no axis of channels, where c is 1.
        inplace: whether the result is written into the input as well, as `nn.ReLU(inplace=True)`
            does. A map that replaces such an activation must, in case the input is read again.

    Attributes:
        scale: (c,); None for a full matrix.
        weight: (c, c) of a full matrix; None otherwise.
        shift: (c,).

    Raises:
        InputError: shapes that do not fit.

    >>> half = Affine(torch.tensor([0.5, 1.0]), torch.tensor([0.0, 3.0]), axis=1)
    >>> half(torch.tensor([[4.0, 4.0]])).tolist()
    [[2.0, 7.0]]
    """

    def __init__(
        self, scale: Tensor, shift: Tensor, axis: int | None = 1, *, inplace: bool = False
    ) -> None:
        super().__init__()
        self._setup(shift, axis, inplace)
        if scale.shape != shift.shape:
            raise InputError(
                f"scale must have the shape of shift, {list(shift.shape)}, got {list(scale.shape)}."
            )
        self.scale: nn.Parameter | None = nn.Parameter(scale.detach().clone())
        self.weight: nn.Parameter | None = None

    @classmethod
    def full(cls, weight: Tensor, shift: Tensor, axis: int = 1, *, inplace: bool = False) -> Affine:
        """Return a map that mixes the channels.

        Args:
            weight: (c, c); output channel i is the sum over j of weight[i, j] times channel j.
            shift: (c,).
            axis: of the channels.
            inplace: see `Affine`.

        >>> swap = Affine.full(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.zeros(2), axis=-1)
        >>> swap(torch.tensor([[4.0, 5.0]])).tolist()
        [[5.0, 4.0]]
        """
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._setup(shift, axis, inplace)
        if weight.shape != (len(shift), len(shift)):
            raise InputError(
                f"weight must have the shape {[len(shift)] * 2}, got {list(weight.shape)}."
            )
        made.scale = None
        made.weight = nn.Parameter(weight.detach().clone())
        return made

    def _setup(self, shift: Tensor, axis: int | None, inplace: bool) -> None:
        if shift.ndim != 1 or (axis is None and len(shift) != 1):
            expected = "(c,)" if axis is not None else "(1,), since axis is None"
            raise InputError(f"shift must have the shape {expected}, got {list(shift.shape)}.")
        self.axis, self.inplace = axis, inplace
        self.shift = nn.Parameter(shift.detach().clone())
        # torch.fx takes the modules of torch.nn for leaves, and looks at the instance
        self.__module__ = "torch.nn.linearize"

    @property
    def channels(self) -> int:
        """The number of channels."""
        return len(self.shift)

    def matrix(self) -> Tensor:
        """Return the linear part (c, c), diagonal for one factor per channel."""
        if self.weight is not None:
            return self.weight
        assert self.scale is not None
        return torch.diag(self.scale)

    def forward(self, x: Tensor) -> Tensor:
        """Return the image of x, of the same shape and dtype."""
        # what is overwritten cannot serve the gradient of the parameters
        read = x.clone() if self.inplace and torch.is_grad_enabled() else x
        y = self._scaled(read) if self.scale is not None else self._mixed(read)
        y = y.to(x.dtype)  # parameters may be more precise, as under autocast
        return x.copy_(y) if self.inplace else y

    def _scaled(self, x: Tensor) -> Tensor:
        assert self.scale is not None
        if self.axis is None:
            return torch.addcmul(self.shift, x, self.scale)
        after = x.ndim - 1 - self.axis % x.ndim
        shape = (-1, *(1,) * after)
        return torch.addcmul(self.shift.view(shape), x, self.scale.view(shape))

    def _mixed(self, x: Tensor) -> Tensor:
        assert self.weight is not None
        assert self.axis is not None
        if x.ndim == 4 and self.axis in (1, -3):  # keeps the memory format
            return F.conv2d(x, self.weight[..., None, None], self.shift)
        moved = x.movedim(self.axis, -1)
        if torch.is_autocast_enabled(x.device.type):
            return F.linear(moved, self.weight, self.shift).movedim(-1, self.axis)
        return F.linear(moved.to(self.weight.dtype), self.weight, self.shift).movedim(-1, self.axis)

    def extra_repr(self) -> str:
        """Return the size, for `repr`."""
        full = ", full" if self.weight is not None else ""
        inplace = ", inplace=True" if self.inplace else ""
        return f"{self.channels}, axis={self.axis}{full}{inplace}"


class Identity(nn.Identity):
    """An identity whose output is a tensor of its own, as that of an activation is.

    With the input itself, a later `y += z` would change what else reads the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return a copy of x."""
        return input.clone()
