"""What a monitor costs: a training with one against the same training without.

ResNet-18 for images of 32 × 32 on synthetic images in batches of 128, SGD with momentum, TF32; a
probe of 16 such batches; sigmascope.Monitor at its defaults (every="auto", budget=0.03).

The floor: a measurement is a forward pass over 2,048 images, as much as 16 batches forward, about
6 training steps, and the finish of 17 sites. With a budget of 3 % it comes every 200 steps or
more; what is left above 3 % is the wait for the device before each. Prediction: 1.03 at most, and
memory at most 1.05, since a batch in evaluation mode keeps no activations for a backward pass, and
sites are scored in the memory that these have left.

Run as `python benchmarks/monitor.py cuda` (two minutes), or without cuda for a short trial.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from setting import describe
from torch import nn

import sigmascope as sg


class Block(nn.Module):
    """A basic block of ResNet-18."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            conv = nn.Conv2d(before, after, 1, stride, bias=False)
            self.skip = nn.Sequential(conv, nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features after the block."""
        inside = self.relu1(self.bn1(self.conv1(x)))
        total: torch.Tensor = self.relu2(self.bn2(self.conv2(inside)) + self.skip(x))
        return total


def resnet18() -> nn.Sequential:
    """Return a ResNet-18 for CIFAR."""
    blocks: list[nn.Module] = []
    before = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(before, width, stride), Block(width, width, 1)]
        before = width
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Training:
    """A training that can go on for some seconds."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.model = resnet18().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.x = torch.randn(128, 3, 32, 32, device=device)
        self.y = torch.randint(0, 10, (128,), device=device)
        self.device = device

    def step(self) -> None:
        """Take one step."""
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def run(self, steps: int, monitor: sg.Monitor | None = None, first: int = 0) -> float:
        """Return the seconds that some steps take."""
        self._wait()
        begin = time.perf_counter()
        for step in range(first, first + steps):
            self.step()
            if monitor is not None:
                monitor.step(step)
        self._wait()
        return time.perf_counter() - begin

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def peak(work: Any) -> float:
    """Return the peak memory of some work in MB."""
    torch.cuda.reset_peak_memory_stats()
    work()
    return torch.cuda.max_memory_allocated() / 1e6


def main() -> None:
    """Print the table."""
    cuda = "cuda" in sys.argv[1:]
    device = "cuda" if cuda else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    training = Training(device)
    count, size = (16, 128) if cuda else (2, 64)
    probe = [torch.randn(size, 3, 32, 32, device=device) for _ in range(count)]
    steps, rounds = (800, 8) if cuda else (8, 1)
    training.run(max(steps // 20, 1))
    plain_memory = peak(lambda: training.run(5)) if cuda else 0.0
    monitor = sg.Monitor(training.model, probe)
    begin = time.perf_counter()
    monitor.measure(0)
    first = time.perf_counter() - begin
    times = {"without": 0.0, "with": 0.0}
    done = 1
    for _ in range(rounds):  # in turns, so that a slower machine slows both
        took = training.run(steps)
        times["without"] += took
        monitor._due += took  # the clock stands still for the monitor
        times["with"] += training.run(steps, monitor, done)
        done += steps
    entries = monitor.track.entries[1:]
    print(describe(device))
    print(f"\n{rounds * steps} steps each, in {rounds} turns\n")
    print("| | |\n|---|---:|")
    print(f"| time with a monitor / without | {times['with'] / times['without']:.4f} |")
    print(f"| step without, ms | {1e3 * times['without'] / (rounds * steps):.2f} |")
    print(f"| measurements | {len(entries)} |")
    measured = sum(entry.seconds for entry in entries)
    if entries:
        print(f"| seconds of one, mean | {measured / len(entries):.3f} |")
        print(f"| steps between two | {rounds * steps / len(entries):.0f} |")
    print(f"| share of the time in measurements | {measured / times['with']:.2%} |")
    print(f"| seconds of the first, once | {first:.2f} |")
    if cuda:
        memory = peak(lambda: (training.run(5), monitor.measure(done)))
        print(f"| peak memory with / without | {memory / plain_memory:.3f} |")
        print(f"| peak memory without, MB | {plain_memory:.0f} |")


if __name__ == "__main__":
    main()
