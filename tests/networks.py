"""Networks of torchvision, timm and transformers, with the activation calls of one forward pass
counted by hand.

The counts come from the sources of the networks and never from an instrument, so that they can
judge one. They hold in evaluation mode and name every call of an activation function: of a module
or of a function, reused or not, also where the input is a parameter. The softmax family is left
out. A module class that composes a named activation of its own (NewGELUActivation,
QuickGELUActivation) is one call of that kind, and what it calls inside is not counted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Site = tuple[str, int, str]
"""Path of the module that is or makes the call, how many calls of that path and kind came before,
kind.
"""


@dataclass(frozen=True)
class Network:
    """A network without weights worth keeping, what to feed it, and the calls per kind; for some
    also where they are.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Any]
    calls: dict[str, int]
    sites: tuple[Site, ...] = ()

    def forward(self, model: nn.Module) -> Any:
        """Run one pass of a model that `build` made."""
        inputs = self.inputs()
        return model(**inputs) if isinstance(inputs, dict) else model(inputs)


def torchvision_models() -> Any:
    """Import torchvision's models, also where its wheel was built for another torch and two schemas
    are missing.
    """
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torchvision_models.library = library  # type: ignore[attr-defined]  # the declaration lives as long as its object
        return importlib.import_module("torchvision.models")


def images(side: int, device: str = "meta") -> Tensor:
    return torch.zeros(2, 3, side, side, device=device)


def tokens(**names_and_lengths: int) -> dict[str, Tensor]:
    return {
        name: torch.arange(2 * length).reshape(2, length) % 60
        for name, length in names_and_lengths.items()
    }


def build_torchvision(name: str, *, device: str = "meta", **options: object) -> nn.Module:
    constructor = getattr(torchvision_models(), name)
    with torch.device(device):
        model: nn.Module = constructor(weights=None, **options)
    return model.to("meta").eval()


def build_timm(name: str) -> nn.Module:
    torchvision_models()
    timm = importlib.import_module("timm")
    with torch.device("meta"):
        model: nn.Module = timm.create_model(name, pretrained=False)
    return model.eval()


def build_transformers(name: str, **sizes: object) -> nn.Module:
    torchvision_models()
    constructor = getattr(importlib.import_module("transformers"), name)
    torch.manual_seed(0)
    model: nn.Module = constructor(constructor.config_class(**sizes))
    return model.eval()


def vision(name: str, *, side: int = 224, sites: Sequence[Site] = (), **calls: int) -> Network:
    options = OPTIONS.get(name, {})
    return Network(
        name,
        partial(build_torchvision, name, **options),
        partial(images, side),
        calls,
        tuple(sites),
    )


def timm(name: str, **calls: int) -> Network:
    return Network(name, partial(build_timm, name), partial(images, 224), calls)


def hugging(
    name: str,
    model: str,
    *,
    sizes: dict[str, Any],
    inputs: Callable[[], Any],
    sites: Sequence[Site] = (),
    **calls: int,
) -> Network:
    return Network(name, partial(build_transformers, model, **sizes), inputs, calls, tuple(sites))


def modules(*paths: str, kind: str) -> list[Site]:
    """The sites of paths in execution order, where a path that comes back is a further call."""
    return [(path, paths[:position].count(path), kind) for position, path in enumerate(paths)]


OPTIONS: dict[str, dict[str, Any]] = {
    "googlenet": {"init_weights": False},  # otherwise a warning about a default that will change
    "inception_v3": {"init_weights": False},
    "regnet_x_400mf": {"device": "cpu"},  # the widths are computed with tensors
    "regnet_y_400mf": {"device": "cpu"},
}

# AlexNet, VGG: one per convolution and one per hidden layer of the classifier. SqueezeNet: the
# stem, squeeze and two expansions in each of 8 fire modules, the classifier's convolution.
ALEXNET = modules(
    *(f"features.{i}" for i in (1, 4, 7, 9, 11)), "classifier.2", "classifier.5", kind="relu"
)
PLAIN = [
    vision("alexnet", relu=5 + 2, sites=ALEXNET),
    *(
        vision(f"vgg{layers}{bn}", relu=layers - 3 + 2)
        for layers in (11, 13, 16, 19)
        for bn in ("", "_bn")
    ),
    *(vision(f"squeezenet1_{minor}", relu=1 + 3 * 8 + 1) for minor in (0, 1)),
]

