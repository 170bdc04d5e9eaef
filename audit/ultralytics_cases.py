"""Networks of ultralytics: detection, segmentation, pose, boxes that are turned, classification."""

from __future__ import annotations

import os
from functools import partial

import torch
from network import Built, Case, noise

NAMES = [
    "yolov3-tiny",
    "yolov5n",
    "yolov6n",
    "yolov8n",
    "yolov8n-seg",
    "yolov8n-pose",
    "yolov8n-obb",
    "yolov8n-cls",
    "yolov8n-p2",
    "yolov8n-ghost",
    "yolov9t",
    "yolov10n",
    "yolo11n",
    "yolo11n-seg",
    "yolo11n-cls",
    "yolo12n",
    "yolo12n-cls",
    "yolo26n",
    "yolo26n-seg",
    "yolo26n-pose",
    "rtdetr-l",
]


def cases() -> list[Case]:
    return [Case(f"ultralytics/{name}", partial(build, name)) for name in NAMES]


def build(name: str) -> Built:
    os.environ.setdefault("YOLO_OFFLINE", "1")
    os.environ.setdefault("YOLO_VERBOSE", "0")
    import ultralytics

    torch.manual_seed(0)
    kind = ultralytics.RTDETR if name.startswith("rtdetr") else ultralytics.YOLO
    return Built(
        kind(f"{name}.yaml", verbose=False).model
        if kind is ultralytics.YOLO
        else kind(f"{name}.yaml").model,
        noise(3, 64, 64),
    )
