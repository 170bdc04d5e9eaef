"""Architectures that are in no library, and small changes to those of torchvision and timm."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from sigmascope.catalog.optional import optional
from sigmascope_papers.real.packages import unpacked

MOBILE = (64, -128, 128, -256, 256, -512, 512, 512, 512, 512, 512, -1024, 1024)
"""Channels of the blocks of MobileNetV1; negative where a block halves height and width."""
VGG19 = (64, 64, 0, 128, 128, 0, *[256] * 4, 0, *[512] * 4, 0, *[512] * 4)
"""Channels of the convolutions of VGG-19; 0 for a pooling."""


def vision(name: str) -> nn.Module:
    """Return a network of torchvision with random weights."""
    network: nn.Module = getattr(optional("torchvision.models"), name)(weights=None)
    return network


def convolutional(name: str) -> nn.Module:
    """Return the convolutional part of a network of torchvision, up to its last activation."""
    network: Any = vision(name)
    part: nn.Module = network.features[:-1]
    return part


def resnet50_v1() -> nn.Module:
    """Return ResNet-50 as Keras has it: the first convolution of a block has the stride."""
    network: Any = vision("resnet50")
    for stage in (network.layer2, network.layer3, network.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
    built: nn.Module = network
    return built


def squeezenet() -> nn.Module:
    """Return SqueezeNet 1.1 as Keras has it: a pooling leaves out a last odd row."""
    network = vision("squeezenet1_1")
    for module in network.modules():
        if isinstance(module, nn.MaxPool2d):
            module.ceil_mode = False
    return network


def mobilenet_v1() -> nn.Module:
    """Return MobileNetV1: 13 pairs of a depthwise and a pointwise convolution."""
    blocks: list[nn.Module] = []
    width = 32
    for step in MOBILE:
        stride, channels = (2, -step) if step < 0 else (1, step)
        depthwise = nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False)
        pointwise = nn.Conv2d(width, channels, 1, bias=False)
        first, second = nn.BatchNorm2d(width), nn.BatchNorm2d(channels)
        blocks.append(nn.Sequential(depthwise, first, nn.ReLU(), pointwise, second, nn.ReLU()))
        width = channels
    stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
    network = nn.Sequential()
    network.add_module("conv1", stem)
    network.add_module("features", nn.Sequential(*blocks))
    network.add_module("pool", nn.AdaptiveAvgPool2d(1))
    network.add_module("flat", nn.Flatten())
    network.add_module("classifier", nn.Sequential(nn.Linear(width, 1000)))
    return network


def vgg19_normalized() -> nn.Module:
    """Return the convolutional part of VGG-19 as style transfer has it.

    Its first convolution brings images in [0, 1] to the inputs of VGG, and edges are mirrored.
    """
    modules: list[nn.Module] = [nn.Conv2d(3, 3, 1)]
    width = 3
    for channels in VGG19:
        if not channels:
            modules.append(nn.MaxPool2d(2, ceil_mode=True))
            continue
        convolution = nn.Conv2d(width, channels, 3)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        modules += [nn.ReflectionPad2d(1), convolution, nn.ReLU()]
        width = channels
    return nn.Sequential(*modules)


class Block(nn.Module):
    """A basic block for CIFAR; its shortcut leaves out pixels and adds channels of zeros."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.stride, self.more = (1, 0) if width == channels else (2, (channels - width) // 2)
        self.conv1 = nn.Conv2d(width, channels, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, c, h, w)."""
        inside = self.relu(self.bn1(self.conv1(x)))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.more:
            shortcut = pad(shortcut, (0, 0, 0, 0, self.more, self.more))
        out: Tensor = self.relu(self.bn2(self.conv2(inside)) + shortcut)
        return out


class CifarResNet(nn.Module):
    """A ResNet for CIFAR-10 of 6n + 2 layers (He et al. 2016), shortcuts without parameters."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(16), nn.ReLU()
        count = (depth - 2) // 6
        for number, (before, width) in enumerate(((16, 16), (16, 32), (32, 64)), 1):
            blocks = [Block(before, width), *(Block(width, width) for _ in range(count - 1))]
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, 10)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, 10) of images (n, 3, 32, 32)."""
        x = self.relu(self.bn1(self.conv1(x)))
        for number in range(1, 4):
            x = self.get_submodule(f"layer{number}")(x)
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let modules of a directory be imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def efficientnet_lite(number: int) -> nn.Module:
    """Return an EfficientNet-Lite, by the code of its package, whose sha256 is pinned."""
    with importable(unpacked("efficientnet-lite-pytorch")):
        module = importlib.import_module("efficientnet_lite_pytorch.model")
    network: nn.Module = module.EfficientNet.from_name(f"efficientnet-lite{number}")
    return network


def vit() -> nn.Module:
    """Return a ViT-S/14 for images of 224 pixels, with features as outputs."""
    made: Any = optional("timm").create_model
    network: nn.Module = made("vit_small_patch14_dinov2", img_size=224, num_classes=0)
    return network


def settle(network: nn.Module, inputs: Tensor) -> nn.Module:
    """Set the batch norms of a network with random weights to inputs, and return it.

    A batch norm that has seen no data does nothing, and then the signal of a deep network dies
    away.
    """
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            network.train()(inputs)
    return network.eval()
