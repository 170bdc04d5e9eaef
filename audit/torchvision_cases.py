"""All networks of torchvision: classification, segmentation, video, optical flow, detection."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import torch
from network import Built, Case, noise
from torch import Tensor, nn

from sigmascope.catalog.optional import optional

# Side of the images; 64 elsewhere. These have patches, windows or poolings of a fixed size.
SIDES = {"vit_h_14": 56, "inception_v3": 96, "maxvit_t": 224, "alexnet": 96, "squeezenet": 96}
IMAGES, BOXES = 4, 5
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
    plain = name.removeprefix("quantized_")
    options = dict(OPTIONS.get(plain, {}))
    options |= {"quantize": False} if plain != name else {}
    if any(part in kind for part in ("segmentation", "detection")):
        options["weights_backbone"] = None
    torch.manual_seed(0)
    if name.startswith("vit_"):
        options["image_size"] = _side(name)
    if "mvit" in name:
        return _video_transformer(name)
    model: nn.Module = models.get_model(name, weights=None, **options)
    if "detection" in kind:
        return _detector(model)
    if "video" in kind:
        frames, side = (16, 224) if name == "s3d" else (4, 32)
        return Built(model, noise(3, frames, side, side))
    if "optical_flow" in kind:
        pair = noise(3, 128, 128), noise(3, 128, 128).flip(-1)
        return Built(model, pair, lambda network, images: network(*images, num_flow_updates=2))
    return Built(model, noise(3, _side(plain), _side(plain)))


def _side(name: str) -> int:
    return next((SIDES[key] for key in SIDES if name.startswith(key)), 64)


def _video_transformer(name: str) -> Built:
    """Return a network for short and small videos, which its builder has no option for."""
    module = optional("torchvision.models.video.mvit")
    builder = module._mvit
    small = {"spatial_size": (64, 64), "temporal_size": 4}
    with mock.patch.object(module, "_mvit", lambda **options: builder(**options | small)):
        model = optional("torchvision.models").get_model(name, weights=None)
    return Built(model, noise(3, 4, 64, 64))


def _detector(model: nn.Module) -> Built:
    """Return a detector that keeps its images small, with a list of images for it."""
    _without_extension()
    transform: Any = model.transform
    transform.min_size, transform.max_size = (64,), 96
    if transform.fixed_size and "VGG" not in type(model.backbone).__name__:
        transform.fixed_size = (64, 64)
    if hasattr(model, "roi_heads"):  # which take most of the time, one box after the other
        heads: Any = model.roi_heads
        heads.detections_per_img = BOXES
        proposals: Any = model.rpn
        proposals._pre_nms_top_n = dict.fromkeys(("training", "testing"), 5 * BOXES)
        proposals._post_nms_top_n = dict.fromkeys(("training", "testing"), BOXES)
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
        with torch._C.DisableTorchFunction():  # as one operator, which the compiled one is
            overlap = iou(corners, corners) > iou_threshold
            for one in scores.argsort(descending=True).tolist()[:100]:
                if not overlap[one, kept].any():
                    kept.append(one)
        return torch.tensor(kept, dtype=torch.long)

    boxes.nms = nms