# Every convolution is followed by F.relu inside its BasicConv2d. GoogLeNet: 3 in the stem, 6 in
# each of 9 inceptions. Inception v3: 5 in the stem, 7 in each of three A, 4 in B, 10 in each of
# four C, 6 in D, 9 in each of two E. The auxiliary classifiers are silent in evaluation mode.
INCEPTIONS = ("3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
BRANCHES = ("branch1", "branch2.0", "branch2.1", "branch3.0", "branch3.1", "branch4.1")
GOOGLENET = modules(
    "conv1",
    "conv2",
    "conv3",
    *(f"inception{block}.{branch}" for block in INCEPTIONS for branch in BRANCHES),
    kind="relu",
)
INCEPTION = [
    vision("googlenet", relu=3 + 9 * 6, sites=GOOGLENET),
    vision("inception_v3", side=299, relu=5 + 3 * 7 + 4 + 4 * 10 + 6 + 2 * 9),
]

# The stem, then 2 calls of one module in a basic block and 3 in a bottleneck.
RESNET18 = modules(
    "relu",
    *(f"layer{stage}.{block}.relu" for stage in (1, 2, 3, 4) for block in (0, 1) for _ in range(2)),
    kind="relu",
)
RESIDUAL = [
    vision("resnet18", relu=1 + 2 * (2 + 2 + 2 + 2), sites=RESNET18),
    vision("resnet34", relu=1 + 2 * (3 + 4 + 6 + 3)),
    *(
        vision(name, relu=1 + 3 * (3 + 4 + 6 + 3))
        for name in ("resnet50", "resnext50_32x4d", "wide_resnet50_2")
    ),
    *(
        vision(name, relu=1 + 3 * (3 + 4 + 23 + 3))
        for name in ("resnet101", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet101_2")
    ),
    vision("resnet152", relu=1 + 3 * (3 + 8 + 36 + 3)),
]

# The stem, 2 in each dense layer, 1 in each of 3 transitions, and F.relu in the forward of the
# network itself.
DENSE = [
    vision("densenet121", relu=1 + 2 * (6 + 12 + 24 + 16) + 3 + 1),
    vision("densenet161", relu=1 + 2 * (6 + 12 + 36 + 24) + 3 + 1),
    vision("densenet169", relu=1 + 2 * (6 + 12 + 32 + 32) + 3 + 1),
    vision("densenet201", relu=1 + 2 * (6 + 12 + 48 + 32) + 3 + 1),
]

# MNASNet: 2 in the stem, 2 in each of 16 inverted residuals, 1 at the end. ShuffleNet: 2 in the
# right branch of 16 units, 1 in the left branch of the 3 that go down, first and last convolution.
# RegNet: the stem, 3 in a block, in Y also ReLU and sigmoid of the squeeze-excitation. MobileNetV2:
# first and last convolution, 2 in 16 blocks, 1 in the first, which does not expand; its nn.ReLU6
# modules call F.hardtanh.
MOBILE = [
    *(vision(f"mnasnet{width}", relu=2 + 2 * 16 + 1) for width in ("0_5", "0_75", "1_0", "1_3")),
    *(
        vision(f"shufflenet_v2_x{width}", relu=2 * 16 + 3 + 2)
        for width in ("0_5", "1_0", "1_5", "2_0")
    ),
    vision("regnet_x_400mf", relu=1 + 3 * 22),
    vision("regnet_y_400mf", relu=1 + 3 * 16 + 16, sigmoid=16),
    vision("mobilenet_v2", relu6=2 + 2 * 16 + 1),
    # First, last and classifier Hardswish; 2 in each block of 9 (8) with Hardswish and 6 (3) with
    # ReLU, of which the first does not expand; ReLU and hard sigmoid in each squeeze-excitation, 3
    # + 5 (1 + 8) blocks.
    vision("mobilenet_v3_large", hardswish=3 + 2 * 9, relu=2 * 6 - 1 + (3 + 5), hardsigmoid=3 + 5),
    vision("mobilenet_v3_small", hardswish=3 + 2 * 8, relu=2 * 3 - 1 + (1 + 8), hardsigmoid=1 + 8),
]


def efficient(name: str, unexpanded: int, *depths: int, fused: int = 0) -> Network:
    """Stem and head; expansion, depthwise and squeeze SiLU in a block, its gate; 1 in a fused
    block; some do not expand.
    """
    blocks = unexpanded + sum(depths)
    return vision(name, silu=2 + fused + 3 * blocks - unexpanded, sigmoid=blocks)


EFFICIENT = [
    efficient("efficientnet_b0", 1, 2, 2, 3, 3, 4, 1),
    efficient("efficientnet_b1", 2, 3, 3, 4, 4, 5, 2),
    efficient("efficientnet_b2", 2, 3, 3, 4, 4, 5, 2),
    efficient("efficientnet_b3", 2, 3, 3, 5, 5, 6, 2),
    efficient("efficientnet_b4", 2, 4, 4, 6, 6, 8, 2),
    efficient("efficientnet_b5", 3, 5, 5, 7, 7, 9, 3),
    efficient("efficientnet_b6", 3, 6, 6, 8, 8, 11, 3),
    efficient("efficientnet_b7", 4, 7, 7, 10, 10, 13, 4),
    efficient("efficientnet_v2_s", 0, 6, 9, 15, fused=2 + 4 + 4),
    efficient("efficientnet_v2_m", 0, 7, 14, 18, 5, fused=3 + 5 + 5),
    efficient("efficientnet_v2_l", 0, 10, 19, 25, 7, fused=4 + 7 + 7),
]

# One GELU per block. Swin-V2 computes its position bias in every block from parameters: a ReLU
# module, then torch.sigmoid. MaxViT: the stem, 2 in the convolution and 1 in each of the two
# partition MLPs of 11 layers, SiLU and gate of the squeeze-excitation, the tanh of the classifier.
SWIN_V2_T: list[Site] = [
    site
    for stage, depth in zip((1, 3, 5, 7), (2, 2, 6, 2), strict=True)
    for block in (f"features.{stage}.{i}" for i in range(depth))
    for site in (
        (f"{block}.attn.cpb_mlp.1", 0, "relu"),
        (f"{block}.attn", 0, "sigmoid"),
        (f"{block}.mlp.1", 0, "gelu"),
    )
]
TRANSFORMER = [
    vision("vit_b_16", gelu=12),
    vision("vit_b_32", gelu=12),
    vision("vit_l_16", gelu=24),
    vision("vit_l_32", gelu=24),
    vision("vit_h_14", gelu=32),
    vision("swin_t", gelu=2 + 2 + 6 + 2),
    *(vision(name, gelu=2 + 2 + 18 + 2) for name in ("swin_s", "swin_b")),
    vision("swin_v2_t", gelu=12, relu=12, sigmoid=12, sites=SWIN_V2_T),
    *(vision(name, gelu=24, relu=24, sigmoid=24) for name in ("swin_v2_s", "swin_v2_b")),
    vision("convnext_tiny", gelu=3 + 3 + 9 + 3),
    *(vision(f"convnext_{size}", gelu=3 + 3 + 27 + 3) for size in ("small", "base", "large")),
    vision("maxvit_t", gelu=1 + 4 * 11, silu=11, sigmoid=11, tanh=1),
]

TORCHVISION = [*PLAIN, *INCEPTION, *RESIDUAL, *DENSE, *MOBILE, *EFFICIENT, *TRANSFORMER]

TIMM = [
    timm("resnet10t", relu=3 + 2 * 4),  # a stem of three convolutions, four basic blocks
    # inside BatchNormAct2d: two before the convolutions of a block, one at the end
    timm("resnetv2_18", relu=2 * 8 + 1),
    # the stem; per stage a convolution downwards and one block
    timm("darknet17", leaky_relu=1 + 5 * (1 + 2)),
    # as torchvision's
    timm("mobilenetv3_small_050", hardswish=3 + 2 * 8, relu=2 * 3 - 1 + (1 + 8), hardsigmoid=1 + 8),
    # as torchvision's; the gates are Tensor.sigmoid
    timm("efficientnet_b0", silu=2 + 3 * 16 - 1, sigmoid=16),
    timm("regnety_002", relu=1 + 3 * 13 + 13, sigmoid=13),
    # F.gelu in GammaAct: stem, blocks, end
    timm("dm_nfnet_f0", gelu=3 + 4 * (1 + 2 + 6 + 3) + 1, relu=12, sigmoid=12),
    timm("convnext_atto", gelu=2 + 2 + 6 + 2),
    timm("test_convnext", gelu=1 + 2 + 4 + 2),  # the tanh approximation
    timm("poolformer_s12", gelu=2 + 2 + 6 + 2),
    timm("vit_tiny_patch16_224", gelu=12),
    timm("vit_base_patch32_clip_quickgelu_224", quick_gelu=12),
    timm("eva02_tiny_patch14_224", silu=12),  # the gate of a gated linear unit
    timm("mixer_s32_224", gelu=2 * 8),  # over tokens and over channels
    timm("gmixer_12_224", silu=2 * 12),
    # the stem; attention and MLP of the blocks and of two descents
    timm("levit_128s", hardswish=3 + 2 * (2 + 3 + 4) + 2 * 2),
]

# Two layers of width 32.
BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 64,
}
PATCHES = {"image_size": 32, "patch_size": 16}
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 64}
LLAMA = BERT | {"num_key_value_heads": 1}
CLIP = BERT | {"projection_dim": 32}
GPT2 = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "vocab_size": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "vocab_size": 64}
CONVNEXT = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
WHISPER = {
    **{
        f"{side}_{size}": 2
        for side in ("encoder", "decoder")
        for size in ("layers", "attention_heads")
    },
    **{
        "d_model": 32,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "num_mel_bins": 8,
        "max_source_positions": 10,
    },
    **{
        "vocab_size": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
    },
}
ids = partial(tokens, input_ids=7)
both = partial(tokens, input_ids=7, decoder_input_ids=5)


