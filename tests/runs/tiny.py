"""Networks that are measured in a moment, in a Python file as the catalog reads it, and what to ask
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigmascope.runs import Request, Selection, request_for

SOURCE = """
import time, torch
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)
accuracy = 75.5

class Pause(nn.Module):
    def forward(self, x):
        time.sleep(0.05 * (len(x) > 1))
        return x

def conv():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Tanh())

def wide():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Flatten(), nn.Linear(288, 6), nn.ReLU())

def slow():
    return nn.Sequential(Pause(), *conv())

def silent():
    class Constant(nn.Module):
        def forward(self, x):
            return torch.relu(0 * x)
    return Constant()

def linear():
    return nn.Flatten()

def broken():
    raise RuntimeError("the first line\\nand the second")

def leaves():
    raise SystemExit("enough")
"""
DATA = Selection("random:8", limit=64, batch_size=16)


def network_file(folder: Path) -> Path:
    """Write the file of networks."""
    path = folder / "networks.py"
    path.write_text(SOURCE)
    return path


def names_in(folder: Path, *functions: str) -> list[str]:
    """Write the file of networks and name some of them."""
    path = network_file(folder)
    return [f"py:{path}:{function}" for function in functions]


def asked(names: Sequence[str], data: Selection = DATA, **more: Any) -> Request:
    """Ask for networks on noise."""
    return request_for(names, data, **more)
