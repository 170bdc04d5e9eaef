"""What the package ships: ResNet-20, its plain twin, and 512 test images of CIFAR-10."""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from typing import Any

from torch import Tensor, nn

from sigmascope.catalog.weights import load_weights, read_state

EMBEDDED = ("resnet20", "plain20")
FOLDER = files("sigmascope.catalog") / "embedded_files"


def embedded_weights(name: str, network: nn.Module) -> float:
    """Load the weights of an embedded network and return its test accuracy in percent."""
    with as_file(FOLDER / f"{name}.safetensors") as path:
        load_weights(network, path)
    index: dict[str, Any] = json.loads((FOLDER / "index.json").read_text())
    return float(index[name]["accuracy"])


def embedded_images() -> tuple[Tensor, Tensor]:
    """Return the first 512 test images (512, 3, 32, 32), uint8, and their labels (512,)."""
    with as_file(FOLDER / "images.safetensors") as path:
        state = read_state(path)
    return state["images"], state["labels"].long()
