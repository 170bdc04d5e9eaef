"""Networks of diffusers in tiny sizes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from network import SAMPLES, Built, Case, noise
from torch import Tensor

BLOCKS = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
CROSS = {"down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "cross_attention_dim": 16}
ENCODERS = {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
HEADS = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}


def steps() -> dict[str, Tensor]:
    return {"timestep": torch.tensor([3, 200, 741][:SAMPLES])}


def picture(side: int = 16, channels: int = 4) -> dict[str, Tensor]:
    return {"sample": noise(channels, side, side)}


def latent(channels: int = 4, side: int = 8) -> dict[str, Tensor]:
    return {"hidden_states": noise(channels, side, side)}


def text(width: int = 16, length: int = 6) -> dict[str, Tensor]:
    return {"encoder_hidden_states": noise(length, width)}


# Class -> its arguments and its inputs.
NETWORKS: dict[str, tuple[dict[str, Any], dict[str, Tensor]]] = {
    "UNet2DModel": (
        BLOCKS
        | {"sample_size": 16, "in_channels": 4, "out_channels": 4, "attention_head_dim": 4}
        | {"down_block_types": ("DownBlock2D", "AttnDownBlock2D")}
        | {"up_block_types": ("AttnUpBlock2D", "UpBlock2D")},
        picture() | steps(),
    ),
    "UNet2DConditionModel": (
        BLOCKS
        | CROSS
        | {"up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
        | {"attention_head_dim": 4},
        picture() | steps() | text(),
    ),
    "UNet1DModel": (
        {"block_out_channels": (32, 32), "in_channels": 8, "out_channels": 8, "sample_size": 16}
        | {"time_embedding_type": "positional", "use_timestep_embedding": True, "act_fn": "mish"}
        | {"down_block_types": ("DownResnetBlock1D", "DownResnetBlock1D"), "norm_num_groups": 8}
        | {"up_block_types": ("UpResnetBlock1D",), "mid_block_type": "MidResTemporalBlock1D"}
        | {"out_block_type": "OutConv1DBlock", "extra_in_channels": 0, "freq_shift": 1.0}
        | {"flip_sin_to_cos": False, "layers_per_block": 1},
        {"sample": noise(8, 16)} | steps(),
    ),
    "UNet3DConditionModel": (
        BLOCKS
        | {"down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D")}
        | {"up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"), "cross_attention_dim": 16}
        | {"attention_head_dim": 4, "sample_size": 16},
        {"sample": noise(4, 2, 16, 16)} | steps() | text(),
    ),
    "ControlNetModel": (
        BLOCKS
        | CROSS
        | {"attention_head_dim": 4, "in_channels": 4}
        | {"conditioning_embedding_out_channels": (4, 8)},
        picture()
        | steps()
        | text()
        | {"controlnet_cond": noise(3, 32, 32)}
        | {"conditioning_scale": 1.0},
    ),
    "AutoencoderKL": (BLOCKS | ENCODERS, picture(channels=3)),
    "AutoencoderTiny": (
        {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8)}
        | {"num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)},
        picture(channels=3),
    ),
    "AsymmetricAutoencoderKL": (
        {"down_block_out_channels": (8, 16), "layers_per_down_block": 1, "norm_num_groups": 4}
        | {"up_block_out_channels": (8, 16), "layers_per_up_block": 1}
        | ENCODERS,
        picture(channels=3),
    ),
    "VQModel": (BLOCKS | ENCODERS | {"num_vq_embeddings": 16}, picture(channels=3)),
    "Transformer2DModel": (
        {"num_attention_heads": 2, "attention_head_dim": 8, "in_channels": 16}
        | {"norm_num_groups": 4, "cross_attention_dim": 16},
        {"hidden_states": noise(16, 8, 8)} | text(),
    ),
    "DiTTransformer2DModel": (
        HEADS | {"in_channels": 4, "sample_size": 8, "norm_num_groups": 4},
        latent() | steps() | {"class_labels": torch.tensor([1, 5, 9][:SAMPLES])},
    ),
    "PixArtTransformer2DModel": (
        HEADS | {"cross_attention_dim": 32, "caption_channels": 16, "sample_size": 8},
        latent() | steps() | text(),
    ),
    "SD3Transformer2DModel": (
        HEADS
        | {"sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4}
        | {"joint_attention_dim": 16, "caption_projection_dim": 32, "pooled_projection_dim": 16},
        latent() | steps() | text() | {"pooled_projections": noise(16)},
    ),
    "FluxTransformer2DModel": (
        {"in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16}
        | {"num_attention_heads": 2, "joint_attention_dim": 16, "pooled_projection_dim": 16}
        | {"axes_dims_rope": (4, 4, 8)},
        {"hidden_states": noise(16, 4), "pooled_projections": noise(16)}
        | steps()
        | text()
        | {"img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(6, 3)},
    ),
    "SanaTransformer2DModel": (
        {"in_channels": 4, "out_channels": 4, "num_layers": 1, "num_attention_heads": 2}
        | {"attention_head_dim": 16, "num_cross_attention_heads": 2, "caption_channels": 16}
        | {"cross_attention_head_dim": 16, "cross_attention_dim": 32, "sample_size": 8},
        latent() | steps() | text(),
    ),
    "AuraFlowTransformer2DModel": (
        {"sample_size": 8, "patch_size": 2, "in_channels": 4, "num_mmdit_layers": 1}
        | {"num_single_dit_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2}
        | {"joint_attention_dim": 16, "caption_projection_dim": 32, "pos_embed_max_size": 64},
        latent() | steps() | text(),
    ),
    "CogVideoXTransformer3DModel": (
        HEADS
        | {"in_channels": 4, "out_channels": 4, "time_embed_dim": 8, "text_embed_dim": 16}
        | {"sample_width": 8, "sample_height": 8, "sample_frames": 9, "max_text_seq_length": 6},
        {"hidden_states": noise(3, 4, 8, 8)} | steps() | text(),
    ),
    "LTXVideoTransformer3DModel": (
        HEADS
        | {"in_channels": 8, "out_channels": 8, "cross_attention_dim": 32}
        | {"caption_channels": 16},
        {"hidden_states": noise(32, 8), "num_frames": 2, "height": 4, "width": 4}
        | steps()
        | text()
        | {"encoder_attention_mask": torch.ones(SAMPLES, 6)},
    ),
    "WanTransformer3DModel": (
        {"num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 4, "out_channels": 4}
        | {"text_dim": 16, "freq_dim": 16, "ffn_dim": 32, "num_layers": 2},
        {"hidden_states": noise(4, 2, 8, 8)} | steps() | text(),
    ),
}


def cases() -> list[Case]:
    return [Case(f"diffusers/{name}", partial(build, name)) for name in NETWORKS]


def build(name: str) -> Built:
    import diffusers

    options, inputs = NETWORKS[name]
    torch.manual_seed(0)
    return Built(getattr(diffusers, name)(**options), inputs)
