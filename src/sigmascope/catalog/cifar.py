"""The networks of the zoo by name, for images of 3 × 32 × 32 and ten classes.

Names that end in a way of training, such as `resnet20-noaug`, share one architecture; their recipes
are in `zoo/recipes.py`. `resnet20-unrectified` has no activation after its additions.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from sigmascope.catalog.cifar_convnets import VGG, DenseNet, GoogLeNet, MyrtleCNN, ResNet, ResNet18
from sigmascope.catalog.cifar_mobile import EfficientNet, MobileNetV2
from sigmascope.catalog.cifar_transformers import ConvNeXt, SwinTransformer, VisionTransformer

SLOPES = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9, 1.0)
VGG_COUNTS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
PATCHES = (2, 4, 8)
TRAININGS = ("noaug", "noisy", "adversarial", "rotation", "simclr")


def _resnet(depth: int, *, residual: bool = True) -> Callable[[], nn.Module]:
    return lambda: ResNet(depth, residual=residual)


def _leaky(slope: float) -> Callable[[], nn.Module]:
    return lambda: ResNet(20, activation=lambda: nn.LeakyReLU(slope))


def _vgg(counts: tuple[int, ...]) -> Callable[[], nn.Module]:
    return lambda: VGG((16, 32, 48, 64, 64), counts)


def _vit(patch: int) -> Callable[[], nn.Module]:
    return lambda: VisionTransformer(96, patch=patch)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{f"resnet{depth}": _resnet(depth) for depth in (20, 32, 56)},
    **{f"plain{depth}": _resnet(depth, residual=False) for depth in (20, 32, 56)},
    **{f"resnet20-leaky{slope:g}": _leaky(slope) for slope in SLOPES},
    **{f"resnet20-{training}": _resnet(20) for training in TRAININGS},
    "resnet20-unrectified": lambda: ResNet(20, stream=nn.Identity),
    "resnet18": ResNet18,
    "myrtle": MyrtleCNN,
    "myrtle-wide": lambda: MyrtleCNN(widths=(512,) * 4),
    "myrtle-nobn": lambda: MyrtleCNN(batch_norm=False),
    "vgg": VGG,
    **{f"vgg{depth}": _vgg(counts) for depth, counts in VGG_COUNTS.items()},
    "densenet": DenseNet,
    "googlenet": GoogLeNet,
    "mobilenetv2": MobileNetV2,
    "mobilenetv2-small": lambda: MobileNetV2(factor=0.5),
    "efficientnet": EfficientNet,
    "efficientnet-small": lambda: EfficientNet(factor=0.75),
    "vit": VisionTransformer,
    **{f"vit-patch{patch}": _vit(patch) for patch in PATCHES},
    "swin": SwinTransformer,
    "swin-small": lambda: SwinTransformer((24, 48, 96)),
    "convnext": ConvNeXt,
    "convnext-small": lambda: ConvNeXt((24, 48, 96)),
}
"""Name -> function that builds the network with random weights."""
