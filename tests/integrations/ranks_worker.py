"""One of two processes that train and measure together; what it found is written to a file.

It is run by `test_ranks`, as `python ranks_worker.py RANK DIRECTORY`, with the variables that
torchrun sets.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.sharded import whole
from tests.integrations.networks import BATCH, PROBE, Data, network, optimizer
from tests.integrations.trainings import (
    LIGHTNING,
    Job,
    Record,
    hf_trainer,
    lightning_logger,
    lightning_module,
    optional_package,
    quiet_trainer,
    seed,
    state_of,
)


def all_equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def halves() -> Any:
    """The batches of this rank."""
    return torch.utils.data.DataLoader(
        torch.utils.data.Subset(Data(), range(dist.get_rank(), len(Data()), 2)), BATCH // 2
    )


def steps_of(track: sg.Track | None) -> list[int] | None:
    return None if track is None else track.steps


def kept(record: Record) -> list[Any]:
    return [(one.step, one.values, one.weights) for one in record.logged]


def lightning(found: dict[str, Any], directory: Path) -> None:
    """DistributedDataParallel of both namespaces."""
    from sigmascope.integrations.lightning import SignatureCallback

    for namespace in LIGHTNING:
        package = optional_package(namespace)

        def trained(
            callbacks: list[Any], file: Path, record: Record, job: Job, *, resumes: bool = False
        ) -> Any:
            trainer = quiet_trainer(
                namespace,  # noqa: B023
                max_epochs=job.epochs,
                devices=2,
                strategy=package.strategies.DDPStrategy(process_group_backend="gloo"),  # noqa: B023
                callbacks=callbacks,
                use_distributed_sampler=False,
                logger=lightning_logger(namespace, record),  # noqa: B023
            )
            module = lightning_module(namespace)(job.network)  # noqa: B023
            seed()
            trainer.fit(module, halves(), halves(), ckpt_path=file if resumes else None)
            if not resumes:
                trainer.save_checkpoint(file)
            return trainer

        states, wrappers, file = [], [], directory / f"{namespace}.ckpt"
        for watches in (False, True):
            job = Job(network())
            record, callback = Record(job), SignatureCallback(PROBE, every=3, network="net")
            stopping = package.callbacks.EarlyStopping("sigmascope/mean", patience=9)
            looking = package.callbacks.LambdaCallback(
                on_train_start=lambda trainer, _: wrappers.append(type(trainer.strategy.model))  # noqa: B023
            )
            callbacks = [looking, callback, stopping] if watches else []
            trainer = trained(callbacks, file, record, job)
            states.append(state_of(job, trainer.optimizers[0]))
        found[namespace] = {
            "same": all_equal(*states),
            "steps": steps_of(callback.track),
            "logged": kept(record),
            "monitored": float(trainer.callback_metrics["sigmascope/mean"]),
            "wrapper": wrappers[0].__name__,
        }
        again = SignatureCallback(PROBE, every=3, network="net")
        job = Job(network(), epochs=3)
        trained([again], file, Record(job), job, resumes=True)
        found[namespace]["resumed"] = steps_of(again.track)


def shards(found: dict[str, Any], _: Path) -> None:
    """A network in shards of `fully_shard`, by Lightning's strategy for it."""
    from torch.distributed.fsdp import fully_shard

    from sigmascope.integrations.lightning import SignatureCallback

    package = optional_package("lightning.pytorch")
    base = lightning_module("lightning.pytorch")

    class Sharded(base):  # type: ignore[misc,valid-type]
        def configure_model(self) -> None:
            fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

    states = []
    for watches in (False, True):
        job = Job(network(dropout=0.0), epochs=1)
        record, callback = (
            Record(Job(nn.Identity())),
            SignatureCallback(PROBE, every=3, network="net"),
        )
        trainer = quiet_trainer(
            "lightning.pytorch",
            max_epochs=1,
            devices=2,
            strategy=package.strategies.ModelParallelStrategy(
                data_parallel_size=2, tensor_parallel_size=1, process_group_backend="gloo"
            ),
            callbacks=[callback] if watches else [],
            use_distributed_sampler=False,
            logger=lightning_logger("lightning.pytorch", record),
        )
        seed()
        trainer.fit(Sharded(job.network), halves(), halves())
        states.append([whole(one).clone() for one in job.network.state_dict().values()])
    found["shards"] = {
        "same": all_equal(*states),
        "steps": steps_of(callback.track),
        "logged": [one.step for one in record.logged],
        "held": {type(one).__name__ for one in job.network.parameters()},
        "monitored": float(trainer.callback_metrics["sigmascope/mean"]),
        "scores": None if callback.track is None else callback.track.scores,
    }


