"""One network over one data set on several workers: time against workers, memory against data.

A convolutional network of 6 activations (32 to 128 channels) on generated images of 16 × 16, in
batches of 250, in 16 parts; both scores. Workers are processes of this machine with one thread
each, started before the clock. Runs with one worker and with two take turns; the ratio is that of
the medians. Times of 4 and 8 workers are simulated: the processor times of
the tasks with one worker, each given to the worker that is free first, and that of the serial part.
Processor times do not grow when others load the machine, as the measured ones do.

The floor: tasks share nothing, so that T(w) = S + W / w, with W the work of all tasks and S what
only this process does: it divides the data, reads 16 parts, adds them up and scores the sums. A
part is 6 sites of at most 8 groups of (2d)² numbers, 11 MB in all with d = 128, and the scores
are decompositions of d × d matrices, 0.1 s each at most. Prediction, on cores that nobody else
uses: S at most 10 % of T(1), T(2) / T(1) between 0.5 and 0.6, T(8) / T(1) below 0.25. Where others
load the machine, a second worker gets only the time that they leave, and the ratio is larger.

Memory: a worker holds one batch, the sums and a few numbers for each batch. Prediction: the peak
of a worker on 50,000 images is within 5 % of that on 1,000. Measured in fresh processes, the median
of five each: as they run, where glibc leaves holes in the heap; and with every block of 128 KiB or
more returned at once (MALLOC_MMAP_THRESHOLD_), which shows what is held. Of 1,000 images all layers
are still rows, 3 MB; the sums of six layers, which any larger number has, are 11 MB.

Run as `python benchmarks/splitting.py` (five minutes on two cores that nobody else uses), or
`python benchmarks/splitting.py memory` for the second table alone.
"""

from __future__ import annotations

import heapq
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from setting import describe, progress
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import sigmascope as sg
from sigmascope.measure.options import Options
from sigmascope.runs import split_signature
from sigmascope.runs.division import source_of
from sigmascope.runs.executors import open_executor
from sigmascope.runs.part_tasks import PartTask, measure_part

BATCH, PARTS = 250, 16
RUNS = {4_000: 3, 16_000: 1}  # images -> turns
SIZES, TIMES = (1_000, 10_000, 50_000), 5


class Generated(Dataset[Tensor]):
    """Images that are made when they are asked for, so that none is kept."""

    def __init__(self, count: int, side: int) -> None:
        self.count, self.side = count, side

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Tensor:
        generator = torch.Generator().manual_seed(number)
        return torch.randn(3, self.side, self.side, generator=generator)


