"""Aligning networks: planted elements found again, time, and the objective beside rebasin's.

    python benchmarks/align.py planted [--draws 20] [--by weights] [--journal FILE] [NAME …]
    python benchmarks/align.py speed [NAME …]
    python benchmarks/align.py activations [--images 10000]
    python benchmarks/align.py growth
    python benchmarks/align.py rebasin
    python benchmarks/align.py alike [--jobs 16] [KIND …]

`planted` moves a network at random in float64 and aligns it to itself, by weights and by
activations: a draw is missed if a parameter differs from the original's by more than 1e-6. With a
journal, draws that are in it are not made again: large networks take hours in all. `speed`
measures wall time and processor time of pairs in float32, and does what the next two do:
`activations` aligns ResNet-18 by random images, beside the forward passes of both networks, and
`growth` networks of growing width. `rebasin` aligns pairs with the package of that name too, if it
can be imported. `alike` compares the cosine of aligned pairs with that of 5 controls, for the
margin of `Alignment.alike`. Run from the repository, for the weights of the zoo. Networks called
`trained/…` have the weights that `sigmascope-papers` takes from packages, into the directory
SIGMASCOPE_CACHE; those called `torchvision/…` have random weights.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import torch
from align_alike import alike
from align_planted import NAMES, loaded, planted
from setting import describe, progress
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.symmetry.aligning import descent
from sigmascope.symmetry.aligning.blocks import Touch
from sigmascope.symmetry.aligning.pairs import Products

WHAT = ("planted", "speed", "activations", "growth", "rebasin", "alike")


def timed(a: nn.Module, b: nn.Module, inputs: object, by: str) -> tuple[float, float]:
    """Return wall time and processor time of an alignment."""
    wall, processor = time.perf_counter(), time.process_time()
    sg.symmetry.align(a, b, inputs, by=by, progress=False)
    return time.perf_counter() - wall, time.process_time() - processor


class Spent:
    """Processor time of the parts of an alignment, and the multiplications and additions of its
    matrices of costs.
    """

    def __init__(self) -> None:
        self.products = self.assignments = self.operations = 0.0
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Measure inside the context."""
        products, assignments = descent.products_of, descent.assigned

        def multiplied(touches: Iterable[Touch], *networks: dict[str, Tensor]) -> list[Products]:
            touches, began = list(touches), time.process_time()
            found = products(touches, *networks)
            self.products += time.process_time() - began
            for one in touches:
                rows, columns = one.gathered(networks[0][one.name]).shape
                self.operations += 2 * rows**2 * columns
            return found

        def matched(cost: Tensor) -> Tensor:
            began = time.process_time()
            found = assignments(cost)
            self.assignments += time.process_time() - began
            self.count += 1
            return found

        descent.products_of, descent.assigned = multiplied, matched
        try:
            yield
        finally:
            descent.products_of, descent.assigned = products, assignments


def rate(size: int = 2048) -> float:
    """Return operations a second of a large product of matrices in float32, processor time."""
    x = torch.randn(size, size)
    x @ x
    began = time.process_time()
    for _ in range(4):
        x @ x
    return 4 * 2 * size**3 / (time.process_time() - began)


def speed(names: Iterable[str]) -> Iterator[str]:
    """Yield tables of times."""
    fastest = rate()
    yield f"{torch.get_num_threads()} threads. Random weights of two seeds, float32.\n"
    yield "| pair | by | wall s | processor s | products | their floor | assignments | number |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for name in names or ("torchvision/resnet18", "torchvision/vit_b_32"):
        (a, _), (b, _) = loaded(name), loaded(name, 1)
        spent = Spent()
        with spent.counted():
            wall, processor = timed(a, b, None, "weights")
        parts = f"{spent.products:.1f} | {spent.operations / fastest:.1f} | {spent.assignments:.1f}"
        yield f"| {name} | weights | {wall:.1f} | {processor:.1f} | {parts} | {spent.count} |"
    yield f"\nThe floor: the operations of the products at {fastest / 1e9:.0f} billion a second.\n"


class Images:
    """Random images, made anew at each reading: thousands of them would not fit."""

    def __init__(self, count: int, batch: int = 32) -> None:
        self._sizes = [min(batch, count - first) for first in range(0, count, batch)]

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[Tensor]:
        source = torch.Generator().manual_seed(1)
        for size in self._sizes:
            yield torch.randn(size, 3, 224, 224, generator=source)


