"""One stitching epoch against one plain training epoch of the same network: ResNet-20, batch 256.

The floor of a training step is three times a forward pass: forward, gradients of inputs, gradients
of weights. A stitching step has no gradients of weights but its own, and none at all in front of
the site: between one and two forward passes, by the depth of the site. The pass that adapts batch
norm to a rounded permutation is another forward pass, so the whole is at most as much as training,
and the target is 1.1.

Both read the same batches with the same augmentation and take turns; on a GPU both steps are
captured and replayed. On a CPU one thread is used and its own seconds are counted, so that other
work on the machine does not matter.

Run as `python benchmarks/stitching.py [--device cuda] [--images N]`. Weights and images are drawn:
neither changes the time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from setting import describe, progress
from torch import Tensor, nn

from sigmascope.catalog.cifar import NETWORKS
from sigmascope.stitching import StitchData, Task, settings_for
from sigmascope.stitching.front_cache import FrontCache
from sigmascope.stitching.loop import TrainingLoop
from sigmascope.stitching.setup import StitchSetup
from sigmascope.training.cuda_graph import Step
from sigmascope.training.evaluation import accuracy
from sigmascope.training.feed import Feed

BATCH, TURNS = 256, 2
SITES = ("act1", "blocks.4.act2", "blocks.8.act2")
TOGETHER = [
    Task("full"),
    *(Task("low-rank", {"rank": r}) for r in (1, 2, 4)),
    Task("relu-group"),
    Task("softsort"),
]
CHANGES = {"batch": BATCH, "epochs": 1000, "head_start": 0, "select_on": "test"}


def network(seed: int, device: str) -> nn.Module:
    torch.manual_seed(seed)
    return NETWORKS["resnet20"]().to(device).eval()


def samples(images: int) -> StitchData:
    source = torch.Generator().manual_seed(0)
    sets = [
        (torch.randn(n, 3, 32, 32, generator=source), torch.randint(10, (n,), generator=source))
        for n in (images, images // 5)
    ]
    return StitchData(sets[0], sets[1], augment="flip-shift")


class Plain:
    """Training as one would write it down, on the same feed; an epoch ends with the accuracy on the
    test data.
    """

    def __init__(self, data: StitchData, device: str) -> None:
        self.model = network(9, device)
        place = torch.device(device)
        self.feed, self.test = (
            Feed(side, data, place, torch.float32) for side in (data.train, data.test)
        )
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.01, momentum=0.9, foreach=True
        )
        self.step = Step(self._step, lambda: [*self.model.parameters(), *self.model.buffers()])

    def _step(self, inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(self.model(inputs), labels)
        parameters = list(self.model.parameters())
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters), strict=True
        ):
            parameter.grad = gradient
        self.optimizer.step()

    def epoch(self) -> None:
        self.model.train()
        for _, inputs, labels in self.feed.shuffled(BATCH, 0):
            self.step(inputs, labels)
        accuracy(self.model, self.test)


def stitching(
    data: StitchData, device: str, site: str, tasks: list[Task], *, cached: bool = False
) -> TrainingLoop:
    changes = {**CHANGES, **({"front_mode": "eval"} if cached else {})}
    settings = [settings_for("paper", task.family, {**changes, **task.changes}) for task in tasks]
    data = StitchData(data.train, data.test) if cached else data
    networks = network(1, device), network(2, device)
    setup = StitchSetup(networks, data, settings[0], site=site)
    trainers = [setup.trainer(task, one) for task, one in zip(tasks, settings, strict=True)]
    front = setup.joint.front.before.eval()
    cache = FrontCache(front, setup.feeds.everything, None) if cached else None
    return TrainingLoop(front, trainers, setup.feeds, settings[0], cache=cache)


def seconds(call: Callable[[], object], device: str) -> float:
    clock = time.perf_counter if device == "cuda" else time.process_time
    started = clock()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - started


def ratio(plain: Plain, training: TrainingLoop, device: str) -> tuple[float, float]:
    """Let both run once, to warm up, then in turns; return the least time of each."""
    plain.epoch()
    training.epoch()
    times = [(seconds(plain.epoch, device), seconds(training.epoch, device)) for _ in range(TURNS)]
    return min(one for one, _ in times), min(two for _, two in times)


def main(device: str = "cpu", images: int | None = None) -> str:
    images = images or (50_000 if device == "cuda" else 4 * BATCH)
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if device == "cpu" else threads)
    data = samples(images)
    plain = Plain(data, device)
    lines = [
        "| site | stitch | training epoch | stitching epoch | ratio |",
        "|---|---|---:|---:|---:|",
    ]
    rows: list[tuple[str, str, list[Task], bool]] = [
        (SITES[0], "full", [Task("full")], False),
        *((at, "relu-group, with the pass", [Task("relu-group")], False) for at in SITES),
        (SITES[1], f"{len(TOGETHER)} together, with the pass", TOGETHER, False),
        (SITES[1], "full, front cached", [Task("full")], True),
    ]
    for at, name, tasks, cached in rows:
        progress(f"{at}: {name}")
        one, two = ratio(plain, stitching(data, device, at, tasks, cached=cached), device)
        lines.append(f"| {at} | {name} | {one:.2f} s | {two:.2f} s | {two / one:.2f} |")
        progress(lines[-1])
    progress("")
    torch.set_num_threads(threads)
    note = (
        f"ResNet-20, {images} images, batch {BATCH}, float32; an epoch ends with the accuracy on "
        f"{images // 5} test images."
    )
    return "\n".join([f"# Stitching ({device})", "", describe(device), "", note, "", *lines])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int)
    given = parser.parse_args()
    print(main(given.device, given.images))