def network() -> nn.Sequential:
    """Return the network, the same in every process."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    before = 3
    for width, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        layers += [nn.Conv2d(before, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers)


def data(count: int, side: int = 16) -> DataLoader[Tensor]:
    """Return a loader of generated images."""
    return DataLoader(Generated(count, side), batch_size=BATCH)


def _timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    torch.set_num_threads(1)
    begin = time.process_time()
    value = function(*arguments)
    return value, time.process_time() - begin


def _warm() -> None:
    """Import what a task needs, so that no run pays for it."""
    sg.signature(network(), torch.randn(64, 3, 16, 16), progress=False)


class Timing:
    """An executor that notes the processor time of each call in its worker."""

    def __init__(self, executor: Any) -> None:
        self._executor, self.most, self.seconds = executor, executor.most, list[float]()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> TimedCall:
        """Return the future of a call."""
        return TimedCall(self._executor.submit(_timed, function, *arguments), self.seconds)


class TimedCall:
    """A future that has the time of its call beside the result."""

    def __init__(self, future: Any, seconds: list[float]) -> None:
        self._future, self._seconds = future, seconds

    def done(self) -> bool:
        """Return whether the call has ended."""
        return bool(self._future.done())

    def result(self) -> Any:
        """Return the result; its time is noted."""
        value, seconds = self._future.result()
        self._seconds.append(seconds)
        return value


def makespan(seconds: list[float], workers: int) -> float:
    """Return when the last call ends if each goes to the worker that is free first."""
    free = [0.0] * workers
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def growth(images: int, turns: int) -> list[str]:
    """Return the table of times against workers."""
    model, loader = network(), data(images)
    walls: dict[int, list[float]] = {1: [], 2: []}
    tasks: list[list[float]] = []
    serials: list[float] = []
    with open_executor("local:1") as one, open_executor("local:2") as two:
        executors = {1: one, 2: two}
        for started in [executor.submit(_warm) for executor in (one, two, two)]:
            started.result()
        for turn in range(turns):
            for workers, executor in executors.items():
                progress(f"{images:,} images, turn {turn + 1} of {turns}, {workers} workers")
                timing = Timing(executor)
                with tempfile.TemporaryDirectory() as folder:
                    begin, own = time.perf_counter(), time.process_time()
                    found = split_signature(
                        model, loader, parts=PARTS, executor=timing, out=folder, progress=False
                    )
                    walls[workers].append(time.perf_counter() - begin)
                if workers == 1:
                    tasks.append(timing.seconds)
                    serials.append(time.process_time() - own)
    begin = time.perf_counter()
    alone = sg.signature(model, loader, progress=False)
    single = time.perf_counter() - begin
    worst = max(
        abs(a.population - b.population) for a, b in zip(found.sites, alone.sites, strict=True)
    )
    first, second = (statistics.median(walls[workers]) for workers in (1, 2))
    serial = statistics.median(serials)
    middle = sorted(tasks, key=sum)[turns // 2]
    lines = [
        f"{images:,} images, {PARTS} parts, medians of {turns} turns; one process without parts: "
        f"{single:.1f} s, once. Largest difference of a population score from it: {worst:.1e}.",
        "",
        "| workers | seconds | of one worker | |",
        "|---|---|---|---|",
        f"| 1 | {first:.1f} | 1.00 | measured, beside the load of others |",
        f"| 2 | {second:.1f} | {second / first:.2f} | measured, beside the load of others |",
    ]
    whole = serial + sum(middle)
    for workers in (1, 2, 4, 8):
        guess = serial + makespan(middle, workers)
        lines.append(f"| {workers} | {guess:.1f} | {guess / whole:.2f} | from processor times |")
    lines += ["", f"The serial part takes {serial:.2f} s of processor time, {serial / whole:.1%}."]
    return lines


def worker(count: int) -> None:
    """Run the task of so many images, and print the peak of the memory of this process."""
    torch.set_num_threads(1)
    options = Options()
    source = source_of(data(count, side=8), options)
    span = 0, source.total
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.safetensors"
        batches = source.between(*span)
        task = PartTask("network", span, source.place(span), batches, options, path=path)
        report = measure_part(task, network())
        if report.failure:
            raise RuntimeError(report.failure.message)
    # the peak of getrusage is at least what the process that started this one had
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    print(int(peak.split()[1]) / 1024)


def memory() -> list[str]:
    """Return the table of memory against data."""
    lines = [
        "| images | held, MiB | of 1,000 images | as it runs, MiB | of 1,000 images | range, MiB |",
        "|---|---|---|---|---|---|",
    ]
    firsts: list[float] = []
    for count in SIZES:
        progress(f"{count:,} images")
        found = [
            [_peak(count, environment) for _ in range(TIMES)]
            for environment in ({"MALLOC_MMAP_THRESHOLD_": str(2**17)}, {})
        ]
        peaks = [statistics.median(one) for one in found]
        firsts = firsts or peaks
        cells = [f"{peak:.0f} | {peak / one:.3f}" for peak, one in zip(peaks, firsts, strict=True)]
        cells.append(f"{min(found[1]):.0f} to {max(found[1]):.0f}")
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    return lines


def _peak(count: int, environment: dict[str, str]) -> float:
    """Return the peak of the memory of a worker, in MiB."""
    command = [sys.executable, __file__, "worker", str(count)]
    given = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    said = subprocess.run(command, env=given, check=True, capture_output=True, text=True).stdout
    return float(said.split()[-1])


def main() -> None:
    """Print both tables."""
    load = os.getloadavg()[0]
    print("# One network over one data set on several workers\n")
    print(f"`python benchmarks/splitting.py`. {describe('cpu')}")
    print(f"Other processes were using the machine: load average {load:.1f} at the beginning.\n")
    print("\n".join([*memory(), ""]), flush=True)
    for images, turns in RUNS.items():
        print("\n".join([*growth(images, turns), ""]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(int(sys.argv[2]))
    elif sys.argv[1:2] == ["memory"]:
        print("\n".join([describe("cpu"), "", *memory()]))
    else:
        main()
