"""Small networks for images of 3 × 32 × 32 and ten classes, from the papers and for the demo.

Every activation is a module of its own. In residual blocks `act1` is inside the block and `act2` follows the addition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["NETWORKS"]

Activation = Callable[[], nn.Module]


class BasicBlock(nn.Module):
    """Two convolutions; with `residual` the input, strided and padded with zeros, is added before the last activation."""

    def __init__(self, width_in: int, width: int, stride: int, *, residual: bool, activation: Activation) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = activation()
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.act2 = activation()
        self.residual, self.stride, self.padding = residual, stride, (width - width_in) // 2

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        if self.residual:
            shortcut = x[:, :, :: self.stride, :: self.stride] if self.stride > 1 else x
            y = y + (F.pad(shortcut, (0, 0, 0, 0, self.padding, self.padding)) if self.padding else shortcut)
        out: Tensor = self.act2(y)
        return out


class ResNet(nn.Module):
    """The CIFAR ResNet of 6k + 2 layers (He et al. 2016); without `residual` its plain twin."""

    def __init__(self, depth: int = 20, *, residual: bool = True, activation: Activation = nn.ReLU) -> None:
        super().__init__()
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.act1 = activation()
        widths = [16] * blocks + [32] * blocks + [64] * blocks
        self.blocks = nn.Sequential(
            *(
                BasicBlock(before, width, 1 + (before != width), residual=residual, activation=activation)
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
    """Four convolutions of doubling width; without `batch_norm` the convolutions have biases."""

    def __init__(self, *, batch_norm: bool = True, width: int = 64) -> None:
        layers: list[nn.Module] = []
        channels = [3, width, 2 * width, 4 * width, 8 * width]
        for number, (before, after) in enumerate(itertools.pairwise(channels)):
            layers += [nn.Conv2d(before, after, 3, 1, 1, bias=not batch_norm)]
            layers += [nn.BatchNorm2d(after)] if batch_norm else []
            layers += [nn.ReLU(), *([nn.MaxPool2d(2)] if number else [])]
        super().__init__(*layers, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * width, 10))


class VGG(nn.Sequential):
    """Eight convolutions with batch norm, as in the published network but narrower, and one hidden linear layer."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 96, 96, 160, 160, 160, 160)) -> None:
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(zip((3, *widths), widths, strict=False)):
            layers += [nn.Conv2d(before, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if number in (0, 1, 3, 5, 7) else []
        super().__init__(*layers, nn.Flatten(), nn.Linear(widths[-1], widths[-1]), nn.ReLU(), nn.Linear(widths[-1], 10))


class DenseLayer(nn.Module):
    """Adds `growth` channels to those it is given."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.act1 = nn.BatchNorm2d(width), nn.ReLU()
        self.conv1 = nn.Conv2d(width, 4 * growth, 1, bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(4 * growth), nn.ReLU()
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv2(self.act2(self.bn2(self.conv1(self.act1(self.bn1(x))))))], dim=1)


class DenseNet(nn.Sequential):
    """DenseNet-BC of three dense blocks (Huang et al. 2017)."""

    def __init__(self, layers: int = 6, growth: int = 12) -> None:
        width, parts = 2 * growth, [nn.Conv2d(3, 2 * growth, 3, 1, 1, bias=False)]
        modules: list[nn.Module] = [*parts]
        for block in range(3):
            modules += [DenseLayer(width + number * growth, growth) for number in range(layers)]
            width += layers * growth
            if block < 2:
                modules += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                width //= 2
        super().__init__(
            *modules, nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
        )


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow again; the input is added where the shape stays."""

    def __init__(self, width_in: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = width_in * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [nn.Conv2d(width_in, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        layers += [nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and width_in == width

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Sequential):
    """MobileNetV2 (Sandler et al. 2018) of half width and with three strides instead of five."""

    def __init__(self) -> None:
        stages = [(1, 8, 1, 1), (6, 16, 2, 1), (6, 16, 3, 2), (6, 32, 4, 2), (6, 48, 3, 1), (6, 80, 3, 2), (6, 160, 1, 1)]
        modules: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()]
        before = 16
        for expansion, width, count, stride in stages:
            for number in range(count):
                modules.append(InvertedResidual(before, width, stride if number == 0 else 1, expansion))
                before = width
        modules += [nn.Conv2d(before, 640, 1, bias=False), nn.BatchNorm2d(640), nn.ReLU6()]
        super().__init__(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(640, 10))


class EncoderBlock(nn.Module):
    """Attention and a perceptron with one hidden layer, each after a layer norm and added to its input."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.fc1, self.act, self.fc2 = nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        out: Tensor = x + self.fc2(self.act(self.fc1(self.norm2(x))))
        return out


class VisionTransformer(nn.Module):
    """A ViT (Dosovitskiy et al. 2021) on patches of 4 × 4, averaged over its tokens."""

    def __init__(self, width: int = 128, depth: int = 6, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.positions = nn.Parameter(0.02 * torch.randn(1, 64, width))
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads, 2 * width) for _ in range(depth)))
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, 10) of images (n, 3, 32, 32)."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        out: Tensor = self.fc(self.norm(self.blocks(x)).mean(dim=1))
        return out


class ConvNeXtBlock(nn.Module):
    """A wide filter on each channel, then a perceptron on each position, scaled and added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.fc1, self.act, self.fc2 = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.scale * self.fc2(self.act(self.fc1(y)))
        out: Tensor = x + y.permute(0, 3, 1, 2)
        return out


class ConvNeXt(nn.Sequential):
    """A ConvNeXt (Liu et al. 2022) of three stages, with batch norm between them."""

    def __init__(self, widths: tuple[int, ...] = (48, 96, 192), blocks: tuple[int, ...] = (2, 2, 4)) -> None:
        modules: list[nn.Module] = [nn.Conv2d(3, widths[0], 2, 2)]
        for stage, (width, count) in enumerate(zip(widths, blocks, strict=True)):
            if stage:
                modules += [nn.BatchNorm2d(widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
            modules += [ConvNeXtBlock(width) for _ in range(count)]
        super().__init__(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 10))


def _resnet(depth: int, *, residual: bool = True) -> Callable[[], nn.Module]:
    return lambda: ResNet(depth, residual=residual)


def _leaky(slope: float) -> Callable[[], nn.Module]:
    return lambda: ResNet(20, activation=lambda: nn.LeakyReLU(slope))


SLOPES = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9, 1.0)

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{f"resnet{depth}": _resnet(depth) for depth in (20, 32, 56)},
    **{f"plain{depth}": _resnet(depth, residual=False) for depth in (20, 32, 56)},
    **{f"resnet20-leaky{slope:g}": _leaky(slope) for slope in SLOPES},
    "myrtle": MyrtleCNN,
    "myrtle-nobn": lambda: MyrtleCNN(batch_norm=False),
    "vgg": VGG,
    "densenet": DenseNet,
    "mobilenetv2": MobileNetV2,
    "vit": VisionTransformer,
    "convnext": ConvNeXt,
}
"""Name -> function that builds the network with weights drawn by torch's random generator."""
