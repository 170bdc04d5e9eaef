"""Networks that fail in ten ways, and any number of networks that do not."""

from __future__ import annotations

# Whatever each does is over when the process that measures it ends: memory is asked for in one
# piece that no machine has, and the disk is full for one write.
SOURCE = """
import ctypes, errno, os, signal, time, torch
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)

class Does(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what
    def forward(self, x):
        if len(x) > 1:  # one sample is the example that shapes are read from
            self.what()
        return x

def good(number):
    torch.manual_seed(number)
    return nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4), nn.Tanh())

def fails(what):
    return lambda: nn.Sequential(Does(what), nn.Conv2d(3, 3, 3), nn.ReLU())

def raises():
    raise RuntimeError("as planned")

def raises_unencodable():
    raise ValueError("caf\\udce9 \\x1b[31m \\x00")

def asks_for_memory():
    torch.zeros(1 << 50, dtype=torch.uint8)

def hangs():
    while True:
        time.sleep(0.01)

def fills_the_disk():
    from sigmascope.store import Journal
    real = Journal._write
    def full(self, line):
        Journal._write = real
        raise OSError(errno.ENOSPC, "No space left on device")
    Journal._write = full

def without_numbers():
    network = good(0)
    nn.init.constant_(network[0].weight, float("nan"))
    return network

def without_activation():
    return nn.Flatten()

exception = fails(raises)
unencodable = fails(raises_unencodable)
segfault = fails(lambda: ctypes.string_at(0))
memory = fails(asks_for_memory)
hang = fails(hangs)
leaves = fails(lambda: os._exit(0))
killed = fails(lambda: os.kill(os.getpid(), signal.SIGKILL))
disk = fails(fills_the_disk)

def __getattr__(name):
    kind, _, number = name.partition("_")
    if kind != "good":
        raise AttributeError(name)
    return lambda: good(int(number))
"""
# what it is called in the file -> what its outcome must say
WAYS = {
    "exception": "RuntimeError: as planned",
    "unencodable": r"ValueError: caf\udce9",
    "segfault": "was ended by SIGSEGV",
    "memory": "memory",
    "hang": "took longer than the time limit",
    "leaves": "ended with exit code 0",
    "killed": "was ended by SIGKILL",
    "disk": "No space left on device",
    "without_numbers": "NaN",
    "without_activation": "made no activation call",
}
