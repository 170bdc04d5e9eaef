"""Networks of vit-pytorch, one per module that is a network of pictures."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import torch
from network import Built, Case, noise

BASE = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2}
WHOLE = BASE | {"mlp_dim": 64}
# Module.Class -> its arguments and the shape of a sample.
NETWORKS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    **dict.fromkeys(
        [
            "vit.ViT",
            "simple_vit.SimpleViT",
            "deepvit.DeepViT",
            "parallel_vit.ViT",
            "learnable_memory_vit.ViT",
            "vit_for_small_dataset.ViT",
            "vit_with_patch_merger.ViT",
            "rvt.RvT",
            "simple_vit_with_qk_norm.SimpleViT",
            "simple_vit_with_register_tokens.SimpleViT",
            "simple_vit_with_value_residual.SimpleViT",
            "simple_flash_attn_vit.SimpleViT",
            "simple_vit_with_patch_dropout.SimpleViT",
            "normalized_vit.nViT",
            "vit_with_patch_dropout.ViT",
        ],
        (WHOLE, (3, 32, 32)),
    ),
    "simple_vit_with_fft.SimpleViT": (WHOLE | {"freq_patch_size": 8}, (3, 32, 32)),
    "simple_vit_with_hyper_connections.SimpleViT": (
        WHOLE | {"num_residual_streams": 2},
        (3, 32, 32),
    ),
    "cait.CaiT": (WHOLE | {"cls_depth": 1}, (3, 32, 32)),
    "ats_vit.ViT": (WHOLE | {"max_tokens_per_depth": (8, 4)}, (3, 32, 32)),
    "pit.PiT": (WHOLE | {"depth": (1, 1), "patch_size": 8}, (3, 32, 32)),
    "t2t.T2TViT": (
        {"image_size": 32, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64, "num_classes": 5}
        | {"t2t_layers": ((3, 2), (3, 2))},
        (3, 32, 32),
    ),
    "cct.CCT": (
        {"img_size": 32, "embedding_dim": 32, "n_conv_layers": 1, "kernel_size": 3, "stride": 2}
        | {"padding": 1, "num_layers": 2, "num_heads": 2, "mlp_ratio": 2.0, "num_classes": 5},
        (3, 32, 32),
    ),
    "levit.LeViT": (
        {"image_size": 64, "num_classes": 5, "stages": 2, "dim": (16, 32), "depth": 1}
        | {"heads": (2, 2), "mlp_mult": 2, "dim_key": 8, "dim_value": 16},
        (3, 64, 64),
    ),
    "cvt.CvT": ({"num_classes": 5}, (3, 64, 64)),
    "twins_svt.TwinsSVT": ({"num_classes": 5, "s4_depth": 1}, (3, 224, 224)),
    "crossformer.CrossFormer": (
        {"num_classes": 5, "dim": (64, 64, 64, 64), "depth": (1, 1, 1, 1)},
        (3, 224, 224),
    ),
    "regionvit.RegionViT": (
        {"num_classes": 5, "dim": (16, 32, 32, 32), "depth": (1, 1, 1, 1)},
        (3, 224, 224),
    ),
    "scalable_vit.ScalableViT": (
        {"num_classes": 5, "dim": 16, "heads": (1, 1, 2, 2), "depth": (1, 1, 1, 1)}
        | {"ssa_dim_key": (8, 8, 8, 8), "reduction_factor": (4, 2, 2, 1)}
        | {"window_size": (32, 16, None, None)},
        (3, 128, 128),
    ),
    "sep_vit.SepViT": (
        {"num_classes": 5, "dim": 16, "dim_head": 8, "heads": (1, 1, 2, 2)}
        | {"depth": (1, 1, 1, 1), "window_size": 7},
        (3, 224, 224),
    ),
    "max_vit.MaxViT": (
        {"num_classes": 5, "dim": 16, "depth": (1, 1), "dim_head": 8}
        | {"dim_conv_stem": 8, "window_size": 7},
        (3, 112, 112),
    ),
    "nest.NesT": (
        {"image_size": 64, "patch_size": 4, "dim": 16, "heads": 2, "num_classes": 5}
        | {"num_hierarchies": 2, "block_repeats": (1, 1)},
        (3, 64, 64),
    ),
    "mobile_vit.MobileViT": (
        {"image_size": (64, 64), "dims": [16, 24, 32], "num_classes": 5}
        | {"channels": [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16]},
        (3, 64, 64),
    ),
    "xcit.XCiT": (WHOLE | {"cls_depth": 1}, (3, 32, 32)),
    "cross_vit.CrossViT": (
        {"image_size": 64, "num_classes": 5, "sm_dim": 16, "lg_dim": 32, "sm_patch_size": 8}
        | {"lg_patch_size": 16, "depth": 1},
        (3, 64, 64),
    ),
    "vivit.ViViT": (
        {"image_size": 32, "image_patch_size": 8, "frames": 4, "frame_patch_size": 2}
        | {"num_classes": 5, "dim": 32, "spatial_depth": 1, "temporal_depth": 1, "heads": 2}
        | {"mlp_dim": 64},
        (3, 4, 32, 32),
    ),
    "vit_1d.ViT": (
        {"seq_len": 64, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2}
        | {"mlp_dim": 64},
        (3, 64),
    ),
    "vit_3d.ViT": (
        {"image_size": 32, "image_patch_size": 8, "frames": 4, "frame_patch_size": 2}
        | {"num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64},
        (3, 4, 32, 32),
    ),
    "na_vit.NaViT": (WHOLE, ()),
    "na_vit_nested_tensor.NaViT": (WHOLE, ()),
}


def cases() -> list[Case]:
    return [Case(f"vit_pytorch/{name}", partial(build, name)) for name in NETWORKS]


def build(name: str) -> Built:
    module, _, kind = name.partition(".")
    options, shape = NETWORKS[name]
    torch.manual_seed(0)
    model = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)(**options)
    if shape:
        return Built(model, noise(*shape))
    sides = (16, 32), (32, 16), (32, 32), (16, 16)
    images = [noise(3, *pair)[0] for pair in sides]
    return Built(model, (images, None))
