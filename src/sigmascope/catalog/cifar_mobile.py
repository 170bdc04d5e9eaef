"""Small networks of depthwise convolutions for images of 3 × 32 × 32 and ten classes: MobileNetV2
and EfficientNet.
"""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["EfficientNet", "MobileNetV2"]


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow again; the input is added where the shape stays."""

    def __init__(self, width_in: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = width_in * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [nn.Conv2d(width_in, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        layers += [
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
        ]
        layers += [nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and width_in == width

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Sequential):
    """MobileNetV2 (Sandler et al. 2018) of half width, times a `factor`, and with three strides
    instead of five.
    """

    def __init__(self, *, factor: float = 1.0) -> None:
        stages = [
            (1, 8, 1, 1),
            (6, 16, 2, 1),
            (6, 16, 3, 2),
            (6, 32, 4, 2),
            (6, 48, 3, 1),
            (6, 80, 3, 2),
            (6, 160, 1, 1),
        ]
        before, last = round(16 * factor), round(640 * factor)
        modules: list[nn.Module] = [
            nn.Conv2d(3, before, 3, 1, 1, bias=False),
            nn.BatchNorm2d(before),
            nn.ReLU6(),
        ]
        for expansion, full, count, stride in stages:
            width = round(full * factor)
            for number in range(count):
                modules.append(
                    InvertedResidual(before, width, stride if number == 0 else 1, expansion)
                )
                before = width
        modules += [nn.Conv2d(before, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6()]
        super().__init__(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 10))


def _filter(
    before: int, width: int, side: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution with batch norm and a SiLU that overwrites its input, as published
    implementations have it.
    """
    convolution = nn.Conv2d(before, width, side, stride, side // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(width), nn.SiLU(inplace=True)]


class SqueezeExcitation(nn.Module):
    """A gate for each channel, between zero and one, from the means of all channels."""

    def __init__(self, width: int, narrow: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.act = nn.Conv2d(width, narrow, 1), nn.SiLU(inplace=True)
        self.fc2, self.gate = nn.Conv2d(narrow, width, 1), nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        gate: Tensor = self.gate(self.fc2(self.act(self.fc1(self.pool(x)))))
        return x * gate


class MBConv(nn.Module):
    """Widen, filter each channel, gate, narrow again; the input is added where the shape stays."""

    def __init__(self, before: int, width: int, stride: int, *, expansion: int, side: int) -> None:
        super().__init__()
        wide = before * expansion
        layers = _filter(before, wide) if expansion > 1 else []
        layers += [
            *_filter(wide, wide, side, stride, wide),
            SqueezeExcitation(wide, max(1, before // 4)),
        ]
        self.layers = nn.Sequential(
            *layers, nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)
        )
        self.residual = stride == 1 and before == width

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


class EfficientNet(nn.Sequential):
    """EfficientNet-B0 (Tan and Le 2019), much narrower, and with three strides instead of five."""

    def __init__(self, *, factor: float = 1.0) -> None:
        stages = [  # expansion, width, count, stride, side of the filter
            *[(1, 8, 1, 1, 3), (6, 12, 2, 1, 3), (6, 16, 2, 2, 5), (6, 24, 3, 2, 3)],
            *[(6, 32, 3, 1, 5), (6, 48, 3, 2, 5), (6, 80, 1, 1, 3)],
        ]
        before, last = round(16 * factor), round(320 * factor)
        modules = _filter(3, before, 3)
        for expansion, full, count, stride, side in stages:
            width = round(full * factor)
            for number in range(count):
                modules.append(
                    MBConv(
                        before, width, stride if number == 0 else 1, expansion=expansion, side=side
                    )
                )
                before = width
        modules += _filter(before, last)
        super().__init__(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 10))
