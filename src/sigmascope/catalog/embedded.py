"""What the package carries: ResNet-20 with and without residual connections, and 512 test images of
CIFAR-10.
"""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from typing import Any

from torch import Tensor, nn

from sigmascope.catalog.weights import load_weights, read_state

__all__ = ["EMBEDDED", "embedded_images", "embedded_weights"]

EMBEDDED = ("resnet20", "plain20")
FOLDER = files("sigmascope.catalog") / "embedded_files"


def embedded_weights(name: str, network: nn.Module) -> float:
    """Put the weights of an embedded network into it and return its accuracy on the test images of
    CIFAR-10, in percent.
    """
    with as_file(FOLDER / f"{name}.safetensors") as path:
        load_weights(network, path)
    index: dict[str, Any] = json.loads((FOLDER / "index.json").read_text())
    return float(index[name]["accuracy"])


def embedded_images() -> tuple[Tensor, Tensor]:
    """Return 512 images (512, 3, 32, 32), uint8, and their labels (512,): the first of the test
    set, in its order.
    """
    with as_file(FOLDER / "images.safetensors") as path:
        state = read_state(path)
    return state["images"], state["labels"].long()
