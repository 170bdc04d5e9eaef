"""MobileNetV2 and EfficientNet for images of 3 × 32 × 32 and ten classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from sigmascope.catalog.cifar_convnets import Activation, convolution

# SiLU overwrites its input, as in published implementations.
SILU = partial(nn.SiLU, inplace=True)
# Expansion, width, count, stride, side of the filter.
MOBILENET = (
    *((1, 8, 1, 1, 3), (6, 16, 2, 1, 3), (6, 16, 3, 2, 3), (6, 32, 4, 2, 3)),
    *((6, 48, 3, 1, 3), (6, 80, 3, 2, 3), (6, 160, 1, 1, 3)),
)
EFFICIENTNET = (
    *((1, 8, 1, 1, 3), (6, 12, 2, 1, 3), (6, 16, 2, 2, 5), (6, 24, 3, 2, 3)),
    *((6, 32, 3, 1, 5), (6, 48, 3, 2, 5), (6, 80, 1, 1, 3)),
)


class SqueezeExcitation(nn.Module):
    """A gate between zero and one for each channel, computed from the means of all channels."""

    def __init__(self, width: int, narrow: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.act = nn.Conv2d(width, narrow, 1), SILU()
        self.fc2, self.gate = nn.Conv2d(narrow, width, 1), nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        gate: Tensor = self.gate(self.fc2(self.act(self.fc1(self.pool(x)))))
        return x * gate


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow; the input is added where the shape stays."""

    activation: Activation = nn.ReLU6

    def __init__(self, before: int, width: int, stride: int, expansion: int, side: int) -> None:
        super().__init__()
        wide = before * expansion
        layers = convolution(before, wide, 1, activation=self.activation) if expansion > 1 else []
        layers += convolution(wide, wide, side, stride, groups=wide, activation=self.activation)
        layers += self.gate(wide, max(1, before // 4))
        layers += [nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and before == width

    def gate(self, width: int, narrow: int) -> list[nn.Module]:
        """Return the layers between the filters and the last convolution."""
        return []

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


class MBConv(InvertedResidual):
    """An inverted residual block with SiLU and a gate."""

    activation = SILU

    def gate(self, width: int, narrow: int) -> list[nn.Module]:
        """Return the layers between the filters and the last convolution."""
        return [SqueezeExcitation(width, narrow)]


def _network(
    stages: Sequence[tuple[int, int, int, int, int]],
    block: type[InvertedResidual],
    factor: float,
    last: int,
) -> list[nn.Module]:
    """Return stem, blocks and head, all widths multiplied by a factor."""
    before, last = round(16 * factor), round(last * factor)
    modules = convolution(3, before, activation=block.activation)
    for expansion, full, count, stride, side in stages:
        width = round(full * factor)
        for number in range(count):
            modules.append(block(before, width, 1 if number else stride, expansion, side))
            before = width
    modules += convolution(before, last, 1, activation=block.activation)
    return [*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 10)]


class MobileNetV2(nn.Sequential):
    """MobileNetV2 (Sandler et al. 2018) of half width, with three strides instead of five."""

    def __init__(self, *, factor: float = 1.0) -> None:
        super().__init__(*_network(MOBILENET, InvertedResidual, factor, 640))


class EfficientNet(nn.Sequential):
    """EfficientNet-B0 (Tan and Le 2019), much narrower, with three strides instead of five."""

    def __init__(self, *, factor: float = 1.0) -> None:
        super().__init__(*_network(EFFICIENTNET, MBConv, factor, 320))
