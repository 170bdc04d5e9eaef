"""Networks trained with a penalty on their scores: accuracy when the penalized sites are replaced
by affine maps, without tuning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from linearize_selection import fitted, identities
from linearize_training import accuracy, linearized
from safetensors.torch import load_file
from torch import nn
from train import load_data

from sigmascope.catalog.cifar import NETWORKS

WEIGHTS = Path(__file__).resolve().parent / "penalty"
CALIBRATION = 2000


def built(path: Path, device: str) -> tuple[nn.Module, list[str]]:
    """Return a network of the experiment with the penalty, and its penalized sites."""
    model: nn.Module = NETWORKS["resnet20"]()
    blocks = model.get_submodule("blocks")
    if path.stem.startswith("prelu"):
        for block in blocks:
            block.act1 = nn.PReLU(init=0.0)
    state = load_file(path)
    model.load_state_dict(
        {
            name: value.float() if value.is_floating_point() else value
            for name, value in state.items()
        }
    )
    return model.to(device).eval(), [f"blocks.{number}.act1" for number in range(len(blocks))]


def penalized(data: Path, device: str, done: set[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each network; the maps are fitted on training images."""
    runs = sorted(WEIGHTS.glob("*.safetensors"))
    missing = [path for path in runs if f"penalized/{path.stem}" not in done]
    arrays = load_data(data, device) if missing else {}
    for path in missing:
        started = time.monotonic()
        model, sites = built(path, device)
        maps = fitted(model, arrays["train_images"][:CALIBRATION], sites)
        test = arrays["test_images"], arrays["test_labels"]
        found = {
            name: accuracy(linearized(model, sites, held)[0], *test)
            for name, held in (("test", maps), ("identity", identities(maps)))
        }
        yield {
            **{"key": f"penalized/{path.stem}", "stage": "penalized", "run": path.stem},
            **{"removed": len(sites), "maps": "affine", "epochs": 0},
            **{"before": accuracy(model, *test), **found, "sites": sites},
            **{"seconds": round(time.monotonic() - started, 1), "torch": torch.__version__},
        }
