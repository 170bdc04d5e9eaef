"""All networks of torchvision: classification, segmentation, video, optical flow, detection."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from network import Built, Case, noise
from torch import Tensor, nn

from sigmascope.catalog.optional import optional

# Side of the images; 64 elsewhere. These have positions or poolings of a fixed size.
SIDES = {"vit_h_14": 224, "vit": 224, "inception_v3": 96, "maxvit_t": 224, "alexnet": 96}
SIDES |= {"squeezenet": 96, "vgg": 64}
IMAGES = 4
OPTIONS: dict[str, dict[str, Any]] = {
    "googlenet": {"init_weights": False},
    "inception_v3": {"init_weights": False},
}


def cases() -> list[Case]:
    models = optional("torchvision.models")
    return [Case(f"torchvision/{name}", partial(build, name)) for name in models.list_models()]


def build(name: str) -> Built:
    models = optional("torchvision.models")
    kind = models.get_model_builder(name).__module__
    options = dict(OPTIONS.get(name, {}))
    if "quantized" in kind:
        return Built(models.get_model(name, weights=None, quantize=False), noise(3, 96, 96))
    if any(part in kind for part in ("segmentation", "detection")):
        options["weights_backbone"] = None
    torch.manual_seed(0)
    if name.startswith("vit_") and name != "vit_h_14":
        options["image_size"] = 64
    model: nn.Module = models.get_model(name, weights=None, **options)
    if "detection" in kind:
        return _detector(model)
    if "video" in kind:
        frames, side = (16, 224) if "mvit" in name else (16, 224) if name == "s3d" else (4, 32)
        return Built(model, noise(3, frames, side, side))
    if "optical_flow" in kind:
        pair = noise(3, 128, 128), noise(3, 128, 128).flip(-1)
        return Built(model, pair, lambda network, images: network(*images, num_flow_updates=2))
    side = next((SIDES[key] for key in SIDES if name.startswith(key)), 64)
    side = 64 if name.startswith("vit_") and name != "vit_h_14" else side
    return Built(model, noise(3, side, side))


def _detector(model: nn.Module) -> Built:
    """Return a detector that keeps its images small, with a list of images for it."""
    _without_extension()
    transform: Any = model.transform
    transform.min_size, transform.max_size = (64,), 96
    if transform.fixed_size and "VGG" not in type(model.backbone).__name__:
        transform.fixed_size = (64, 64)
    images = list(noise(3, 64, 64, samples=IMAGES).unbind())  # not as many as they have colors
    return Built(model, (images, [None] * IMAGES))


def _without_extension() -> None:
    """Replace the suppression of boxes, where torchvision's compiled operators do not fit torch."""
    if optional("torchvision.extension")._has_ops():
        return
    boxes = optional("torchvision.ops.boxes")
    iou = boxes.box_iou

    def nms(corners: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
        kept: list[int] = []
        overlap = iou(corners, corners) > iou_threshold
        for one in scores.argsort(descending=True).tolist()[:100]:
            if not overlap[one, kept].any():
                kept.append(one)
        return torch.tensor(kept, dtype=torch.long)

    boxes.nms = nms
