"""Which axis of a site holds channels, found by writing the number of each channel into it.

In a pass of its own every layer's output is overwritten: all values of its channel c are c + 1.
Where nothing is computed between a layer and a site, but for views, copies and concatenations, each
value at the site still says of which channel it is. These numbers must run along the axis that is
read as channels. Where a layer's channels are split over two axes, such as heads and the channels
of each head, neighbors along the axis of channels differ by 1, and along the other by more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from sigmascope.auditing.producers import channels_of
from sigmascope.auditing.result import Finding
from sigmascope.capture.observer import Call


@contextmanager
def tagged_layers() -> Iterator[None]:
    """Overwrite the outputs of layers inside the context, unseen by those who watch functions."""

    def overwrite(module: nn.Module, args: Any, output: Any) -> None:
        channels = channels_of(module, output)
        if channels is None or not output.dtype.is_floating_point:
            return
        axis, width = channels
        with torch._C.DisableTorchFunction(), torch.no_grad():
            numbers = torch.arange(1, width + 1, device=output.device, dtype=output.dtype)
            output.copy_(numbers.reshape([-1 if one == axis else 1 for one in range(output.ndim)]))

    handle = module_hooks.register_module_forward_hook(overwrite)
    try:
        yield
    finally:
        handle.remove()


class TagReader:
    """An observer that judges the axis of channels of every site by the tags that reach it.

    Attributes:
        findings: sites that mix channels.
        read: the names of sites that tags have reached.
    """

    def __init__(self, axes: Mapping[str, int]) -> None:
        self.findings: list[Finding] = []
        self.read: set[str] = set()
        self._axes = axes

    def observe(self, call: Call, x: Tensor) -> Callable[[Tensor], None] | None:
        """Judge one call."""
        axis = self._axes.get(call.name)
        if (
            axis is None
            or x.is_nested
            or not x.numel()
            or not x.dtype.is_floating_point
            or axis >= x.ndim
        ):
            return None
        with torch._C.DisableTorchFunction():
            values = x.detach()
            if not _are_tags(values):
                return None
            self.read.add(call.name)
            right = [one for one in range(x.ndim) if _counts_on(values, one)]
        if right and axis not in right:
            detail = f"axis {axis} is read as channels, those of the layer before run along {right}"
            self.findings.append(Finding("wrong axis", call.name, detail))
        return None


def _counts_on(values: Tensor, axis: int) -> bool:
    """Return whether most neighbors along an axis are neighboring channels."""
    steps = values.diff(dim=axis)
    return steps.numel() > 0 and float((steps == 1).double().mean()) > 0.5


def _are_tags(values: Tensor) -> bool:
    """Return whether values are numbers of channels, and more than one."""
    whole = bool((values == values.round()).all()) and float(values.min()) >= 1
    return whole and bool((values != values.flatten()[0]).any())
