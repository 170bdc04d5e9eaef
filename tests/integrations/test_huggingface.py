"""What only the Trainer of transformers has: evaluations at any time, wishes to log, adapters."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sigmascope as sg
from sigmascope.integrations.huggingface import without_adapters
from tests.integrations.networks import PROBE, Adapted, network
from tests.integrations.trainings import Job, Record, hf_trainer

pytestmark = pytest.mark.slow


def watched(job: Job, record: Record, *, every: int | str, **arguments: Any) -> tuple[Any, Any]:
    from sigmascope.integrations.huggingface import SignatureCallback

    trainer = hf_trainer(job, record, **arguments)
    callback = SignatureCallback(trainer, PROBE, every=every)
    trainer.add_callback(callback)
    return trainer, callback


def test_an_evaluation_may_come_before_the_training() -> None:
    job = Job(network())
    record = Record(job)
    trainer, callback = watched(job, record, every="evaluation", eval_strategy="epoch")
    trainer.evaluate()
    assert callback.track.steps == [0]
    trainer.train()
    trainer.evaluate()  # of weights that were measured
    assert callback.track.steps == [0, 4, 8]
    assert [one.step for one in record.logged] == [0, 4, 8]
    assert [entry["step"] for entry in trainer.state.log_history if "eval_loss" in entry] == [
        4, 8, 8
    ]  # fmt: skip


def test_without_evaluations_epochs_are_measured() -> None:
    job = Job(network())
    record = Record(job)
    trainer, callback = watched(job, record, every="evaluation")
    trainer.train()
    assert callback.track.steps == [one.step for one in record.logged] == [4, 8]


def test_losses_are_logged_beside(tmp_path: Path) -> None:
    """`trainer.log` takes back the wish to log, which another callback has uttered."""
    job = Job(network(), directory=tmp_path)
    record = Record(job)
    trainer, _ = watched(job, record, every=2, logging_steps=2, save_strategy="epoch")
    trainer.train()
    assert [step for step, _ in record.losses] == [2, 4, 6, 8]
    assert [one.step for one in record.logged] == [0, 2, 4, 6, 8]
    kept = json.loads((tmp_path / "checkpoint-4" / "trainer_state.json").read_text())
    history = kept["stateful_callbacks"]["SignatureCallback(name='sigmascope')"]["attributes"]
    assert [entry["step"] for entry in history["track"]["entries"]] == [0, 2, 4]


def test_adapters_are_looked_through() -> None:
    inside = network()
    assert without_adapters(Adapted(inside)) is inside
    assert without_adapters(inside) is inside
    prompts: Any = Adapted(inside)
    prompts.active_peft_config = SimpleNamespace(is_prompt_learning=True)
    assert without_adapters(prompts) is prompts


def test_names_are_those_of_the_network_inside() -> None:
    inside = network()
    job = Job(inside, wrapped=Adapted(inside), epochs=1)
    trainer, callback = watched(job, Record(job), every=4)
    trainer.train()
    assert callback.track.sites == ["body.2", "head.1"]


def test_bad_options_are_told_at_once() -> None:
    from sigmascope.integrations.huggingface import SignatureCallback

    with pytest.raises(sg.OptionError, match="a number of steps, 'auto' or 'evaluation'"):
        SignatureCallback(None, PROBE, every="epoch")
    with pytest.raises(sg.InputError, match="the probe is empty"):
        SignatureCallback(None, [])
