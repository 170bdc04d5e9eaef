"""Networks of segmentation-models-pytorch: every architecture, and encoders of many kinds."""

from __future__ import annotations

from functools import partial

import torch
from network import Built, Case, noise

ARCHITECTURES = [
    "Unet",
    "UnetPlusPlus",
    "MAnet",
    "Linknet",
    "FPN",
    "PSPNet",
    "PAN",
    "DeepLabV3",
    "DeepLabV3Plus",
    "UPerNet",
    "Segformer",
]
ENCODERS = [
    "mobilenet_v2",
    "efficientnet-b0",
    "mit_b0",
    "vgg11_bn",
    "densenet121",
    "dpn68",
    "xception",
    "inceptionv4",
    "mobileone_s0",
    "timm-regnetx_002",
    "timm-mobilenetv3_small_100",
    "resnext50_32x4d",
    "se_resnet50",
    "tu-convnext_atto",
]


def cases() -> list[Case]:
    pairs = [(name, "resnet18") for name in ARCHITECTURES]
    pairs += [("Unet", encoder) for encoder in ENCODERS]
    return [
        Case(f"segmentation_models_pytorch/{name}/{encoder}", partial(build, name, encoder))
        for name, encoder in pairs
    ]


def build(name: str, encoder: str) -> Built:
    import segmentation_models_pytorch as library

    torch.manual_seed(0)
    model = getattr(library, name)(encoder_name=encoder, encoder_weights=None, classes=4)
    return Built(model, noise(3, 128, 128))