def pixels() -> dict[str, Tensor]:
    return {"pixel_values": images(32, "cpu")}


def spectrogram() -> dict[str, Tensor]:
    return {"input_features": torch.zeros(2, 8, 20), **tokens(decoder_input_ids=5)}


FEED_FORWARD = "encoder.albert_layer_groups.0.albert_layers.0.activation"
ALBERT = [*modules(FEED_FORWARD, FEED_FORWARD, kind="new_gelu"), ("pooler_activation", 0, "tanh")]
CLASSIFIER = [
    *modules(*(f"distilbert.transformer.layer.{i}.ffn.activation" for i in (0, 1)), kind="gelu"),
    ("", 0, "relu"),
]
SPEECH = modules(
    "encoder",
    "encoder",
    *(f"{side}.layers.{i}.activation_fn" for side in ("encoder", "decoder") for i in (0, 1)),
    kind="gelu",
)

TRANSFORMERS = [
    hugging("bert", "BertModel", sizes=BERT, inputs=ids, gelu=2, tanh=1),  # tanh in the pooler
    hugging("gpt2", "GPT2Model", sizes=GPT2, inputs=ids, new_gelu=2),
    hugging("llama", "LlamaModel", sizes=LLAMA, inputs=ids, silu=2),
    hugging("vit", "ViTModel", sizes=BERT | PATCHES, inputs=pixels, gelu=2, tanh=1),
    hugging("convnext", "ConvNextModel", sizes=CONVNEXT, inputs=pixels, gelu=1 + 1 + 2 + 1),
    hugging("t5", "T5Model", sizes=T5, inputs=both, relu=2 + 2),
    hugging(
        "t5-gated",
        "T5Model",
        sizes=T5 | {"feed_forward_proj": "gated-gelu"},
        inputs=both,
        new_gelu=2 + 2,
    ),
    # The classifier makes a new nn.ReLU in every pass, which has no path of its own.
    hugging(
        "distilbert",
        "DistilBertForSequenceClassification",
        sizes=DISTILBERT,
        inputs=ids,
        gelu=2,
        relu=1,
        sites=CLASSIFIER,
    ),
    hugging(
        "clip-text",
        "CLIPTextModel",
        sizes=CLIP | {"bos_token_id": 0, "eos_token_id": 0},
        inputs=ids,
        quick_gelu=2,
    ),
    hugging("clip-vision", "CLIPVisionModel", sizes=CLIP | PATCHES, inputs=pixels, quick_gelu=2),
    # One layer, twice.
    hugging(
        "albert",
        "AlbertModel",
        sizes=BERT | {"embedding_size": 16},
        inputs=ids,
        new_gelu=2,
        tanh=1,
        sites=ALBERT,
    ),
    # F.gelu after each of two convolutions, then two layers here and two there.
    hugging(
        "whisper", "WhisperModel", sizes=WHISPER, inputs=spectrogram, gelu=2 + 2 + 2, sites=SPEECH
    ),
]
