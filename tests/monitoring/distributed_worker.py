"""One of two processes that train and measure together; what it found is written to a file.

It is run by `test_distributed`, as `python distributed_worker.py RANK DIRECTORY`.
"""

from __future__ import annotations

import copy
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.sharded import whole
from sigmascope.integrations.watching import Watch
from sigmascope.measure import ranks
from sigmascope.measure.accumulating import PopulationSums

PROBE = [torch.randn(96, 8, generator=torch.Generator().manual_seed(i)) for i in range(2)]


class Block(nn.Module):
    """A linear map and Swish, written as a formula, so that passes are repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.slope = nn.Linear(16, 16), nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.map(x)
        return x * torch.sigmoid(self.slope * x)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2))
    return nn.Sequential(first, Block(), nn.PReLU(16), nn.Linear(16, 4))


def in_shards() -> nn.Sequential:
    from torch.distributed.fsdp import fully_shard

    model = network()
    for part in (model[0], model[1], model):
        fully_shard(part)
    return model


def train(model: nn.Module, between: Callable[[int], object] = lambda step: None) -> list[Tensor]:
    """Train on data of this rank; return what this process holds of the network, and a draw."""
    torch.manual_seed(dist.get_rank())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(32, 8)).square().mean().backward()
        optimizer.step()
        between(step)
    return [*held(model), torch.rand(3)]


def held(model: nn.Module) -> list[Tensor]:
    return [local(value).clone() for value in model.state_dict().values()]


def local(value: Any) -> Tensor:
    return value.to_local() if hasattr(value, "to_local") else value


def all_equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def alone(weights: dict[str, Any]) -> sg.Signature:
    """The signature of a network of one process."""
    model = network()
    model.load_state_dict(weights)
    return sg.signature(model, PROBE, estimator="population", progress=False)


def message(function: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    try:
        function(*args, **kwargs)
    except (sg.SigmascopeError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def data_parallel(found: dict[str, Any]) -> None:
    """Training in DistributedDataParallel, with and without a monitor."""

    def wrapped() -> nn.Module:
        return nn.parallel.DistributedDataParallel(network())

    plain, model = train(wrapped()), wrapped()
    monitor, weights = sg.Monitor(model, PROBE, every=2), []

    def between(step: int) -> None:
        if monitor.step(step) is not None:
            weights.append(copy.deepcopy(model.module.state_dict()))

    found["ddp same"] = all_equal(plain, train(model, between))
    found["ddp steps"] = monitor.track.steps
    found["ddp scores"] = monitor.track.scores
    found["ddp alone"] = [alone(one).scores_by("population") for one in weights]
    if dist.get_rank() == 0:  # alone, and nobody waits
        one = sg.signature(model, PROBE, progress=False)
        found["ddp signature"] = one.scores, sg.signature(model.module, PROBE).scores, one.name
    model.module.add_module("sync", nn.SyncBatchNorm(4))
    found["ddp sync"] = message(sg.Monitor, model, PROBE, mode="as-is")


def sharded(found: dict[str, Any]) -> None:
    """Training in shards, with and without a monitor."""
    plain, model = train(in_shards()), in_shards()
    monitor, log, weights = sg.Monitor(model, PROBE, every=2, log=lambda *_: log.append(1)), [], []

    def between(step: int) -> None:
        values = monitor.step(step)
        if values is not None:
            full = {name: whole(value).clone() for name, value in model.state_dict().items()}
            weights.append((full, values))

    found["fsdp same"] = all_equal(plain, train(model, between))
    found["fsdp held"] = {type(one).__name__ for one in model.parameters()}
    found["fsdp steps"], found["fsdp logged"] = monitor.track.steps, len(log)
    found["fsdp alone"] = [alone(full).to_dict("sigmascope/") for full, _ in weights]
    found["fsdp values"] = [values for _, values in weights]
    found["fsdp sites"] = [site.name for site in monitor.signature.sites]
    found["fsdp identity"] = [
        (one.name, one.model, one.parameters) for one in (monitor.signature, alone(weights[-1][0]))
    ]
    # each rank has its own clock
    model = in_shards()
    auto, measured = sg.Monitor(model, PROBE, budget=0.5), []

    def slowly(step: int) -> None:
        time.sleep(0.002 * dist.get_rank())
        if auto.step(step) is not None:
            measured.append(step)

    found["fsdp auto same"] = all_equal(plain, train(model, slowly))
    found["fsdp auto"], found["fsdp auto track"] = measured, auto.track.steps


def measured_anywhere(found: dict[str, Any]) -> None:
    """A measurement that fails, and one between the backward pass and the optimizer's step."""
    results = []
    for measures in (False, True):
        model = in_shards()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for seed in range(3):
            generator = torch.Generator().manual_seed(seed)
            torch.manual_seed(seed)
            optimizer.zero_grad()
            model(torch.randn(32, 8, generator=generator)).square().mean().backward()
            if measures and seed != 1:
                sg.signature(model, PROBE, progress=False)
            if measures and seed == 1:
                try:
                    sg.signature(model, torch.randn(32, 9, generator=generator), progress=False)
                except RuntimeError as error:
                    found["fsdp failed"] = str(error)
            optimizer.step()
        results.append(held(model))
    found["fsdp between"] = all_equal(*results)


