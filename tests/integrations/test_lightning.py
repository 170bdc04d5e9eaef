"""What only Lightning has: two namespaces, numbers to monitor, a sanity check, several batches."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import sigmascope as sg
from tests.integrations.networks import PROBE, batches, network
from tests.integrations.trainings import (
    LIGHTNING,
    Job,
    Record,
    lightning_logger,
    lightning_module,
    optional_package,
    quiet_trainer,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_data"),
]
BOTH = pytest.mark.parametrize("namespace", LIGHTNING)
FIRST = LIGHTNING[0]


def callback(**options: Any) -> Any:
    from sigmascope.integrations.lightning import SignatureCallback

    return SignatureCallback(PROBE, **{"every": 2, "network": "net", **options})


def module(namespace: str = FIRST) -> Any:
    return lightning_module(namespace)(network())


@BOTH
def test_a_callback_is_one_of_both_namespaces(namespace: str) -> None:
    one = callback()
    assert isinstance(one, optional_package(namespace).Callback)
    trainer = quiet_trainer(namespace, max_epochs=1, callbacks=one)  # not in a list
    assert trainer.callbacks == [one]
    trainer.fit(module(namespace), batches())
    assert one.track.steps == [0, 2, 4]
    fresh = pickle.loads(pickle.dumps(callback()))
    fresh.load_state_dict(one.state_dict())
    assert fresh.state_dict() == one.state_dict()


@BOTH
def test_other_callbacks_monitor_the_numbers(namespace: str, tmp_path: Path) -> None:
    callbacks = optional_package(namespace).callbacks
    one = callback()
    keeping = callbacks.ModelCheckpoint(tmp_path, monitor="sigmascope/mean", mode="min")
    stopping = callbacks.EarlyStopping("sigmascope/mean", mode="max", patience=1)
    trainer = quiet_trainer(
        namespace, max_epochs=9, callbacks=[keeping, stopping, one], enable_checkpointing=True
    )
    trainer.fit(module(namespace), batches(), batches())
    means = one.track.scores.mean(axis=1)
    assert trainer.current_epoch < 9  # it stopped when the mean fell
    assert float(trainer.callback_metrics["sigmascope/mean"]) == pytest.approx(means[-1], rel=1e-6)
    assert float(keeping.best_model_score) == pytest.approx(means[::2][1:].min(), rel=1e-6)
    kept = torch.load(keeping.best_model_path, weights_only=True)["callbacks"]
    assert "SignatureCallback(name='sigmascope')" in kept


@pytest.mark.parametrize("validates", [False, True])
def test_at_evaluations_the_trainer_logs(validates: bool) -> None:
    job = Job(network())
    record, one = Record(job), callback(every="evaluation")
    trainer = quiet_trainer(
        FIRST,
        max_epochs=4,
        check_val_every_n_epoch=2,
        num_sanity_val_steps=2,
        limit_val_batches=None if validates else 0,
        callbacks=[one],
        logger=lightning_logger(FIRST, record),
    )
    trainer.fit(lightning_module(FIRST)(job.network), batches(), batches())
    assert one.track.steps == [4, 8, 12, 16]
    assert len(record.logged) == 4
    means = [entry.values["sigmascope/mean"] for entry in record.logged]
    assert means == pytest.approx(one.track.scores.mean(axis=1).tolist(), rel=1e-6)
    trainer.validate(lightning_module(FIRST)(job.network), batches(), verbose=False)
    assert one.track.steps == [4, 8, 12, 16]


def test_steps_of_several_batches_are_measured_once() -> None:
    one = callback(every=1)
    trainer = quiet_trainer(FIRST, max_epochs=2, callbacks=[one], accumulate_grad_batches=2)
    trainer.fit(module(), batches())
    assert one.track.steps == [0, 1, 2, 3, 4]
    trainer = quiet_trainer(FIRST, fast_dev_run=2, callbacks=[one])
    trainer.fit(module(), batches())
    assert one.track.steps == [0, 1, 2]  # another training begins at 0


def test_two_callbacks_have_two_names() -> None:
    some = [callback(sites="relu", name="encoder"), callback(sites="tanh", name="head/")]
    job = Job(network())
    trainer = quiet_trainer(FIRST, max_epochs=1, callbacks=some)
    trainer.fit(lightning_module(FIRST)(job.network), batches(), batches())
    found = {name for name in trainer.callback_metrics if name.endswith("/mean")}
    assert found == {"encoder/mean", "head/mean"}
    with pytest.raises(RuntimeError, match="state_key` must be unique"):
        quiet_trainer(FIRST, callbacks=[callback(), callback()])


def test_a_figure_for_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loggers = optional_package(FIRST).loggers
    logger = loggers.TensorBoardLogger(tmp_path, name="run", version="")
    trainer = quiet_trainer(
        FIRST, max_epochs=1, callbacks=[callback(every="evaluation")], logger=logger
    )
    trainer.fit(module(), batches(), batches())
    logger.finalize("success")
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    assert len(events.Images("sigmascope/track")) == 1
    assert len(events.Scalars("sigmascope/mean")) == 1


def test_an_exception_is_noted_and_passed_on() -> None:
    one, broken = callback(), module()

    def fails(*_: Any) -> None:
        raise OSError("no more data")

    broken.on_train_epoch_end = fails
    trainer = quiet_trainer(FIRST, max_epochs=2, callbacks=[one])
    with pytest.raises(OSError, match="no more data"):
        trainer.fit(broken, batches())
    assert one.track.steps == [0, 2, 4]
    assert one.track.ended == "stopped by OSError"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (None, r"Lit has no forward\. Define one, or pass network=…, .*: net\."),
        ("body", r"network='body' is not a module of Lit\. Its modules are net\."),
    ],
)
def test_a_module_that_cannot_be_called(path: str | None, text: str) -> None:
    trainer = quiet_trainer(FIRST, max_epochs=1, callbacks=[callback(network=path)])
    with pytest.warns(sg.TrainingWarning, match=text):
        trainer.fit(module(), batches())
    assert trainer.global_step == 4
    trainer = quiet_trainer(FIRST, max_epochs=1, callbacks=[callback(network=path, errors="raise")])
    with pytest.raises(sg.NetworkError, match=text):
        trainer.fit(module(), batches())


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"every": "often"}, sg.OptionError, "a number of steps, 'auto' or 'evaluation'"),
        ({"every": 0}, sg.OptionError, "every must be"),
        ({"errors": "ignore"}, sg.OptionError, "errors"),
        ({"name": "/"}, sg.OptionError, "name must be a text"),
        ({"sampels": "batch"}, sg.OptionError, "samples"),
        ({"log": 3}, sg.InputTypeError, "got int"),
    ],
)
def test_bad_options_are_told_at_once(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        callback(**options)
