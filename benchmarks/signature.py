"""The signature of ResNet-50 on 512 images against its plain forward pass, in time and memory; and
memory over many samples.

Run as `python benchmarks/signature.py` (two CPU cores, some minutes) or `python
benchmarks/signature.py cuda`.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from resnet50 import seconds
from setting import describe, progress
from torch import Tensor, nn
from workload import IMAGES, photographs, resnet50

import sigmascope as sg

MIB = 2**20
SIDE = 32


def alternating(
    one: Callable[[], object], other: Callable[[], object], repeats: int
) -> tuple[float, float]:
    """Return the median times of two calls that take turns, so that a machine that slows down slows
    both.
    """
    times: tuple[list[float], list[float]] = ([], [])
    one()
    for turn in range(repeats):
        for call, found in zip((one, other), times, strict=True):
            progress(f"turn {turn + 1} of {repeats}")
            started = time.perf_counter()
            call()
            found.append(time.perf_counter() - started)
    return sorted(times[0])[repeats // 2], sorted(times[1])[repeats // 2]


def forward(model: nn.Module, images: Tensor) -> None:
    with torch.no_grad():
        model(images)


def pooled_bytes(found: sg.Signature) -> int:
    """Count the bytes of the pooled inputs and outputs of a batch, in float32."""
    return sum(2 * 4 * site.n * site.dim for site in found.sites)


def stream(count: int, size: int = 500) -> Iterator[Tensor]:
    """Yield batches of small images, made when they are asked for."""
    for number in range(count // size):
        yield photographs(size, SIDE, seed=number)


def small_network() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers).eval()


def peak(task: str) -> float:
    """Run a task of `TASKS` in its own process and return its peak memory growth in MiB."""
    found = subprocess.run(
        [sys.executable, __file__, "task", task], check=True, capture_output=True, text=True
    )
    return float(json.loads(found.stdout.splitlines()[-1])["grown"])


def grown(prepare: Callable[[], Callable[[], object]]) -> float:
    """Measure how far this process's memory rises, while a call runs, above what it holds before,
    in MiB.
    """
    call = prepare()
    gc.collect()
    before = resident()
    highest, done = before, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.002):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    call()
    done.set()
    watcher.join()
    return (highest - before) / MIB


def resident() -> int:
    """Return the memory that this process holds, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _forward_task() -> Callable[[], object]:
    model, images = resnet50(), photographs(128)
    forward(model, images[:2])
    return lambda: forward(model, images)


def _signature_task() -> Callable[[], object]:
    model, images = resnet50(), photographs(128)
    sg.signature(model, images[:2])
    return lambda: sg.signature(model, images)


def _samples_task(count: int) -> Callable[[], Callable[[], object]]:
    def prepare() -> Callable[[], object]:
        model = small_network()
        sg.signature(model, stream(500))
        return lambda: sg.signature(model, stream(count))

    return prepare


TASKS: dict[str, Callable[[], Callable[[], object]]] = {
    "forward": _forward_task,
    "signature": _signature_task,
    "1000 samples": _samples_task(1000),
    "50000 samples": _samples_task(50000),
}


def on_cpu() -> str:
    model, images = resnet50(), photographs(IMAGES)
    plain, measured = alternating(
        lambda: forward(model, images), lambda: sg.signature(model, images), 3
    )
    progress("memory")
    memory = {task: peak(task) for task in TASKS}
    pooled = pooled_bytes(sg.signature(model, images[:128])) / MIB
    allowed = 1.1 * memory["forward"] + pooled
    return "\n".join(
        [
            "| two CPU cores | forward pass | signature | ratio |",
            "|---|---:|---:|---:|",
            f"| {IMAGES} images, seconds | {plain:.1f} | {measured:.1f} | {measured / plain:.2f} |",
            f"| 128 images, peak memory in MiB | {memory['forward']:.0f} | "
            f"{memory['signature']:.0f} | "
            f"{memory['signature'] / memory['forward']:.2f} (allowed: {allowed:.0f} MiB, "
            f"pooled features {pooled:.0f}) |",
            "",
            f"Peak memory of a signature over 1,000 samples: {memory['1000 samples']:.0f} "
            "MiB above the network; over 50,000 "
            f"samples: {memory['50000 samples']:.0f} MiB (small convolutional network, "
            "batches of 500).",
            "",
            f"Floor: {floor(images)}",
        ]
    )


def floor(images: Tensor) -> str:
    """Say what a signature must read beside the forward pass."""
    elements = 0

    def count(call: object, x: Tensor) -> None:
        nonlocal elements
        elements += x[0].numel()

    model = resnet50()
    with torch.no_grad(), sg.recording(model, count):
        model(images[:2].cpu())
    return (
        f"pooling reads {2 * 4 * elements * len(images) / 1e9:.1f} GB of feature maps, each "
        "once; the rest is the scores."
    )


def on_cuda() -> str:
    model, images = resnet50(device="cuda"), photographs(IMAGES, device="cuda")
    rows = []
    for tf32 in (True, False):
        torch.backends.cudnn.allow_tf32 = tf32
        plain = seconds(lambda: forward(model, images), "cuda", 9)
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
        forward(model, images)
        plain_peak = torch.cuda.max_memory_allocated() - base
        measured = seconds(lambda: sg.signature(model, images), "cuda", 9)
        torch.cuda.reset_peak_memory_stats()
        found = sg.signature(model, images)
        peak_bytes = torch.cuda.max_memory_allocated() - base
        name = "as torch does it (TF32 convolutions)" if tf32 else "without TF32"
        rows += [
            f"| {name}, milliseconds | {1e3 * plain:.1f} | {1e3 * measured:.1f} | "
            f"{measured / plain:.2f} |",
            f"| {name}, peak memory in MiB | {plain_peak / MIB:.0f} | {peak_bytes / MIB:.0f} "
            f"| {peak_bytes / plain_peak:.2f} "
            f"(pooled features {pooled_bytes(found) / MIB:.0f} MiB) |",
        ]
    return "\n".join(
        [
            f"| {IMAGES} images, float32 | forward pass | signature | ratio |",
            "|---|---:|---:|---:|",
            *rows,
        ]
    )


def main(device: str = "cpu") -> str:
    title = f"# The signature of ResNet-50 against its forward pass ({device})"
    return f"{title}\n\n{describe(device)}\n\n" + (on_cuda() if device == "cuda" else on_cpu())


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        print(json.dumps({"grown": grown(TASKS[sys.argv[2]])}))
    else:
        print(main(*sys.argv[1:2]))
