"""Networks that are measured in a moment, in a Python file as the catalog reads it, and what to ask
for.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigmascope.runs import Request, Selection, request_for

SOURCE = '''
import time, torch
from pathlib import Path
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)
accuracy = 75.5

HOLD, HELD = (Path(__file__).with_suffix(suffix) for suffix in (".hold", ".held"))

class Gate(nn.Module):
    """Holds the run at the batch that a file names, until that file is gone."""

    batches = 0

    def forward(self, x):
        self.batches += len(x) > 1  # one sample is the example that shapes are read from
        try:
            last = int(HOLD.read_text())
        except FileNotFoundError:
            return x
        while self.batches > last and HOLD.exists():
            HELD.touch()
            time.sleep(0.005)
        return x

def conv():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Tanh())

def wide():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Flatten(), nn.Linear(288, 6), nn.ReLU())

def held():
    return nn.Sequential(Gate(), *conv())

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
'''
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


def hold(folder: Path, after: int) -> None:
    """Make runs of "held" stop, and stay, once that many batches went through it."""
    part = folder / "networks.part"
    part.write_text(str(after))
    part.replace(folder / "networks.hold")  # all at once: a run may be reading it


def wait_until_held(folder: Path) -> None:
    """Wait until a run is held."""
    for _ in range(60_000):  # ten minutes: against a run that hangs
        if (folder / "networks.held").exists():
            return
        time.sleep(0.01)
    raise AssertionError("no run came as far as it is to be held")


def let_go(folder: Path) -> None:
    """Let runs of "held" go on."""
    (folder / "networks.hold").unlink()


def asked(names: Sequence[str], data: Selection = DATA, **more: Any) -> Request:
    """Ask for networks on noise."""
    return request_for(names, data, **more)