def activations(count: int) -> Iterator[str]:
    """Yield a table of the time by activations, beside the passes of both networks."""
    (a, _), (b, _) = loaded("torchvision/resnet18"), loaded("torchvision/resnet18", 1)
    images = Images(count)
    for network in (a, b):
        network.eval()
    passes = 0.0
    with torch.no_grad():
        a(next(iter(images)))
        for batch in images:
            began = time.process_time()
            for network in (a, b):
                network(batch)
            passes += time.process_time() - began
    weights = timed(a, b, None, "weights")[1]
    wall, processor = timed(a, b, images, "activations")
    yield f"| ResNet-18 by activations, {count:,} images | wall s | processor s |"
    yield "|---|--:|--:|"
    yield f"| all | {wall:.1f} | {processor:.1f} |"
    yield f"| two forward passes alone | | {passes:.1f} |"
    yield f"| by weights | | {weights:.1f} |"
    ratio = (processor - weights) / passes
    yield f"| ratio of all, less that by weights, to the passes | | {ratio:.2f} |"


def growth() -> Iterator[str]:
    """Yield a table of time against width."""
    yield "| width of an MLP 64–w–w–10, ReLU | processor s by weights | products | assignments |"
    yield "|--:|--:|--:|--:|"
    for width in (128, 256, 512, 1024, 2048):
        (a, b), spent = (mlp(width, seed) for seed in (0, 1)), Spent()
        with spent.counted():
            processor = timed(a, b, None, "weights")[1]
        yield f"| {width} | {processor:.2f} | {spent.products:.2f} | {spent.assignments:.2f} |"


def mlp(width: int, seed: int) -> nn.Module:
    """Return a network with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 10)).eval()


def rebasin() -> Iterator[str]:
    """Yield a table of objectives and times of both libraries, for permutations alone and all."""
    try:
        from rebasin import PermutationCoordinateDescent
    except ImportError as problem:
        yield f"rebasin cannot be imported here: {problem}."
        return
    yield "| pair | before | rebasin | s | permutations | s | whole group | s |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for first, second in (
        ("sigmascope/vgg11:1", "sigmascope/vgg11:1-init"),
        ("sigmascope/myrtle:0", "sigmascope/myrtle:1"),
        ("sigmascope/myrtle-nobn:0", "sigmascope/myrtle-nobn:1"),
        ("sigmascope/vgg16:1", "sigmascope/vgg16:2"),
        ("sigmascope/resnet20:0", "sigmascope/resnet20:1"),
        ("sigmascope/vit-patch4:0", "sigmascope/vit-patch4:1"),
    ):
        (a, x), (b, _) = loaded(first), loaded(second)
        before, own = distance(a, b), []
        for group in ("permutations", "all"):
            began = time.process_time()
            found = sg.symmetry.align(a, b, group=group, progress=False)
            seconds = time.process_time() - began
            own.append(f"{distance(a, found.apply(b)):.6g} | {seconds:.1f}")
        began = time.process_time()
        try:
            PermutationCoordinateDescent(a, b, x[:2]).rebasin()  # in place
            other = f"{distance(a, b):.6g} | {time.process_time() - began:.1f}"
        except Exception as problem:  # any failure of another library is a row of the table
            other = f"{type(problem).__name__}: {str(problem)[:60]} | –"
        yield f"| {first}, {second} | {before:.6g} | {other} | {' | '.join(own)} |"


def distance(a: nn.Module, b: nn.Module) -> float:
    """Return the squared distance of all parameters."""
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return sum(float((one - other).detach().double().square().sum()) for one, other in pairs)


def main() -> None:
    """Print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--by", default="weights,activations", help="of planted elements")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--journal", type=Path, help="of draws, from which planted goes on")
    parser.add_argument("--images", type=int, default=128, help="of an alignment by activations")
    given = parser.parse_intermixed_args()
    print(describe("cpu"), "\n", flush=True)
    lines = {
        "planted": lambda: planted(
            given.names or list(NAMES), given.draws, given.by.split(","), given.jobs, given.journal
        ),
        "speed": lambda: chain(speed(given.names), activations(given.images), [""], growth()),
        "activations": lambda: activations(given.images),
        "growth": growth,
        "rebasin": rebasin,
        "alike": lambda: alike(given.jobs, given.names),
    }[given.what]()
    for line in lines:
        print(line, flush=True)
    progress("")


if __name__ == "__main__":
    sys.exit(main())
