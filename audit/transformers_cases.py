"""Networks of transformers, one per type of configuration, in tiny sizes with random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from network import SAMPLES, Built, Case, noise, tokens
from torch import Tensor

from sigmascope.catalog.optional import optional

# Attribute of a configuration -> the value of a tiny one; it is set where the attribute is.
TINY: dict[str, Any] = {
    **dict.fromkeys(
        [
            "hidden_size",
            "d_model",
            "dim",
            "n_embd",
            "embed_dim",
            "embedding_size",
            "word_embed_proj_dim",
            "width",
            "decoder_hidden_size",
            "projection_dim",
            "hidden_dim_size",
            "lm_embed_dim",
            "entity_emb_size",
            "d_embed",
            "model_dim",
            "emb_dim",
            "mask_feature_size",
            "fpn_feature_size",
            "encoder_hidden_dim",
        ],
        32,
    ),
    **dict.fromkeys(
        [
            "intermediate_size",
            "d_ff",
            "ffn_dim",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "hidden_dim",
            "n_inner",
            "dim_feedforward",
            "moe_intermediate_size",
            "shared_expert_intermediate_size",
            "d_inner",
            "decoder_intermediate_size",
            "feedforward_size",
            "intermediate_dim",
        ],
        64,
    ),
    **dict.fromkeys(
        [
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "encoder_layers",
            "decoder_layers",
            "num_decoder_layers",
            "num_encoder_layers",
            "encoder_num_layers",
            "num_hidden_layers_encoder",
            "depth",
            "num_blocks",
            "vision_layers",
            "decoder_num_hidden_layers",
        ],
        2,
    ),
    **dict.fromkeys(
        [
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
            "num_key_value_heads",
            "num_decoder_attention_heads",
            "num_encoder_attention_heads",
            "decoder_num_attention_heads",
            "num_global_key_value_heads",
        ],
        2,
    ),
    **dict.fromkeys(
        [
            "num_experts",
            "n_routed_experts",
            "num_local_experts",
            "moe_num_experts",
            "num_routed_experts",
        ],
        4,
    ),
    **dict.fromkeys(["num_experts_per_tok", "moe_k", "top_k_experts", "moe_topk"], 2),
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
TOKENS = 12

# Types that need no more than `TINY`.
PLAIN = """
    gpt-sw3 afmoe aimv2_vision_model albert apertus arcee aria aria_text audioflamingo3 axk1
    axk2 aya_vision bart beit bert bert-generation big_bird bigbird_pegasus biogpt bit bitnet
    blenderbot blenderbot-small bloom camembert canine chinese_clip_vision_model clip_text_model
    clip_vision_model cohere cohere2 cohere2_moe cohere2_vision convbert cosmos3_omni cpmant
    ctrl cvt cwm data2vec-audio data2vec-text data2vec-vision deberta deberta-v2 deepseek_v3
    deepseek_v32 deepseek_v4 deepseek_vl deepseek_vl_hybrid deit diffllama dinov2
    dinov2_with_registers dinov3_convnext dinov3_vit distilbert doge dpr dpt electra ernie
    ernie4_5 ernie4_5_moe esmc eurobert exaone4 exaone_moe falcon falcon_h1 falcon_mamba
    fastspeech2_conformer flaubert flava flex_olmo flint florence2 fnet focalnet fsmt fuyu gemma
    gemma2 gemma3 gemma3_text git glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa glmasr
    glmasr_encoder glpn got_ocr2 gpt2 gpt_bigcode gpt_neox gpt_neox_japanese gpt_oss granite
    granite_speech granite_speech_plus granite_swa granitemoe granitemoe_swa granitemoeshared
    gte helium hgnet_v2 hiera higgs_audio_v2 hrm_text hubert hunyuan_v1_dense hunyuan_v1_moe
    hy_v3 hy_v4 hyperclovax hyperclovax_vision_v2 ibert idefics2 idefics3 ijepa imagegpt
    inkling_mm_model inkling_text internvl internvl_vision jais2 janus jetmoe jina_embeddings_v3
    kimi_k25 kolibri1 kosmos-2.5 laguna layoutlm led lfm2 lfm2_vl lighton_ocr llama llama4
    llama4_text llava llava_next llava_next_video llava_onevision longcat_flash longformer
    longt5 luke m2m_100 mamba marian markuplm mbart megatron-bert mellum mgp-str minicpm3
    minimax minimax_m2 minimax_m3_vl minimax_m3_vl_text ministral ministral3 mistral mistral3
    mistral_large4 mistral_large4_text mixtral mlcd_vision_model mllama mobilebert mobilenet_v1
    mobilenet_v2 mobilevit modernbert modernbert-decoder modernvbert molmo2_text moshi
    moss_transcribe_diarize moss_transcribe_diarize_audio mpnet mpt mra mt5 muse_glimmer
    muse_glimmer_text muse_spark_text mvp nanochat nemotron_h neomme nllb-moe nomic_bert
    nystromformer olmo olmo2 olmo3 olmo_hybrid olmoe openai-gpt openai_privacy_filter opt ovis2
    paligemma pegasus pegasus_x persimmon phi phi3 phi4_multimodal phimoe pixio pixtral plbart
    poolformer prophetnet pvt pvt_v2 qianfan_ocr qianfan_ocr_vision qwen2 qwen2_audio
    qwen2_audio_encoder qwen2_moe qwen3 qwen3_asr qwen3_moe qwen3_omni_moe_thinker qwen3_vl
    qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text radio recurrent_gemma regnet rembert resnet
    roberta roberta-prelayernorm roc_bert roformer rwkv sam3_vit_model sam_hq_vision_model
    sam_vision_model sapiens2 seamless_m4t seamless_m4t_v2 seed_oss segformer sew sew-d
    siglip_vision_model smollm3 smolvlm solar_open splinter squeezebert stablelm starcoder2
    swiftformer switch_transformers t5 t5gemma t5gemma2 tapas textnet tipsv2 tipsv2_text_model
    tipsv2_vision_model ultrabert ultravbert umt5 unispeech unispeech-sat unlimited_ocr
    vaultgemma video_llama_3 video_llava vipllava visual_bert vit vit_mae vit_msn vitdet voxtral
    voxtral_encoder voxtral_realtime_encoder wav2vec2 wav2vec2-conformer wavlm whisper xglm xlm
    xlm-roberta xlm-roberta-xl xlnet yolos yoso youtu mlcd