def penalized(found: dict[str, Any]) -> None:
    """The gradient of a penalty, in shards and not; both ranks have the same data."""
    gradients = []
    for model in (network(), in_shards()):
        penalty = sg.AffinityPenalty(model, weight=1.0)
        for seed in range(2):
            torch.manual_seed(seed)
            with penalty:
                loss = model(torch.randn(96, 8)).square().mean()
            (loss + penalty.value).backward()
        full = [
            getattr(one.grad, "full_tensor", lambda one=one: one.grad) for one in model.parameters()
        ]
        gradients.append([one() for one in full])
        found.setdefault("penalty sites", []).append([*penalty.scores])
    found["penalty gradients"] = gradients


def refused(found: dict[str, Any]) -> None:
    """What cannot be measured, and what ranks do differently."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    rank, model = dist.get_rank(), in_shards()
    found["other batches"] = message(sg.signature, model, torch.randn(64, 8) + rank)
    found["fewer batches"] = message(sg.signature, model, PROBE[: 1 + rank])
    found["other options"] = message(sg.signature, model, PROBE, max_batches=1 + rank)
    found["kept"] = message(sg.signature, model, PROBE, keep="nowhere")
    ranks.LIMIT = 0.3
    found["one rank"] = "" if rank else message(sg.signature, model, PROBE)
    dist.barrier()
    ranks.LIMIT = 60.0
    found["and then both"] = message(sg.signature, model, PROBE)
    with warnings.catch_warnings(action="ignore"):  # it is deprecated
        found["fsdp1"] = message(
            sg.signature, FullyShardedDataParallel(network(), device_id="cpu"), PROBE
        )
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "tensor"))
    for name in ("tensor parallel", "tensor parallel in shards"):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        if name.endswith("shards"):
            fully_shard(model, mesh=mesh["data"])
        found[name] = [
            message(sg.signature, model, PROBE),
            message(sg.Monitor, model, PROBE),
            message(sg.AffinityPenalty, model),
        ]


def broken(*_: object) -> None:
    raise OSError("No space left on device")


def breaking_off() -> Iterator[Tensor]:
    yield PROBE[0]
    broken()


def fails_alone(found: dict[str, Any]) -> None:
    """What the other rank is told where the first one fails alone; then both measure again."""
    first, model = dist.get_rank() == 0, in_shards()
    ranks.LIMIT = 600.0  # longer than this process may take

    def tell(case: str, batches: object = PROBE, **options: Any) -> None:
        said = message(sg.signature, model, batches, progress=False, **options)
        found[f"alone: {case}"] = said, message(sg.signature, model, PROBE, progress=False)

    tell("options", **({"mode": "never"} if first else {}))
    tell("batches", breaking_off() if first else PROBE)
    with pytest.MonkeyPatch.context() as patch:
        if first:
            patch.setattr(PopulationSums, "scores", broken)
        said = message(sg.signature, model, PROBE, progress=False)
    found["alone: scores"] = said, message(sg.signature, model, PROBE, progress=False)


def ends_in_vain(model: nn.Module, batch: Tensor) -> None:
    """Run the network; fail after it, where the pass is not repeated for formulas any more."""
    model(batch)
    if dist.get_rank() == 0 and torch.equal(batch, PROBE[1]):
        broken()


def pass_fails_alone(found: dict[str, Any]) -> None:
    """After it the ranks are out of step, and can do nothing more together."""
    said = message(sg.signature, in_shards(), PROBE, forward=ends_in_vain, progress=False)
    found["alone: forward"] = said, ""


def track_fails_alone(found: dict[str, Any]) -> None:
    """The first rank, which keeps the track, cannot: a monitor raises, a callback warns."""
    model, log = in_shards(), broken if dist.get_rank() == 0 else None
    monitor = sg.Monitor(model, PROBE, every=1, log=log)
    found["alone: monitor"] = [message(monitor.step, step) for step in range(1 + dist.get_rank())]
    options: Any = {"log": log}
    watch = Watch(PROBE, every=1, name="s", errors="warn", options=options)
    watch.begin(model, is_first=dist.get_rank() == 0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found["alone: watched"] = [watch.step(step) is not None for step in range(3)]
        watch.end()
    found["alone: warned"] = [str(one.message) for one in warned]
    found["alone: then"] = message(sg.signature, model, PROBE, progress=False)


SCENARIOS = (
    data_parallel,
    sharded,
    measured_anywhere,
    penalized,
    refused,
    fails_alone,
    track_fails_alone,
)


def main(rank: int, directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2
    )
    found: dict[str, Any] = {}
    for scenario in SCENARIOS:
        begin = time.perf_counter()
        scenario(found)
        print(rank, scenario.__name__, f"{time.perf_counter() - begin:.2f} s", flush=True)
        dist.barrier()
    pass_fails_alone(found)
    torch.save(found, directory / f"rank{rank}.pt")
    sys.stdout.flush()
    os._exit(0)  # destroy_process_group would wait for what only one of them has begun


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
