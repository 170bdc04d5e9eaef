"""Two small networks in a Python file, and a command that stitches them in a moment."""

from __future__ import annotations

SOURCE = """
import torch
from torch import nn

def build(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.AvgPool2d(8), nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(),
        nn.Linear(96, 10)
    )

def one():
    return build(1)

def two():
    return build(2)

def other():
    return nn.Sequential(
        nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 10), nn.ReLU(), nn.Linear(10, 10)
    )
"""

NETWORKS = ("py:nets.py:one", "py:nets.py:two")
SHORT = (
    "--at",
    "3",
    "--data",
    "cifar10",
    "--epochs",
    "2",
    "--batch-size",
    "16",
    "--preset",
    "fast",
    "--device",
    "cpu",
)
