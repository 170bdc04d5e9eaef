"""Small convolutional networks for images of 3 × 32 × 32 and ten classes.

ResNet, VGG, DenseNet, GoogLeNet and the Myrtle network. Every activation is a module of its own. In
residual blocks `act1` is inside the block and `act2` follows the addition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


def convolution(
    before: int,
    width: int,
    side: int = 3,
    stride: int = 1,
    *,
    groups: int = 1,
    activation: Activation = nn.ReLU,
) -> list[nn.Module]:
    """Return a padded convolution of `side` × `side`, batch norm and an activation."""
    filters = nn.Conv2d(before, width, side, stride, side // 2, groups=groups, bias=False)
    return [filters, nn.BatchNorm2d(width), activation()]


class BasicBlock(nn.Module):
    """Two convolutions; with `residual` the input, strided and padded with zeros, is added."""

    def __init__(
        self,
        before: int,
        width: int,
        stride: int,
        *,
        residual: bool,
        activation: Activation,
        stream: Activation,
    ) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act1 = convolution(
            before, width, 3, stride, activation=activation
        )
        self.conv2, self.bn2, self.act2 = convolution(width, width, activation=stream)
        self.residual, self.stride, self.padding = residual, stride, (width - before) // 2

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        if self.residual:
            shortcut = x[:, :, :: self.stride, :: self.stride] if self.stride > 1 else x
            zeros = (0, 0, 0, 0, self.padding, self.padding)
            y = y + (F.pad(shortcut, zeros) if self.padding else shortcut)
        out: Tensor = self.act2(y)
        return out


class ResNet(nn.Module):
    """The CIFAR ResNet of 6k + 2 layers (He et al. 2016); without `residual` its plain twin.

    `stream` makes the module after each addition; by default that is an activation too.
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
        self.conv1, self.bn1, self.act1 = convolution(3, 16, activation=activation)
        widths = [width for width in (16, 32, 64) for _ in range((depth - 2) // 6)]
        self.blocks = nn.Sequential(
            *(
                BasicBlock(before, width, 1 + (before != width), residual=residual, **after)
                for before, width in itertools.pairwise([16, *widths])
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


class ProjectedBlock(nn.Module):
    """Two convolutions and a shortcut, itself a convolution where the shape changes."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act1 = convolution(before, width, 3, stride)
        self.conv2, self.bn2, _ = convolution(width, width)
        same = before == width and stride == 1
        projection = [] if same else convolution(before, width, 1, stride)[:2]
        self.shortcut = nn.Sequential(*projection)
        self.act2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        out: Tensor = self.act2(y + self.shortcut(x))
        return out


class ResNet18(nn.Module):
    """The ResNet-18 of ImageNet (He et al. 2016) with a stem of 3 × 3, no stride and no pooling."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act1 = convolution(3, widths[0])
        blocks: list[nn.Module] = []
        for before, width in itertools.pairwise([widths[0], *widths]):
            blocks.append(ProjectedBlock(before, width, 1 + (before != width)))
            blocks.append(ProjectedBlock(width, width, 1))
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(widths[-1], 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, 10) of images (n, 3, 32, 32)."""
        x = self.blocks(self.act1(self.bn1(self.conv1(x))))
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out


class MyrtleCNN(nn.Sequential):
    """Four convolutions; without `batch_norm` they have biases."""

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
    """Stages of convolutions with batch norm, narrower than published, and one hidden layer."""

    def __init__(
        self,
        widths: tuple[int, ...] = (32, 64, 96, 160, 160),
        counts: tuple[int, ...] = (1, 1, 2, 2, 2),
    ) -> None:
        layers: list[nn.Module] = []
        before = 3
        for width, count in zip(widths, counts, strict=True):
            for _ in range(count):
                layers += convolution(before, width)
                before = width
            layers.append(nn.MaxPool2d(2))
        hidden = [nn.Linear(before, before), nn.ReLU()]
        super().__init__(*layers, nn.Flatten(), *hidden, nn.Linear(before, 10))


class DenseLayer(nn.Module):
    """Adds `growth` channels to its input."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.act1 = nn.BatchNorm2d(width), nn.ReLU()
        self.conv1 = nn.Conv2d(width, 4 * growth, 1, bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(4 * growth), nn.ReLU()
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.conv1(self.act1(self.bn1(x)))
        return torch.cat([x, self.conv2(self.act2(self.bn2(narrow)))], dim=1)


class DenseNet(nn.Sequential):
    """DenseNet-BC of three dense blocks (Huang et al. 2017)."""

    def __init__(self, layers: int = 6, growth: int = 12) -> None:
        width = 2 * growth
        modules: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False)]
        for block in range(3):
            modules += [DenseLayer(width + number * growth, growth) for number in range(layers)]
            width += layers * growth
            modules += [nn.BatchNorm2d(width), nn.ReLU()]
            if block < 2:
                modules += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                width //= 2
        super().__init__(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class Inception(nn.Module):
    """Four branches whose outputs are concatenated: 1 × 1; 3 × 3; twice 3 × 3; max pooling."""

    def __init__(self, before: int, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        one, three, five, pooled = widths
        self.one = nn.Sequential(*convolution(before, one, 1))
        self.three = nn.Sequential(
            *convolution(before, three // 2, 1), *convolution(three // 2, three)
        )
        self.five = nn.Sequential(
            *convolution(before, five // 2, 1),
            *convolution(five // 2, five),
            *convolution(five, five),
        )
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), *convolution(before, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], dim=1)


class GoogLeNet(nn.Sequential):
    """Six inception modules (Szegedy et al. 2015) with batch norm, two at each resolution."""

    def __init__(self, stages: tuple[int, ...] = (8, 16, 32)) -> None:
        before = 4 * stages[0]
        modules: list[nn.Module] = convolution(3, before)
        for number, unit in enumerate(stages):
            modules += [nn.MaxPool2d(2)] if number else []
            for _ in range(2):
                modules.append(Inception(before, (2 * unit, 4 * unit, unit, unit)))
                before = 8 * unit
        super().__init__(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))
