"""The same small training in each framework, with and without what watches it.

Each function does a `Job` and returns what is left of it, so that one suite tests them all.
"""

from __future__ import annotations

import importlib
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.catalog.optional import optional
from tests.integrations.networks import BATCH, PROBE, Data, batches, optimizer


@dataclass
class Job:
    """A training.

    Attributes:
        network: which trains.
        wrapped: what the framework is given, with the network inside; the network by default.
        epochs: of 4 steps each, from the beginning of the training.
        options: of the monitor or the callback; None for none.
        probe: what it measures on.
        directory: where a checkpoint is written at the end, if any.
        resumes: whether it goes on from that checkpoint.
    """

    network: nn.Module
    wrapped: nn.Module | None = None
    epochs: int = 2
    options: dict[str, Any] | None = field(default_factory=lambda: {"every": 3})
    probe: Any = field(default_factory=lambda: PROBE)
    directory: Path | None = None
    resumes: bool = False

    @property
    def model(self) -> nn.Module:
        return self.network if self.wrapped is None else self.wrapped


@dataclass
class Logged:
    """Numbers, and the weights at that moment."""

    step: int
    values: dict[str, float]
    weights: dict[str, Tensor]


class Record:
    """What a framework's own logger was given: numbers of sigmascope, and losses."""

    def __init__(self, job: Job) -> None:
        self._network = job.network
        self.logged: list[Logged] = []
        self.losses: list[tuple[int, float]] = []

    def __call__(self, values: Mapping[str, Any], step: int) -> None:
        ours = {name: float(value) for name, value in values.items() if "sigmascope/" in name}
        if ours:
            weights = {name: one.clone() for name, one in self._network.state_dict().items()}
            self.logged.append(Logged(step, ours, weights))
        if "loss" in values:
            self.losses.append((step, float(values["loss"])))


@dataclass
class Done:
    """What is left of a training: all its state, what was logged, and the history."""

    state: list[Tensor]
    record: Record
    track: sg.Track | None


def seed() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)


def state_of(job: Job, used: torch.optim.Optimizer) -> list[Tensor]:
    """Weights, statistics, momentum, and the random numbers that would come next."""
    momentum = [
        value
        for one in used.state_dict()["state"].values()
        for value in one.values()
        if isinstance(value, Tensor)
    ]
    draws = torch.tensor([random.random(), np.random.rand()])
    return [*job.network.state_dict().values(), *momentum, torch.get_rng_state(), draws]


