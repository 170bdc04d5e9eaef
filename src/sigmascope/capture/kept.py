"""Tensors as they were, to tell later whether they have changed."""

from __future__ import annotations

from weakref import ref

import torch
from torch import Tensor

SMALL = 4096  # elements of a tensor that is kept whole


class Known:
    """A tensor as it was; keeps none of another size alive."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = ref(tensor)
        self._version = version_of(tensor)
        # a change through `.data` leaves the version what it is
        self._value = tensor.detach().clone() if tensor.numel() <= SMALL else None

    def has_changed(self) -> bool:
        """Return whether the tensor is gone or holds other values."""
        tensor = self._tensor()
        if tensor is None:
            return True
        if self._value is None:
            return version_of(tensor) != self._version
        same = tensor.shape == self._value.shape and tensor.device == self._value.device
        return not same or not torch.equal(tensor.detach(), self._value)


def version_of(tensor: Tensor) -> int:
    """Return how often a tensor was written to; 0 for one of inference mode, which does not count.

    >>> x = torch.zeros(2)
    >>> before = version_of(x)
    >>> version_of(x.add_(1)) > before
    True
    """
    return 0 if tensor.is_inference() else tensor._version
