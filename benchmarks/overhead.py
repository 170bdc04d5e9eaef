"""What the population score costs over batches: accumulation against the plain forward pass.

Nine networks of torchvision with random weights and calibrated batch-norm statistics, 4 batches of
512 images (VGG-16: 256), in float32, with TF32 and in bfloat16 with channels last.

The floor, written down before anything was changed: the accumulation must read the input and the
output of every activation once more. On an H200 (4.3 TB/s seen for a copy, 4.0 taken) that is, as a
share of the forward pass in float32 / TF32 / bfloat16:

    ResNet-50 0.07 / 0.15 / 0.15, ResNet-152 0.07 / 0.15 / 0.17, VGG-16 0.04 / 0.12 / 0.12,
    ViT-B/16 0.02 / 0.07 / 0.08, Swin-T 0.03 / 0.06 / 0.04, ConvNeXt-T 0.06 / 0.12 / 0.10,
    DenseNet-121 0.11 / 0.18 / 0.16, EfficientNet-B0 0.11 / 0.14 / 0.14, MobileNetV2 0.14 / 0.17 /
    0.18.

The output of a ReLU or ReLU6 is its input, clamped, so that one reading of the input does: half of
these shares in ResNets, VGG, DenseNet and MobileNet. Prediction at 3.3 TB/s: 1.11 at most where
activations are clamps, 1.20 elsewhere, if the host never is the slower one. It was: watching took
37 ms of Python per batch in MobileNetV2, whose bfloat16 pass takes 17 ms.

Run as `python benchmarks/overhead.py cuda` (some minutes) or, for ResNet-50 on two CPU cores,
`python benchmarks/overhead.py`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from setting import describe, progress
from torch import Tensor, nn
from workload import photographs, torchvision_models

import sigmascope as sg
from sigmascope.capture.guard import preserve_state
from sigmascope.checks import options_from
from sigmascope.maths.moments import score_all
from sigmascope.measure.batches import run_forward
from sigmascope.measure.options import Options
from sigmascope.measure.running import Run

MIB = 2**20
BANDWIDTH = 4.0e12  # bytes per second
BATCHES = 4
# Name -> name in torchvision, images in a batch.
NETWORKS = {
    "ResNet-50": ("resnet50", 512),
    "ResNet-152": ("resnet152", 512),
    "VGG-16": ("vgg16", 256),
    "ViT-B/16": ("vit_b_16", 512),
    "Swin-T": ("swin_t", 512),
    "ConvNeXt-T": ("convnext_tiny", 512),
    "DenseNet-121": ("densenet121", 512),
    "EfficientNet-B0": ("efficientnet_b0", 512),
    "MobileNetV2": ("mobilenet_v2", 512),
}
REPEATS = {"float32": 1, "TF32": 3, "bfloat16": 5}  # by mode
MODES = tuple(REPEATS)


class Cost(NamedTuple):
    """One network in one mode: seconds and bytes of the forward pass and of the accumulation.

    `both` is the accumulation with published scores, `read` the bytes of all inputs and outputs of
    activations, `launch` the seconds that the forward pass keeps the host. NaN is not measured.
    """

    forward: float
    launch: float
    accumulation: float
    both: float
    forward_peak: float
    accumulation_peak: float
    read: int


def calibrated(name: str, images: Tensor) -> nn.Module:
    """Build a network of torchvision with seeded weights; its norms average over the images."""
    torch.manual_seed(0)
    with images.device:
        model: nn.Module = getattr(torchvision_models(), name)(weights=None)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    model.train()
    with torch.no_grad():
        model(images)
    return model.eval()


def forward(model: nn.Module, batches: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for images in batches:
            model(images)


def accumulate(model: nn.Module, batches: Sequence[Tensor], estimator: str) -> Run:
    """Run the part of `sg.signature` that grows with the data, and return it."""
    options = options_from(Options, {"estimator": estimator})
    run = Run(model, type(model).__name__, options, options.pool, run_forward)
    with preserve_state(model, mode=options.mode):
        run.over(batches, shown=False)
    return run


def read_bytes(model: nn.Module, images: Tensor) -> int:
    """Count the bytes of the inputs and outputs of all activations for a batch."""
    count = 0

    def observe(call: object, x: Tensor) -> None:
        nonlocal count
        count += 2 * x.numel() * x.itemsize

    with torch.no_grad(), sg.recording(model, observe):
        model(images)
    return count


def timed(call: Callable[[], object]) -> float:
    """Return the seconds until a call has returned and the device is done."""
    synchronize()
    started = time.perf_counter()
    call()
    synchronize()
    return time.perf_counter() - started


def launched(call: Callable[[], object]) -> float:
    """Return the seconds until a call has returned, whether or not the device is done."""
    synchronize()
    started = time.perf_counter()
    call()
    seconds = time.perf_counter() - started
    synchronize()
    return seconds


def by_turns(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Return the median times of calls that take turns, so that a slow machine slows all."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats + 1):  # the first is to warm up
        for call, found in zip(calls, times, strict=True):
            found.append(timed(call))
    return [sorted(found[1:])[repeats // 2] for found in times]


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak(call: Callable[[], object]) -> float:
    """Return how far a call raises the memory on the device; NaN on the CPU."""
    if not torch.cuda.is_available():
        return math.nan
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return torch.cuda.max_memory_allocated() - before


def cost(model: nn.Module, batches: Sequence[Tensor], repeats: int, *, brief: bool = False) -> Cost:
    """Measure a network; `brief` only the forward pass and the accumulation."""

    def plain() -> None:
        forward(model, batches)

    def population() -> Run:
        return accumulate(model, batches, "population")

    slow, total = by_turns([plain, population], repeats)
    both, peaks = math.nan, [math.nan, math.nan]
    if not brief:
        (both,) = by_turns([lambda: accumulate(model, batches, "both")], 1)
        peaks = [peak(plain), peak(population)]
    read = len(batches) * read_bytes(model, batches[0])
    return Cost(slow, launched(plain), total, both, *peaks, read)


def finishing(device: str) -> str:
    """Say how long scoring takes: after the batches above, and with enough samples for all."""
    images = BATCHES * 512
    few, scored, sites = finishing_of(device, lambda width: images)
    enough, _, _ = finishing_of(device, lambda width: max(images, 3 * width))
    return (
        f"Finishing, which does not grow with the data: the population scores of {sites} sites of "
        f"the widths of ResNet-50 take {few:.2f} s after {images} images, of which {scored} sites "
        f"have a score, and {enough:.2f} s where all have enough, 6,144 the widest."
    )


def finishing_of(device: str, samples: Callable[[int], int]) -> tuple[float, int, int]:
    """Return the seconds that scoring the widths of ResNet-50 takes; sites with a score, and all.

    `samples` is how many there are of a width.
    """
    model, widths = torchvision_models().resnet50(weights=None).eval(), []
    with torch.no_grad(), sg.recording(model, lambda call, x: widths.append(x.shape[1])):
        model(torch.zeros(1, 3, 32, 32))
    sites = []
    for width in widths:
        x = torch.randn(samples(width), width, device=device)
        sites.append(sg.Moments())
        sites[-1].update(x + x.roll(1, dims=1), (x + x.roll(1, dims=1)).relu())
    found: list[sg.PopulationScore] = []

    def score() -> None:
        found[:] = score_all(sites)

    seconds = min(timed(score) for _ in range(2 if device == "cuda" else 1))
    return seconds, sum(not one.reason for one in found), len(sites)


def in_mode(mode: str, model: nn.Module, batches: list[Tensor]) -> tuple[nn.Module, list[Tensor]]:
    tf32 = mode == "TF32"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    if mode != "bfloat16":
        return model, batches
    kind = {"dtype": torch.bfloat16, "memory_format": torch.channels_last}
    return model.to(**kind), [images.to(**kind) for images in batches]


def on_cuda(names: Sequence[str]) -> str:
    images = [photographs(512, seed=seed, device="cuda") for seed in range(BATCHES)]
    rows, details = [], []
    for name in names:
        network, size = NETWORKS[name]
        batches = [batch[:size] for batch in images]
        model = calibrated(network, batches[0][:64])
        costs = {}
        for mode in MODES:
            progress(f"{name}, {mode}")
            model, batches = in_mode(mode, model, batches)
            costs[mode] = cost(model, batches, REPEATS[mode], brief=mode == "float32")
        ratios = [f"{one.accumulation / one.forward:.2f}" for one in costs.values()]
        both = [f"{one.both / one.forward:.2f}" for mode, one in costs.items() if mode != "float32"]
        rows.append(f"| {name} | {' | '.join(ratios)} | {' | '.join(both)} |")
        details += [detail(name, mode, one) for mode, one in costs.items()]
        print(*details[-len(MODES) :], sep="\n", flush=True)
        del model, batches
        torch.cuda.empty_cache()
    return "\n".join(
        [
            f"Accumulation over {BATCHES} batches of 512 images (VGG-16: 256), divided by the "
            "forward pass; bfloat16 with channels last:",
            "",
            f"| network | {' | '.join(MODES)} | TF32, both estimators | bfloat16, both |",
            f"|---|{'---:|' * 5}",
            *rows,
            "",
            "All of it: milliseconds per batch of the forward pass, of which the host is busy for "
            "some, and of the accumulation, its floor (one more reading of all inputs and outputs "
            "of activations at 4.0 TB/s), and peak memory above weights and images in MiB.",
            "",
            "| network | mode | forward | host | accumulation | floor | peak, forward | peak, "
            "accumulation |",
            "|---|---|---:|---:|---:|---:|---:|---:|",
            *details,
            "",
            finishing("cuda"),
        ]
    )


def detail(name: str, mode: str, one: Cost) -> str:
    floor = 1 + one.read / BANDWIDTH / one.forward
    times = one.forward, one.launch, one.accumulation
    each = [1e3 * seconds / BATCHES for seconds in times]
    before, after = one.forward_peak, one.accumulation_peak
    memory = "as with TF32 |"
    if not math.isnan(before):
        memory = f"{before / MIB:.0f} | {after / MIB:.0f} ({after / before:.2f})"
    return (
        f"| {name} | {mode} | {each[0]:.1f} | {each[1]:.1f} | {each[2]:.1f} "
        f"({one.accumulation / one.forward:.2f}) | {floor:.2f} | {memory} |"
    )


def on_cpu() -> str:
    batches = [photographs(32, seed=seed) for seed in range(2)]
    model = calibrated("resnet50", batches[0])
    one = cost(model, batches, 5)
    return "\n".join(
        [
            "| ResNet-50, 2 batches of 32 images | seconds | ratio |",
            "|---|---:|---:|",
            f"| forward pass | {one.forward:.2f} | 1 |",
            f"| accumulation, population | {one.accumulation:.2f} | "
            f"{one.accumulation / one.forward:.3f} |",
            f"| accumulation, both | {one.both:.2f} | {one.both / one.forward:.3f} |",
            "",
            finishing("cpu"),
        ]
    )


def main(device: str = "cpu", *names: str) -> str:
    title = f"# The population score over batches against the forward pass ({device})"
    found = on_cuda(names or list(NETWORKS)) if device == "cuda" else on_cpu()
    return f"{title}\n\n{describe(device)}\n\n{found}"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
