"""Networks of x-transformers with the options that change activations and attention."""

from __future__ import annotations

from typing import Any

import torch
from network import Built, Case, noise, tokens

WIDTH = {"dim": 32, "depth": 2, "heads": 2, "attn_dim_head": 16}
# Name -> options of the layers.
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "glu": {"ff_glu": True},
    "swish": {"ff_swish": True, "ff_glu": True},
    "relu_squared": {"ff_relu_squared": True},
    "rotary": {"rotary_pos_emb": True},
    "rel_pos_bias": {"rel_pos_bias": True},
    "dynamic_pos_bias": {"dynamic_pos_bias": True, "dynamic_pos_bias_log_distance": False},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "softclamp": {"attn_softclamp_logits": True},
    "gate_values": {"attn_gate_values": True},
    "gate_residual": {"gate_residual": True},
    "sandwich": {"sandwich_coef": 1},
    "macaron": {"macaron": True},
    "shift_tokens": {"shift_tokens": 1},
    "memory": {"attn_num_mem_kv": 4},
    "talking_heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
    "value_residual": {"add_value_residual": True},
}


def cases() -> list[Case]:
    found = [
        Case(f"x_transformers/{kind}/{name}", lambda kind=kind, name=name: build(kind, name))
        for name in LAYERS
        for kind in ("Decoder", "Encoder")
    ]
    return [
        *found,
        Case("x_transformers/ViTransformerWrapper", vision),
        Case("x_transformers/ContinuousTransformerWrapper", continuous),
        Case("x_transformers/XTransformer", both),
    ]


def build(kind: str, name: str) -> Built:
    import x_transformers as library

    torch.manual_seed(0)
    layers = getattr(library, kind)(**WIDTH, **LAYERS[name])
    model = library.TransformerWrapper(num_tokens=99, max_seq_len=16, attn_layers=layers)
    return Built(model, tokens(12))


def vision() -> Built:
    import x_transformers as library

    layers = library.Encoder(**WIDTH)
    model = library.ViTransformerWrapper(
        image_size=32, patch_size=8, num_classes=5, attn_layers=layers
    )
    return Built(model, noise(3, 32, 32))


def continuous() -> Built:
    import x_transformers as library

    layers = library.Encoder(**WIDTH)
    model = library.ContinuousTransformerWrapper(
        dim_in=8, dim_out=8, max_seq_len=16, attn_layers=layers
    )
    return Built(model, noise(12, 8))


def both() -> Built:
    import x_transformers as library

    sizes = {
        f"{side}_{name}": value
        for side in ("enc", "dec")
        for name, value in (("num_tokens", 99), ("depth", 2), ("heads", 2), ("max_seq_len", 16))
    }
    model = library.XTransformer(dim=32, **sizes)
    return Built(model, (tokens(12), tokens(9)), lambda network, pair: network(*pair))
