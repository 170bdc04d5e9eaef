"""One of two ranks that measure one network together; what it found is written to a file.

It is run by `test_signature_distributed`, as `python distributed_ranks.py RANK DIRECTORY`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import sigmascope as sg
from sigmascope.measure import ranks

IMAGES = torch.randn(331, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
EVEN = DataLoader(TensorDataset(IMAGES[:330]), batch_size=30)


class Router(nn.Module):
    """Sends every sample to one of two experts, so that batches differ in their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(12, 2, bias=False)
        self.experts = nn.ModuleList(nn.Linear(12, 12) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        chosen, out = self.route(x).argmax(1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero()[:, 0]
            if len(rows):
                out[rows] = torch.relu(expert(x[rows]))
        return out


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    body = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.GELU(), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(128, 12), nn.Tanh(), Router()).double()


def wide() -> nn.Sequential:
    """So few channels and so many positions that rows become sums on the way."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 80, 3), nn.SiLU()).double()


def batches(sizes: tuple[int, ...] = (40, 40, 40, 40, 40, 40, 40, 40, 11)) -> list[Tensor]:
    return list(IMAGES.split(list(sizes)))


def message(function: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    try:
        function(*args, progress=False, **kwargs)
    except (ValueError, RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def both(model: nn.Module, all_batches: Any, own: Any, **options: Any) -> tuple[Any, Any]:
    """Measure together, and on the first rank also alone."""
    together = sg.signature(model, own, distributed=True, progress=False, **options)
    alone = None
    if not dist.get_rank():
        alone = sg.signature(model, all_batches, progress=False, **options)
    return alone, together


def measured(found: dict[str, Any]) -> None:
    """The same batches, by one process and by two."""
    rank, every = dist.get_rank(), batches()
    own = every[rank::2]
    found["both"] = both(network(), every, own, metrics="all")
    found["positions"] = both(network(), every, own, samples="positions", max_positions=9)
    found["sums"] = both(wide(), every, own, samples="positions", max_positions=36)
    found["tokens"] = both(network(), every, own, samples="tokens", max_tokens=100)
    found["published"] = both(network(), every, own, estimator="published")
    found["some"] = both(network(), every, own, max_batches=3)
    wrapped = nn.parallel.DistributedDataParallel(network())
    found["ddp"] = both(wrapped, every[:4], own[:2], estimator="population")
    # the turns: a batch of each rank, then those that the first has left
    own = every[1:2] if rank else [every[0], *every[2:5]]
    found["unequal"] = both(network(), every[:5], own)
    found["empty"] = both(network(), every, [] if rank else every)
    sampler: Any = DistributedSampler(EVEN.dataset, shuffle=False)
    loader = DataLoader(EVEN.dataset, batch_size=15, sampler=sampler)
    found["sampler"] = both(network(), EVEN, loader, estimator="population")
    sampler = DistributedSampler(TensorDataset(IMAGES), shuffle=True, seed=3)
    loader = DataLoader(TensorDataset(IMAGES), batch_size=20, sampler=sampler)
    found["odd"] = sg.signature(network(), loader, distributed=True, progress=False)


class Failing:
    """Batches of which one cannot be read."""

    def __iter__(self) -> Any:
        yield IMAGES[:40]
        raise ValueError("the file of batch 1 is gone")


def refused(found: dict[str, Any]) -> None:
    """What ranks do differently, and one that fails."""
    rank, every = dist.get_rank(), batches()
    together = {"distributed": True}
    found["loader fails"] = message(
        sg.signature, network(), Failing() if rank else every, **together
    )
    found["network fails"] = message(
        sg.signature,
        network(),
        every,
        forward=None if rank else lambda model, batch: model(batch[:, :, :1]),
        **together,
    )
    found["bad option"] = message(
        sg.signature, network(), every, samples="none" if rank else "batch", **together
    )
    found["other options"] = message(sg.signature, network(), every, seed=rank, **together)
    found["other networks"] = message(sg.signature, network(rank), every, **together)
    found["all empty"] = message(sg.signature, network(), [], **together)
    found["training"] = message(sg.signature, network(), every, mode="as-is", **together)
    found["resume"] = message(sg.signature, network(), every, resume="nowhere", **together)
    found["no size"] = message(
        sg.signature, network(), [{"a": torch.zeros(())}] if rank else every, **together
    )
    found["and then"] = message(sg.signature, network(), every, **together)
    ranks.LIMIT = 0.3
    found["one rank"] = "" if rank else message(sg.signature, network(), every, **together)
    dist.barrier()
    ranks.LIMIT = 60.0


def lost(found: dict[str, Any]) -> None:
    """A rank that ends without a word, at last."""

    def forward(model: nn.Module, batch: Tensor) -> object:
        os._exit(0)

    if dist.get_rank():
        sg.signature(network(), batches(), forward=forward, distributed=True, progress=False)
    found["lost"] = message(sg.signature, network(), batches(), distributed=True)


def main(rank: int, directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2
    )
    found: dict[str, Any] = {}
    for scenario in (measured, refused, lost):
        begin = time.perf_counter()
        if scenario is lost:  # which no other rank survives
            torch.save(found, directory / f"rank{rank}.pt")
        scenario(found)
        print(rank, scenario.__name__, f"{time.perf_counter() - begin:.2f} s", flush=True)
    torch.save(found, directory / f"rank{rank}.pt")
    os._exit(0)  # gloo, which has lost a rank, now and then aborts while Python ends


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
