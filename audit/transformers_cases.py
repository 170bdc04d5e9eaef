"""Networks of transformers in tiny sizes: one per type of configuration."""

from __future__ import annotations

from typing import Any

import torch
from network import Case

# Attribute of a configuration -> the value of a tiny one; it is set where the attribute is.
TINY: dict[str, Any] = {
    **dict.fromkeys(
        "hidden_size d_model dim n_embd embed_dim embedding_size word_embed_proj_dim width "
        "decoder_hidden_size projection_dim hidden_dim_size lm_embed_dim entity_emb_size "
        "d_embed model_dim emb_dim mask_feature_size fpn_feature_size feature_size "
        "encoder_hidden_dim".split(),
        32,
    ),
    **dict.fromkeys(
        "intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim hidden_dim n_inner "
        "dim_feedforward moe_intermediate_size shared_expert_intermediate_size d_inner "
        "decoder_intermediate_size feedforward_size intermediate_dim".split(),
        64,
    ),
    **dict.fromkeys(
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
        "num_decoder_layers num_encoder_layers encoder_num_layers num_hidden_layers_encoder "
        "depth num_blocks vision_layers decoder_num_hidden_layers".split(),
        2,
    ),
    **dict.fromkeys(
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
        "decoder_attention_heads num_key_value_heads num_decoder_attention_heads "
        "num_encoder_attention_heads decoder_num_attention_heads "
        "num_global_key_value_heads".split(),
        2,
    ),
    **dict.fromkeys(
        "num_experts n_routed_experts num_local_experts moe_num_experts num_routed_experts".split(),
        4,
    ),
    **dict.fromkeys("num_experts_per_tok moe_k top_k_experts moe_topk".split(), 2),
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "head_dim": 16,
    "d_kv": 16,
    "kv_channels": 16,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 3,
    "codebook_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "image_token_id": 5,
    "num_mel_bins": 16,
    "max_source_positions": 32,
    "max_target_positions": 64,
    "num_queries": 6,
    "mamba_d_state": 8,
    "state_size": 8,
    "conv_dim": (32, 32),
    "conv_kernel": (8, 4),
    "conv_stride": (4, 2),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "tdnn_dim": (32, 32),
    "tdnn_kernel": (3, 1),
    "tdnn_dilation": (1, 1),
    "xvector_output_dim": 32,
    "output_hidden_size": 32,
    "classifier_proj_size": 32,
    "codevector_dim": 32,
    "proj_codevector_dim": 32,
}
SAMPLES, TOKENS = 3, 12


def tiny(config: Any) -> Any:
    """Make a configuration small, with those that it contains."""
    config = type(config)(**{name: value for name, value in TINY.items() if hasattr(config, name)
                             and not isinstance(getattr(type(config), name, None), property)})
    return config


def cases() -> list[Case]:
    import transformers
    return []


def inputs_of(network: Any) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    config = network.config
    ids = torch.randint(6, 90, (SAMPLES, TOKENS), generator=generator)
    main = network.main_input_name
    if main == "pixel_values":
        size = getattr(config, "image_size", None) or 32
        sides = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        channels = getattr(config, "num_channels", 3) or 3
        return {main: torch.randn(SAMPLES, channels, *sides, generator=generator)}
    if main == "input_values":
        return {main: torch.randn(SAMPLES, 2000, generator=generator)}
    if main == "input_features":
        length = 2 * getattr(config, "max_source_positions", 32)
        inputs = {main: torch.randn(SAMPLES, getattr(config, "num_mel_bins", 16), length)}
    else:
        inputs = {"input_ids": ids}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :7]
    return inputs
