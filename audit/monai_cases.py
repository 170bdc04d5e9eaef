"""Networks of MONAI on small volumes and pictures."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from network import Built, Case, noise

SPACE = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
FLAT = SPACE | {"spatial_dims": 2}
STEPS = {"channels": (4, 8, 16), "strides": (2, 2)}
EVEN = {"channels": (4, 8, 16), "strides": (2, 2, 2)}
KERNELS = {"kernel_size": [3, 3, 3], "strides": [1, 2, 2], "upsample_kernel_size": [2, 2]}
HEADS = {"hidden_size": 24, "mlp_dim": 48, "num_heads": 3}
LATENT = {"channels": (8, 16), "num_res_blocks": 1, "norm_num_groups": 4}
# Network -> its arguments, and the side of its input.
NETWORKS: dict[str, tuple[dict[str, Any], int]] = {
    "UNet": (SPACE | STEPS | {"num_res_units": 2}, 16),
    "AttentionUnet": (SPACE | STEPS, 16),
    "BasicUNet": (SPACE | {"features": (4, 4, 8, 8, 8, 4)}, 32),
    "BasicUNetPlusPlus": (FLAT | {"features": (4, 4, 8, 8, 8, 4)}, 32),
    "DynUNet": (SPACE | KERNELS, 16),
    "SegResNet": (SPACE | {"init_filters": 8}, 16),
    "SegResNetDS": (SPACE | {"init_filters": 8}, 32),
    "SegResNetVAE": (SPACE | {"init_filters": 8, "input_image_size": (16, 16, 16)}, 16),
    "UNETR": (SPACE | HEADS | {"img_size": (32, 32, 32), "feature_size": 4}, 32),
    "SwinUNETR": (FLAT | {"feature_size": 12}, 64),
    "VNet": (FLAT, 32),
    "HighResNet": (SPACE, 16),
    "AHNet": (FLAT | {"upsample_mode": "transpose"}, 128),
    "AutoEncoder": (FLAT | EVEN, 16),
    "VarAutoEncoder": (
        EVEN | {"spatial_dims": 2, "in_shape": (1, 16, 16), "out_channels": 1, "latent_size": 4},
        16,
    ),
    "DenseNet121": (FLAT, 32),
    "EfficientNetBN": (
        {"model_name": "efficientnet-b0", "spatial_dims": 2, "in_channels": 1, "pretrained": False},
        64,
    ),
    "SEResNet50": ({"spatial_dims": 2, "in_channels": 1, "num_classes": 2}, 64),
    "resnet18": ({"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}, 32),
    "MedNeXtS": (FLAT, 32),
    "FlexibleUNet": (FLAT | {"backbone": "efficientnet-b0"}, 64),
    "ViT": (
        {"in_channels": 1, "img_size": (32, 32), "patch_size": 8, "spatial_dims": 2}
        | {"num_layers": 2, "classification": True}
        | HEADS,
        32,
    ),
    "ViTAutoEnc": (
        {"in_channels": 1, "img_size": (16, 16), "patch_size": (4, 4)}
        | {"spatial_dims": 2, "num_layers": 2}
        | HEADS,
        16,
    ),
    "AutoencoderKL": (
        FLAT | LATENT | {"latent_channels": 4} | {"attention_levels": (False, True)},
        16,
    ),
    "VQVAE": (
        FLAT
        | {"channels": (8, 16), "num_res_channels": (8, 16), "num_res_layers": 1}
        | {"downsample_parameters": ((2, 4, 1, 1),) * 2, "num_embeddings": 8}
        | {"upsample_parameters": ((2, 4, 1, 1, 0),) * 2, "embedding_dim": 4},
        16,
    ),
    "Discriminator": ({"in_shape": (1, 16, 16)} | STEPS, 16),
}


def cases() -> list[Case]:
    return [Case(f"monai/{name}", partial(build, name)) for name in NETWORKS]


def build(name: str) -> Built:
    from monai.networks import nets

    options, side = NETWORKS[name]
    torch.manual_seed(0)
    model = getattr(nets, name)(**options)
    return Built(model, noise(1, *[side] * options.get("spatial_dims", 2)))
