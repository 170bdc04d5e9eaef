"""A convolution that several were merged into, equal to them at the border as well.

Between two convolutions the values are padded with zeros. One large convolution sees something else
there: what the first convolution would compute beyond the border. Two cases are exact:

- What comes before the padding acts on single positions. Then it maps zeros to its shift. The shift
  becomes a channel of ones that is padded by zeros, too.
- Otherwise the outputs that see such padding are computed by the convolutions one by one, on strips
  along the border.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

Padding = tuple[tuple[int, int], ...]
CONVOLUTIONS: dict[int, Callable[..., _ConvNd]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class Geometry(NamedTuple):
    """A convolution along one axis."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    def size(self, size: int) -> int:
        """Return the size of the output for a size of the input."""
        reach = self.dilation * (self.kernel - 1)
        return (size + self.before + self.after - reach - 1) // self.stride + 1


class Span(NamedTuple):
    """What a convolution reads along an axis to compute some outputs: a range, and padding."""

    start: int
    stop: int
    before: int
    after: int


def spans(layers: Sequence[Geometry], size: int, first: int, last: int) -> list[Span]:
    """Return what each of several convolutions reads to compute outputs `first` to `last`.

    Args:
        layers: along one axis, in order.
        size: of the input of the first.
        first: output of the last convolution.
        last: the same, included.

    >>> spans([Geometry(3, 1, 1, 1, 1)] * 2, 8, 0, 0)
    [Span(start=0, stop=3, before=1, after=0), Span(start=0, stop=2, before=1, after=0)]
    """
    sizes = [size]
    for layer in layers[:-1]:
        sizes.append(layer.size(sizes[-1]))
    found = []
    for layer, available in zip(layers[::-1], sizes[::-1], strict=True):
        low = first * layer.stride - layer.before
        high = last * layer.stride - layer.before + layer.dilation * (layer.kernel - 1)
        first, last = max(low, 0), min(high, available - 1)
        found.append(Span(first, last + 1, first - low, high - last))
    return found[::-1]


@functools.lru_cache(maxsize=1024)
def borders(layers: tuple[Geometry, ...], size: int) -> tuple[int, int, int]:
    """Return how many outputs see the padding between convolutions, at both ends; and how many are.

    >>> borders((Geometry(3, 1, 1, 1, 1),) * 2, 8)
    (1, 1, 8)
    """
    sizes = [size]
    for layer in layers:
        sizes.append(layer.size(sizes[-1]))
    low = high = 0
    for output in range(sizes[-1]):
        first = last = output
        sees_low = sees_high = False
        for layer, available in zip(layers[:0:-1], sizes[-2:0:-1], strict=True):
            first = first * layer.stride - layer.before
            last = last * layer.stride - layer.before + layer.dilation * (layer.kernel - 1)
            sees_low, sees_high = sees_low or first < 0, sees_high or last >= available
        low, high = low + sees_low, high + sees_high
    return low, high, sizes[-1]


class MergedConv(nn.Module):
    """Several convolutions as one, exact at the border; see the module.

    `torch.fx` traces it as one node, a leaf.

    Args:
        weight: (out, in / groups, *kernel).
        bias: (out,).
        ones: (out, 1, *kernel), the kernel of a channel of ones; None for none.
        stride: one for each spatial axis.
        dilation: one for each spatial axis.
        padding: before and after, for each spatial axis.
        mode: of the padding.
        parts: the convolutions that were merged, which compute the outputs at the border; empty
            where the merged one is exact there.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        ones: Tensor | None = None,
        *,
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        padding: Padding,
        mode: str = "zeros",
        parts: Sequence[_ConvNd] = (),
    ) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
        self.ones = None if ones is None else nn.Parameter(ones.clone())
        self.stride, self.dilation, self.padding, self.mode = stride, dilation, padding, mode
        self.parts = nn.ModuleList(parts)
        self._geometry = tuple(
            tuple(_geometry(part, axis) for part in parts) for axis in range(len(stride))
        )
        # torch.fx takes the modules of torch.nn for leaves, and looks at the instance
        self.__module__ = "torch.nn.linearize"

    def forward(self, x: Tensor) -> Tensor:
        """Return what the convolutions one after the other return."""
        if not self.parts:
            return self._merged(x)
        found = self._borders(x.shape[2:])
        if not _is_inside(found):
            for part in self.parts:
                x = part(x)
            return x
        y = self._merged(x)
        for axis, (low, high, count) in enumerate(found):
            if low:
                y.narrow(axis + 2, 0, low).copy_(self._strip(x, axis, 0, low - 1))
            if high:
                strip = self._strip(x, axis, count - high, count - 1)
                y.narrow(axis + 2, count - high, high).copy_(strip)
        return y

    def computes_inside(self, sizes: Sequence[int]) -> bool:
        """Return whether there is anything but border for spatial sizes of the input."""
        return not self.parts or _is_inside(self._borders(sizes))

    def _borders(self, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
        return [borders(axis, size) for axis, size in zip(self._geometry, sizes, strict=True)]

    def _merged(self, x: Tensor) -> Tensor:
        groups = x.shape[1] // self.weight.shape[1]
        y = self._convolved(x, self.weight, self.bias, groups)
        if self.ones is None:
            return y
        ones = x.new_ones(1, 1, *x.shape[2:])
        return y.add_(self._convolved(ones, self.ones, None, 1))

    def _convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        padding: tuple[int, ...] | int = 0
        if self.mode == "zeros" and all(before == after for before, after in self.padding):
            padding = tuple(before for before, _ in self.padding)
        else:
            flat = [one for pair in self.padding[::-1] for one in pair]
            x = F.pad(x, flat, "constant" if self.mode == "zeros" else self.mode)
        convolve = FUNCTIONS[len(self.stride)]
        made: Tensor = convolve(x, weight, bias, self.stride, padding, self.dilation, groups)
        return made

    def _strip(self, x: Tensor, axis: int, first: int, last: int) -> Tensor:
        """Return some outputs along an axis, and all along the others, by the parts."""
        needed = spans(self._geometry[axis], x.shape[2 + axis], first, last)
        x = x.narrow(2 + axis, needed[0].start, needed[0].stop - needed[0].start)
        convolve = FUNCTIONS[len(self.stride)]
        for part, span in zip(self.parts, needed, strict=True):
            assert isinstance(part, _ConvNd)
            assert not isinstance(part.padding, str)
            padding = [0 if one == axis else pad for one, pad in enumerate(part.padding)]
            if span.before or span.after:
                behind = (0, 0) * (len(self.stride) - 1 - axis)
                x = F.pad(x, (*behind, span.before, span.after))
            x = convolve(
                x, part.weight, part.bias, part.stride, padding, part.dilation, part.groups
            )
        return x

    def extra_repr(self) -> str:
        """Return the sizes, for `repr`."""
        out, within, *kernel = self.weight.shape
        ones = ", ones=True" if self.ones is not None else ""
        return (
            f"{out}, {within} per group, kernel_size={tuple(kernel)}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}{ones}"
        )


def _is_inside(found: list[tuple[int, int, int]]) -> bool:
    return all(low + high < count for low, high, count in found)


def _geometry(part: _ConvNd, axis: int) -> Geometry:
    assert not isinstance(part.padding, str)
    pad = part.padding[axis]
    return Geometry(part.kernel_size[axis], part.stride[axis], part.dilation[axis], pad, pad)