def accelerated(found: dict[str, Any], directory: Path) -> None:
    """A prepared network of `accelerate`."""
    accelerate = optional_package("accelerate")
    states = []
    for watches in (False, True):
        job = Job(network())
        accelerator = accelerate.Accelerator(cpu=True)
        seed()
        model, used, loader = accelerator.prepare(
            job.network, optimizer(job.network), torch.utils.data.DataLoader(Data(), BATCH // 2)
        )
        monitor = sg.Monitor(model, PROBE, every=3) if watches else None
        if monitor is not None:
            accelerator.register_for_checkpointing(monitor)
        step = 0
        for _ in range(2):
            for batch in loader:
                used.zero_grad()
                accelerator.backward(model(**batch)["loss"])
                used.step()
                step += 1
                if monitor is not None:
                    monitor.step(step)
        states.append(state_of(job, used))
    accelerator.save_state(str(directory / "accelerate"))
    dist.barrier()
    assert monitor is not None
    found["accelerate"] = {
        "same": all_equal(*states),
        "steps": monitor.track.steps,
        "wrapper": type(model).__name__,
    }
    accelerator.load_state(str(directory / "accelerate"))
    found["accelerate"]["resumed"] = monitor.track.steps


def transformers(found: dict[str, Any], directory: Path) -> None:
    """The Trainer of transformers."""
    from sigmascope.integrations.huggingface import SignatureCallback

    states = []
    for watches in (False, True):
        job = Job(network(), directory=directory / "hf")
        record = Record(job)
        seed()
        trainer = hf_trainer(
            job,
            record,
            per_device_train_batch_size=BATCH // 2,
            ddp_backend="gloo",
            ddp_find_unused_parameters=False,
        )
        callback = SignatureCallback(trainer, PROBE, every=3)
        if watches:
            trainer.add_callback(callback)
        trainer.train()
        states.append(state_of(job, trainer.optimizer.optimizer))
    found["huggingface"] = {
        "same": all_equal(*states),
        "steps": steps_of(callback.track),
        "logged": kept(record),
        "wrapper": type(trainer.model_wrapped).__name__,
    }


def torchmetrics(found: dict[str, Any], _: Path) -> None:
    """States of both ranks, added up."""
    tm = optional_package("torchmetrics")
    from sigmascope.integrations.torchmetrics import AffinityScore

    rank = dist.get_rank()
    x = torch.randn(400, 6, generator=torch.Generator().manual_seed(3)) + 30
    y = torch.relu(x - 30)
    one = sg.Moments()
    one.update(x, y)
    mine = [slice(0, 250), slice(250, 400)][rank]  # not the same number
    metric = AffinityScore()
    metric.update(x[mine], y[mine], torch.arange(400)[mine])
    results = {"one": one.score().score, "two": float(metric.compute()), "n": metric.result.n}
    metric.update(x[mine], y[mine], torch.arange(400)[mine])  # the state is its own again
    results["twice"] = float(metric.compute()), metric.result.n
    idle = AffinityScore()
    if rank == 0:
        idle.update(x, y)
        value = idle.compute()
    else:
        with warnings.catch_warnings(action="ignore"):  # before any update
            value = idle.compute()
    results["idle"] = float(value)
    collection = tm.MetricCollection({"a": AffinityScore(), "b": AffinityScore(eps=1.0)})
    step = collection(x[mine], y[mine], torch.arange(400)[mine])
    local = sg.Moments()
    local.update(x[mine], y[mine], torch.arange(400)[mine])
    results["step"] = float(step["a"]), local.score().score
    wide = sg.Moments(eps=1.0)
    wide.update(x, y)
    computed = collection.compute()
    results["collection"] = [float(computed["a"]), float(computed["b"]), wide.score().score]
    found["torchmetrics"] = results


def main(rank: int, directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2
    )
    found: dict[str, Any] = {}
    for scenario in (torchmetrics, shards, lightning, accelerated, transformers):
        begin = time.perf_counter()
        scenario(found, directory)
        print(rank, scenario.__name__, f"{time.perf_counter() - begin:.2f} s", flush=True)
        dist.barrier()
    torch.save(found, directory / f"rank{rank}.pt")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