def plain(job: Job) -> Done:
    """A loop of one's own, with a monitor."""
    record, used, first, monitor = Record(job), optimizer(job.model), 0, None
    if job.options is not None:
        monitor = sg.Monitor(job.model, job.probe, log=record, **job.options)
    if job.resumes:
        kept = torch.load(_file(job), weights_only=True)
        job.model.load_state_dict(kept["model"])
        used.load_state_dict(kept["optimizer"])
        first = kept["step"]
        if monitor is not None:
            monitor.load_state_dict(kept["monitor"])
    seed()
    job.model.train()
    step = first
    if monitor is not None and not first:
        monitor.step(0)
    for _ in range(first // 4, job.epochs):
        for batch in batches():
            loss = job.model(**batch)["loss"]
            used.zero_grad()
            loss.backward()
            used.step()
            step += 1
            if monitor is not None:
                monitor.step(step)
            record({"loss": loss.item()}, step)
    if monitor is not None:
        monitor.close()
    if job.directory is not None:
        kept = {"model": job.model.state_dict(), "optimizer": used.state_dict(), "step": step}
        kept |= {} if monitor is None else {"monitor": monitor.state_dict()}
        torch.save(kept, _file(job))
    return Done(state_of(job, used), record, None if monitor is None else monitor.track)


def _file(job: Job) -> Path:
    assert job.directory is not None
    return job.directory / "training.pt"


def with_accelerate(job: Job) -> Done:
    """A loop with `accelerate`: a prepared network, its logger, its checkpoints."""
    accelerate = optional_package("accelerate")
    from accelerate.state import AcceleratorState
    from accelerate.tracking import GeneralTracker

    record = Record(job)

    class Tracker(GeneralTracker):
        name, requires_logging_directory = "record", False
        tracker = None

        def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
            record(values, int(step or 0))

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            pass

    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, log_with=Tracker())
    accelerator.init_trackers("run")
    used: Any
    model, used, loader = accelerator.prepare(job.model, optimizer(job.model), batches())
    monitor = None
    if job.options is not None:
        monitor = sg.Monitor(model, job.probe, log=accelerator, **job.options)
        accelerator.register_for_checkpointing(monitor)
    step = 0
    if job.resumes:
        accelerator.load_state(str(job.directory))
        step = 4 * (job.epochs - 1)
    seed()
    model.train()
    if monitor is not None and not step:
        monitor.step(0)
    for _ in range(step // 4, job.epochs):
        for batch in loader:
            loss = model(**batch)["loss"]
            used.zero_grad()
            accelerator.backward(loss)
            used.step()
            step += 1
            if monitor is not None:
                monitor.step(step)
            accelerator.log({"loss": loss.item()}, step=step)
    if monitor is not None:
        monitor.close()
    if job.directory is not None:
        accelerator.save_state(str(job.directory))
    accelerator.end_training()
    AcceleratorState._reset_state(reset_partial_state=True)
    return Done(state_of(job, used), record, None if monitor is None else monitor.track)


def optional_package(name: str) -> Any:
    """Import a package; if torchvision is one for another torch, it is helped first."""
    optional("torchvision")
    return importlib.import_module(name)


def lightning_module(namespace: str) -> type[Any]:
    """The class of a module to train, in one of the namespaces."""
    package = optional_package(namespace)

    class Lit(package.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
            loss: Tensor = self.net(**batch)["loss"]
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: dict[str, Tensor], _: int) -> None:
            self.log("validation", self.net(**batch)["loss"])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer(self.net)

    return Lit


def quiet_trainer(namespace: str, **options: Any) -> Any:
    """A trainer that shows and writes nothing by itself."""
    package = optional_package(namespace)
    for name in (namespace, namespace.partition(".")[0]):
        logging.getLogger(name).setLevel(logging.WARNING)
    silent = {
        "accelerator": "cpu",
        "devices": 1,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "log_every_n_steps": 1,
        "logger": False,
    }
    return package.Trainer(**{**silent, **options})


def lightning_logger(namespace: str, record: Record) -> Any:
    """A logger of one's own for a trainer."""
    base: Any = optional_package(f"{namespace}.loggers").Logger

    class Recorder(base):  # type: ignore[misc]
        name, version = "record", 0

        def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
            record(metrics, int(step or 0))

        def log_hyperparams(self, *_: Any, **__: Any) -> None:
            pass

    return Recorder()


def in_lightning(namespace: str) -> Callable[[Job], Done]:
    """Lightning, in one of its namespaces."""

    def training(job: Job) -> Done:
        record, module = Record(job), lightning_module(namespace)(job.model)
        from sigmascope.integrations.lightning import SignatureCallback

        callback = None
        if job.options is not None:
            callback = SignatureCallback(job.probe, network="net", **job.options)
        trainer = quiet_trainer(
            namespace,
            max_epochs=job.epochs,
            callbacks=[] if callback is None else [callback],
            logger=lightning_logger(namespace, record),
        )
        file = None if job.directory is None else job.directory / "last.ckpt"
        seed()
        trainer.fit(module, batches(), batches(), ckpt_path=file if job.resumes else None)
        if file is not None and not job.resumes:
            trainer.save_checkpoint(file)
        used = trainer.optimizers[0]
        return Done(state_of(job, used), record, None if callback is None else callback.track)

    return training


def hf_trainer(job: Job, record: Record, **arguments: Any) -> Any:
    """A Trainer of transformers that writes to a record."""
    transformers = optional("transformers")
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)

    class Reporter(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            record(logs, state.global_step)

    silent: dict[str, Any] = {
        "output_dir": str(job.directory or "unused"),
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "lr_scheduler_type": "constant",
        "per_device_train_batch_size": BATCH,
        "per_device_eval_batch_size": BATCH,
        "num_train_epochs": job.epochs,
        "dataloader_pin_memory": False,
        "remove_unused_columns": False,  # by the signature of what is wrapped
    }
    trainer = transformers.Trainer(
        model=job.model,
        args=transformers.TrainingArguments(**{**silent, **arguments}),
        train_dataset=Data(),
        eval_dataset=Data(),
        optimizers=(optimizer(job.model), None),
        callbacks=[Reporter()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def in_transformers(job: Job) -> Done:
    """The Trainer of transformers."""
    record = Record(job)
    seed()
    trainer = hf_trainer(job, record, save_strategy="no" if job.directory is None else "epoch")
    from sigmascope.integrations.huggingface import SignatureCallback

    callback = None
    if job.options is not None:
        callback = SignatureCallback(trainer, job.probe, **job.options)
        trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=job.resumes)
    used = trainer.optimizer.optimizer  # in the wrapper of accelerate
    return Done(state_of(job, used), record, None if callback is None else callback.track)


LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
TRAININGS: dict[str, Callable[[Job], Done]] = {
    "plain loop": plain,
    "accelerate": with_accelerate,
    **{name: in_lightning(name) for name in LIGHTNING},
    "huggingface": in_transformers,
}
CALLBACKS = [name for name in TRAININGS if name not in ("plain loop", "accelerate")]
