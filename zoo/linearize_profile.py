"""What a training step of the linearize experiment costs on a GPU, and where the time goes:

    python zoo/linearize_profile.py mobilenetv2 swin [--ways eager,compiled] [--no-kernels]

For each network the time of a step of 256 images, captured and replayed, its epoch of 45,000
images, and when it was ready: eager; fading, that is eager while half of the activations fade;
and compiled in a `Workshop`, where every step is of the same operators, whatever fades. Then the
kernels that take most of the eager step and of the compiled one, and the sum of all.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import torch
from linearize_networks import NETWORKS, PLANS
from linearize_selection import fitted
from linearize_stages import WIDTHS
from linearize_training import Training, linearized
from linearize_views import Images, Views
from linearize_workshop import Workshop
from torch.profiler import ProfilerActivity, profile

from sigmascope.training.cuda_graph import Step

IMAGES, STEPS, SHOWN, EPOCH = 4096, 30, 16, 45_000
WAYS = ("eager", "fading", "compiled")


def started(name: str, way: str) -> tuple[Training, list[tuple[torch.Tensor, ...]]]:
    """Return a training on random images, and the inputs of its steps."""
    torch.manual_seed(0)
    device = torch.device("cuda")
    pixels = torch.randn(IMAGES, 3, 32, 32, device=device)
    images = Images.of(pixels, torch.randint(0, 10, (IMAGES,), device=device))
    recipe, model = PLANS[name].train, NETWORKS[name]().to(device)
    if way == "eager":
        training = Training(model, recipe, images, seed=0)
    else:
        maps = fitted(model, pixels[:WIDTHS])
        sites = list(maps)[::2]
        if way == "compiled":
            workshop = Workshop(model, maps, recipe, images, backend="inductor")
            state = {key: value.clone() for key, value in model.state_dict().items()}
            training = workshop.begin(state, recipe, seed=0, sites=sites, maps=maps)
        else:
            made, share = linearized(model, sites, maps)
            training = Training(made, recipe, images, seed=0, share=share)
            for one in training.fading:
                one.is_done = False
        assert training.share is not None
        training.share.fill_(0.5)
    training.model.train()
    training.rate.fill_(0.01)
    views = Views.of(IMAGES, 0, 0, device)
    return training, [(*one, one[0]) for one in views.batches(recipe.batch, whole=True)]


def timed(name: str, way: str) -> str:
    """Return a row: the time of a captured step."""
    began = time.perf_counter()
    training, inputs = started(name, way)
    step = Step(training._run, training._changed)
    for one in inputs[:4]:
        step(*one)
    torch.cuda.synchronize()
    ready = time.perf_counter() - began
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for number in range(STEPS):
        step(*inputs[number % len(inputs)])
    end.record()
    torch.cuda.synchronize()
    ms = begin.elapsed_time(end) / STEPS
    epoch = ms / 1e3 * (EPOCH // len(inputs[0][0]))
    return f"| {name} | {way} | {ms:.2f} | {epoch:.2f} | {ready:.0f} |"


def kernels(name: str, way: str) -> str:
    """Return the kernels that take most of a step, in Markdown."""
    training, inputs = started(name, way)
    for one in inputs[:3]:
        training._run(*one)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        training._run(*inputs[3])
        torch.cuda.synchronize()
    ms, count = Counter[str](), Counter[str]()
    for event in seen.events():
        ms[event.name[:100]] += event.device_time_total / 1e3
        count[event.name[:100]] += 1
    head = f"\n{name}, {way}: {sum(count.values())} kernels, {sum(ms.values()):.2f} ms\n"
    rows = [f"| {ms[one]:.3f} | {count[one]} | {one} |" for one, _ in ms.most_common(SHOWN)]
    return "\n".join([head, "| ms | number | kernel |", "|---:|---:|---|", *rows])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="+", choices=NETWORKS)
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {WAYS}")
    parser.add_argument("--kernels", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args(arguments)
    among = args.ways.split(",")
    if strange := {*among} - {*WAYS}:
        parser.error(f"--ways: choose from {WAYS}, got {sorted(strange)}")
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, 4
    print("| network | | ms a step | s an epoch | ready after, s |\n|---|---|---:|---:|---:|")
    for name in args.networks:
        for way in among:
            print(timed(name, way), flush=True)
    for name in args.networks if args.kernels else ():
        for way in (way for way in among if way != "fading"):
            print(kernels(name, way), flush=True)


if __name__ == "__main__":
    main()
