"""Which axis holds the channels of a layer's output, from the layer alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as module_hooks
from torch.utils.weak import WeakIdKeyDictionary

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
CONVOLUTIONS += (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)  # type: ignore[assignment]
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def channels_of(module: nn.Module, output: object) -> tuple[int, int] | None:
    """Return the axis and number of the channels in the output of a layer; None where unknown.

    >>> import torch
    >>> channels_of(nn.Conv2d(3, 8, 1), torch.zeros(2, 8, 5, 5))
    (1, 8)
    """
    if not isinstance(output, Tensor) or output.is_nested:
        return None
    axis, width = -1, 0
    if isinstance(module, CONVOLUTIONS):
        axis, width = output.ndim + 1 - module.weight.ndim, module.out_channels
    elif isinstance(module, nn.Linear):
        axis, width = output.ndim - 1, module.out_features
    elif isinstance(module, BATCH_NORMS) and output.ndim > 1:
        axis, width = 1, module.num_features
    elif type(module) is nn.GroupNorm and output.ndim > 1:
        axis, width = 1, module.num_channels
    elif type(module) is nn.LayerNorm and len(module.normalized_shape) == 1:
        axis, width = output.ndim - 1, module.normalized_shape[0]
    known = 0 <= axis < output.ndim and output.shape[axis] == width
    return (axis, width) if known else None


class Producers:
    """Remembers which layer made a tensor, as long as the tensor lives."""

    def __init__(self) -> None:
        self._made: Any = WeakIdKeyDictionary()

    def channels(self, tensor: Tensor) -> tuple[int, int] | None:
        """Return the axis and number of a tensor's channels, where a layer returned it."""
        found = self._made.get(tensor)
        return None if found is None else (found[0], found[1])

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the outputs of the layers that run inside the context."""

        def note(module: nn.Module, args: Any, output: Any) -> None:
            channels = channels_of(module, output)
            if channels is not None:
                self._made[output] = channels

        handle = module_hooks.register_module_forward_hook(note)
        try:
            yield
        finally:
            handle.remove()
