"""Aligning networks: planted elements found again, time, and the objective beside rebasin's.

    python benchmarks/align.py planted [--draws 20] [NAME …]
    python benchmarks/align.py speed
    python benchmarks/align.py rebasin

`planted` moves a network at random in float64 and aligns it to itself, by weights and by
activations: a draw is missed if a parameter differs from the original's by more than 1e-6. `speed`
measures wall time and processor time of pairs in float32, and the growth with width. `rebasin`
aligns pairs with the package of that name too, if it can be imported. Run from the repository, for
the weights of the zoo; networks of torchvision have random weights.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import torch
from setting import describe, progress
from torch import Tensor, nn

import sigmascope as sg

ZOO = (
    *("myrtle:0", "myrtle-nobn:0", "plain20:0", "resnet20:0", "resnet20-unrectified:0"),
    *("resnet20-leaky0.1:0", "resnet20-leaky1:0", "resnet20-simclr:0", "vgg:0", "vgg11:1"),
    *("vgg16:1", "vgg19:1", "googlenet:0", "mobilenetv2:0", "efficientnet:0", "densenet:0"),
    *("convnext:0", "vit:0", "vit-patch2:0", "vit-patch4:0", "vit-patch8:0", "swin:0"),
)
LARGE = ("resnet18", "mobilenet_v2", "vgg11", "vit_b_32")
NAMES = (*(f"sigmascope/{one}" for one in ZOO), *(f"torchvision/{one}" for one in LARGE))


def loaded(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """Return a network and some of its inputs."""
    if name.startswith("torchvision/"):
        network = sg.catalog.model(name, weights=None, seed=seed).network
        source = torch.Generator().manual_seed(1)
        return network, torch.randn(4, 3, 224, 224, generator=source)
    entry = sg.catalog.model(name)
    data = sg.catalog.data("embedded", transform=entry.transform, batch_size=32, limit=32)
    return entry.network, next(iter(data))[0]


def error_of(a: nn.Module, b: nn.Module) -> float:
    """Return the largest difference of a parameter."""
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in pairs)


def planted(names: list[str], draws: int) -> Iterator[str]:
    """Yield a table of how often a planted element is found again."""
    yield "| network | draws | missed by weights | by activations | largest error | seconds each |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name in names:
        network, inputs = loaded(name)
        network, inputs = network.double().eval(), inputs.double()
        missed, worst, began = {"weights": 0, "activations": 0}, 0.0, time.process_time()
        try:
            for draw in range(draws):
                moved = sg.symmetry.move(network, seed=draw)
                for by in missed:
                    progress(f"{name}, draw {draw}, by {by}")
                    found = sg.symmetry.align(network, moved, inputs, by=by, progress=False)
                    error = error_of(network, found.apply(moved))
                    missed[by] += error > 1e-6
                    worst = max(worst, error)
        except sg.symmetry.UnmovableError as refusal:
            yield f"| {name} | – | does not move: {str(refusal).split(':')[0]} | | | |"
            continue
        seconds = (time.process_time() - began) / (2 * draws)
        counts = " | ".join(map(str, missed.values()))
        yield f"| {name} | {draws} | {counts} | {worst:.1e} | {seconds:.1f} |"


def timed(a: nn.Module, b: nn.Module, inputs: object, by: str) -> tuple[float, float]:
    """Return wall time and processor time of an alignment."""
    wall, processor = time.perf_counter(), time.process_time()
    sg.symmetry.align(a, b, inputs, by=by, progress=False)
    return time.perf_counter() - wall, time.process_time() - processor


def speed() -> Iterator[str]:
    """Yield tables of times."""
    yield f"{torch.get_num_threads()} threads. Random weights of two seeds, float32.\n"
    yield "| pair | by | wall s | processor s |"
    yield "|---|---|--:|--:|"
    for name in ("torchvision/resnet18", "torchvision/vit_b_32"):
        (a, _), (b, _) = loaded(name), loaded(name, 1)
        wall, processor = timed(a, b, None, "weights")
        yield f"| {name} | weights | {wall:.1f} | {processor:.1f} |"
    (a, _), (b, _) = loaded("torchvision/resnet18"), loaded("torchvision/resnet18", 1)
    images = [torch.randn(32, 3, 224, 224) for _ in range(4)]
    began = time.process_time()
    with torch.no_grad():
        for network in (a, b):
            network.eval()
            for batch in images:
                network(batch)
    passes = time.process_time() - began
    wall, processor = timed(a, b, images, "activations")
    yield f"| torchvision/resnet18, 128 images | activations | {wall:.1f} | {processor:.1f} |"
    yield f"| – its two forward passes | | | {passes:.1f} |\n"
    yield "| hidden width of an MLP 64–w–w–10, ReLU | processor s by weights |"
    yield "|--:|--:|"
    for width in (128, 256, 512, 1024, 2048):
        a, b = (mlp(width, seed) for seed in (0, 1))
        yield f"| {width} | {timed(a, b, None, 'weights')[1]:.2f} |"


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
    parser.add_argument("what", choices=("planted", "speed", "rebasin"))
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_intermixed_args()
    print(describe("cpu"), "\n", flush=True)
    lines = {
        "planted": lambda: planted(given.names or list(NAMES), given.draws),
        "speed": speed,
        "rebasin": rebasin,
    }[given.what]()
    for line in lines:
        print(line, flush=True)
    progress("")


if __name__ == "__main__":
    sys.exit(main())
