"""Small convolutional networks for images of 3 × 32 × 32 and ten classes: ResNet, VGG, DenseNet,
GoogLeNet and one of Myrtle.

Every activation is a module of its own. In residual blocks `act1` is inside the block and `act2`
follows the addition. The wider ResNet-18 is in `cifar_resnet18`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["VGG", "DenseNet", "GoogLeNet", "MyrtleCNN", "ResNet"]

Activation = Callable[[], nn.Module]


class BasicBlock(nn.Module):
    """Two convolutions; with `residual` the input, strided and padded with zeros, is added before
    the last activation.
    """

    def __init__(
        self,
        width_in: int,
        width: int,
        stride: int,
        *,
        residual: bool,
        activation: Activation,
        stream: Activation,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = activation()
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.act2 = stream()
        self.residual, self.stride, self.padding = residual, stride, (width - width_in) // 2

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        if self.residual:
            shortcut = x[:, :, :: self.stride, :: self.stride] if self.stride > 1 else x
            y = y + (
                F.pad(shortcut, (0, 0, 0, 0, self.padding, self.padding))
                if self.padding
                else shortcut
            )
        out: Tensor = self.act2(y)
        return out


class ResNet(nn.Module):
    """The CIFAR ResNet of 6k + 2 layers (He et al. 2016); without `residual` its plain twin.

    `stream` makes what follows each addition; by default that is an activation too.
    """

    def __init__(
        self,
        depth: int = 20,
        *,
        residual: bool = True,
        activation: Activation = nn.ReLU,
        stream: Activation | None = None,
    ) -> None:
        super().__init__()
        after = {"activation": activation, "stream": stream or activation}
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.act1 = activation()
        widths = [16] * blocks + [32] * blocks + [64] * blocks
        self.blocks = nn.Sequential(
            *(
                BasicBlock(before, width, 1 + (before != width), residual=residual, **after)
                for before, width in zip([16, *widths], widths, strict=False)
            )
        )
        self.fc = nn.Linear(64, 10)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, 10) of images (n, 3, 32, 32)."""
        x = self.blocks(self.act1(self.bn1(self.conv1(x))))
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out


class MyrtleCNN(nn.Sequential):
    """Four convolutions, of doubling width by default; without `batch_norm` the convolutions have
    biases.
    """

    def __init__(
        self, *, batch_norm: bool = True, widths: tuple[int, ...] = (64, 128, 256, 512)
    ) -> None:
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(itertools.pairwise([3, *widths])):
            layers += [nn.Conv2d(before, after, 3, 1, 1, bias=not batch_norm)]
            layers += [nn.BatchNorm2d(after)] if batch_norm else []
            layers += [nn.ReLU(), *([nn.MaxPool2d(2)] if number else [])]
        super().__init__(*layers, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(widths[-1], 10))


class VGG(nn.Sequential):
    """Stages of convolutions with batch norm, as in the published networks but narrower, and one
    hidden linear layer.
    """

    def __init__(
        self,
        widths: tuple[int, ...] = (32, 64, 96, 160, 160),
        counts: tuple[int, ...] = (1, 1, 2, 2, 2),
    ) -> None:
        layers: list[nn.Module] = []
        before = 3
        for width, count in zip(widths, counts, strict=True):
            for _ in range(count):
                layers += [
                    nn.Conv2d(before, width, 3, 1, 1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                ]
                before = width
            layers.append(nn.MaxPool2d(2))
        super().__init__(
            *layers, nn.Flatten(), nn.Linear(before, before), nn.ReLU(), nn.Linear(before, 10)
        )


class DenseLayer(nn.Module):
    """Adds `growth` channels to those it is given."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.act1 = nn.BatchNorm2d(width), nn.ReLU()
        self.conv1 = nn.Conv2d(width, 4 * growth, 1, bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(4 * growth), nn.ReLU()
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(
            [x, self.conv2(self.act2(self.bn2(self.conv1(self.act1(self.bn1(x))))))], dim=1
        )


class DenseNet(nn.Sequential):
    """DenseNet-BC of three dense blocks (Huang et al. 2017)."""

    def __init__(self, layers: int = 6, growth: int = 12) -> None:
        width, parts = 2 * growth, [nn.Conv2d(3, 2 * growth, 3, 1, 1, bias=False)]
        modules: list[nn.Module] = [*parts]
        for block in range(3):
            modules += [DenseLayer(width + number * growth, growth) for number in range(layers)]
            width += layers * growth
            if block < 2:
                modules += [
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                    nn.Conv2d(width, width // 2, 1, bias=False),
                    nn.AvgPool2d(2),
                ]
                width //= 2
        super().__init__(
            *modules,
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(width, 10),
        )


def _convolution(before: int, width: int, side: int) -> list[nn.Module]:
    return [
        nn.Conv2d(before, width, side, 1, side // 2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]


class Inception(nn.Module):
    """Four branches side by side: 1 × 1; 3 × 3; twice 3 × 3; the largest of 3 × 3. Narrowed first,
    put together in the end.
    """

    def __init__(self, before: int, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        one, three, five, pooled = widths
        self.one = nn.Sequential(*_convolution(before, one, 1))
        self.three = nn.Sequential(
            *_convolution(before, three // 2, 1), *_convolution(three // 2, three, 3)
        )
        narrow = _convolution(before, five // 2, 1)
        self.five = nn.Sequential(
            *narrow, *_convolution(five // 2, five, 3), *_convolution(five, five, 3)
        )
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), *_convolution(before, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], dim=1)


class GoogLeNet(nn.Sequential):
    """Six inception modules (Szegedy et al. 2015) with batch norm, two at each size of the image."""

    def __init__(self, stages: tuple[int, ...] = (8, 16, 32)) -> None:
        modules: list[nn.Module] = _convolution(3, 4 * stages[0], 3)
        before = 4 * stages[0]
        for number, unit in enumerate(stages):
            modules += [nn.MaxPool2d(2)] if number else []
            for _ in range(2):
                modules.append(Inception(before, (2 * unit, 4 * unit, unit, unit)))
                before = 8 * unit
        super().__init__(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))