"""
FRAMES = {"image_size": 32, "patch_size": 8, "num_frames": 4, "tubelet_size": 2}
PICTURE = {"image_size": 64, "patch_size": 4}
WINDOWS = PICTURE | {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
SERIES = {"prediction_length": 4, "context_length": 12, "lags_sequence": [1, 2], "d_model": 16}
SERIES |= {"encoder_layers": 2, "decoder_layers": 2, "num_time_features": 1}
STAGES: dict[str, Any] = {"depths": [1, 1, 1, 1], "out_features": ["stage2", "stage3", "stage4"]}
RESNET = STAGES | {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32]}
DETECTOR = {"num_queries": 6, "use_timm_backbone": False, "backbone_config": RESNET}
SWIN = STAGES | WINDOWS | {"model_type": "swin", "depths": [1] * 4, "num_heads": [2] * 4}
SWIN |= {"out_features": ["stage1", "stage2", "stage3", "stage4"]}
# Types that need more: type -> entries of the configuration, on top of `TINY`.
MORE: dict[str, dict[str, Any]] = {
    "esm": {
        "vocab_size": 99,
        "pad_token_id": 0,
        "mask_token_id": 3,
        "position_embedding_type": "rotary",
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "gptj": {"rotary_dim": 8},
    "codegen": {"rotary_dim": 8, "n_head": 4, "num_attention_heads": 4},
    "mamba2": {"num_heads": 4, "head_dim": 16, "expand": 2, "n_groups": 1, "chunk_size": 4},
    "jamba": {"use_cache": False, "num_hidden_layers": 2},
    "qwen3_next": {"use_cache": False},
    "qwen3_5_text": {"use_cache": False},
    "deepseek_v2": {"topk_method": "greedy", "num_experts_per_tok": 2},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 8]}
    | {"attention_head_size": 16, "is_decoder": False, "chunk_size_feed_forward": 0},
    "swin": WINDOWS,
    "swinv2": WINDOWS,
    "donut-swin": WINDOWS,
    "convnext": {"image_size": 64, "patch_size": 4, "hidden_sizes": [8, 16, 24, 32]},
    "convnextv2": {"image_size": 64, "patch_size": 4, "hidden_sizes": [8, 16, 24, 32]},
    "efficientnet": {"image_size": 64, "hidden_dim": 2560},
    "mobilevitv2": {"image_size": 256, "patch_size": 2},
    "levit": {"image_size": 64, "patch_size": 16, "hidden_sizes": [16, 24, 32]}
    | {"num_attention_heads": [1, 2, 2], "depths": [1, 1, 1], "key_dim": [8, 8, 8]},
    "videomae": FRAMES,
    "vivit": FRAMES | {"tubelet_size": [2, 8, 8]},
    "timesformer": FRAMES,
    "clip": {},
    "altclip": {},
    "siglip": {},
    "blip": {},
    "groupvit": {},
    "clipseg": {},
    "vilt": {"image_size": 32, "patch_size": 8},
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8, "visual_embed": False},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
    "patchtst": {"context_length": 16, "patch_length": 4, "patch_stride": 4}
    | {"num_input_channels": 2},
    "patchtsmixer": {"context_length": 16, "patch_length": 4, "patch_stride": 4}
    | {"num_input_channels": 2},
    "time_series_transformer": SERIES,
    "informer": SERIES | {"attention_type": "full"},
    "autoformer": SERIES,
    "audio-spectrogram-transformer": {"max_length": 32, "num_mel_bins": 16, "patch_size": 8},
    "wav2vec2-bert": {"feature_projection_input_dim": 16},
    "encodec": {"hidden_size": 16, "num_filters": 4, "codebook_size": 16, "codebook_dim": 16}
    | {"upsampling_ratios": [4, 2], "audio_channels": 1},
    "dac": {"encoder_hidden_size": 8, "decoder_hidden_size": 32, "hidden_size": 32}
    | {"downsampling_ratios": [2, 2], "upsampling_ratios": [2, 2], "codebook_size": 16},
    "vits": {"upsample_rates": [4, 2], "upsample_kernel_sizes": [8, 4]}
    | {"upsample_initial_channel": 16, "flow_size": 32, "spectrogram_bins": 16}
    | {"wavenet_dilation_rate": 1, "prior_encoder_num_flows": 2, "num_speakers": 1}
    | {"posterior_encoder_num_wavenet_layers": 2, "prior_encoder_num_wavenet_layers": 2},
    "decision_transformer": {"state_dim": 5, "act_dim": 3, "hidden_size": 32},
    "lxmert": {"l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 8},
    "perceiver": {"d_latents": 16, "num_latents": 6, "num_blocks": 1, "d_model": 8}
    | {"num_self_attends_per_block": 1, "num_self_attention_heads": 2}
    | {"num_cross_attention_heads": 2},
    "detr": DETECTOR,
    "conditional_detr": DETECTOR,
    "deformable_detr": DETECTOR,
    "mask2former": {"backbone_config": SWIN, "num_queries": 6},
}


def _pictures(side: int) -> dict[str, Tensor]:
    return {"pixel_values": noise(3, side, side)}


def _text_and_pictures() -> dict[str, Tensor]:
    return {"input_ids": tokens(TOKENS), **_pictures(32)}


def _series() -> dict[str, Tensor]:
    times = {f"{when}_time_features": noise(length, 1) for when, length in LENGTHS.items()}
    values = {f"{when}_values": noise(length) for when, length in LENGTHS.items()}
    return times | values | {"past_observed_mask": torch.ones(SAMPLES, LENGTHS["past"])}


def _trajectory() -> dict[str, Tensor]:
    states = {"states": noise(6, 5), "actions": noise(6, 3), "returns_to_go": noise(6, 1)}
    steps = torch.arange(6).expand(SAMPLES, 6)
    return states | {"rewards": noise(6, 1), "timesteps": steps}


LENGTHS = {"past": 14, "future": 4}
# Type -> its inputs, where the name of the main one does not tell.
INPUTS: dict[str, Callable[[], dict[str, Tensor]]] = {
    **dict.fromkeys(
        ("clip", "altclip", "siglip", "blip", "groupvit", "clipseg", "vilt"), _text_and_pictures
    ),
    **dict.fromkeys(
        ("videomae", "vivit", "timesformer"), lambda: {"pixel_values": noise(4, 3, 32, 32)}
    ),
    **dict.fromkeys(("time_series_transformer", "informer", "autoformer"), _series),
    **dict.fromkeys(("patchtst", "patchtsmixer"), lambda: {"past_values": noise(16, 2)}),
    **dict.fromkeys(("encodec", "dac"), lambda: {"input_values": noise(1, 320)}),
    **dict.fromkeys(
        ("detr", "conditional_detr", "deformable_detr", "mask2former"), partial(_pictures, 64)
    ),
    "audio-spectrogram-transformer": lambda: {"input_values": noise(32, 16)},
    "wav2vec2-bert": lambda: {"input_features": noise(20, 16)},
    "decision_transformer": _trajectory,
    "lxmert": lambda: {
        "input_ids": tokens(TOKENS),
        "visual_feats": noise(5, 8),
        "visual_pos": noise(5, 4),
    },
    "perceiver": lambda: {"inputs": noise(10, 8)},
    "vits": lambda: {"input_ids": tokens(6, vocabulary=30)},
}


def cases() -> list[Case]:
    known = optional("transformers").CONFIG_MAPPING.keys()
    names = [name for name in (*PLAIN.split(), *MORE) if name in known]
    return [Case(f"transformers/{name}", partial(build, name)) for name in names]


def build(name: str) -> Built:
    library = optional("transformers")
    library.logging.set_verbosity_error()
    kind = type(library.AutoConfig.for_model(name))
    config = kind(**_sizes(kind()) | MORE.get(name, {}))
    torch.manual_seed(0)
    model = library.AutoModel.from_config(config).eval()
    inputs = INPUTS.get(name)
    return Built(model, inputs_of(model) if inputs is None else inputs())


def _sizes(config: Any) -> dict[str, Any]:
    """Return the tiny sizes that a configuration has, with those of the ones it contains."""
    sizes: dict[str, Any] = {}
    known = {*vars(config), *getattr(config, "attribute_map", {})}
    for name in known.intersection(TINY):
        value, now = TINY[name], getattr(config, name, None)
        if now is None and name != "head_dim":
            continue
        if isinstance(now, (list, tuple)) == isinstance(value, tuple):
            sizes[name] = value
    for name, value in vars(config).items():
        if hasattr(value, "to_diff_dict"):
            sizes[name] = _sizes(value)
            if name == "backbone_config":  # of which only this says what it is
                sizes[name]["model_type"] = value.model_type
    return sizes


def inputs_of(model: Any) -> dict[str, Tensor]:
    """Return what a network takes, by the name of its main input."""
    config, main = model.config, model.main_input_name
    if main == "pixel_values":
        size = getattr(config, "image_size", None) or 32
        sides = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        return {main: noise(getattr(config, "num_channels", 3) or 3, *sides)}
    if main == "input_values":
        return {main: noise(2000)}
    inputs = {"input_ids": tokens(TOKENS)}
    if main == "input_features":
        length = 2 * getattr(config, "max_source_positions", 32)
        inputs = {main: noise(getattr(config, "num_mel_bins", 16), length)}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens(7)
    return inputs
