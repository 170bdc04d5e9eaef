"""Presets are plain values that options may change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.dissection.settings import FineTuning
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.layer import Stitch
from sigmascope.stitching.settings import PRESETS, Settings, settings_for
from sigmascope.stitching.setup import Task, settings_of
from sigmascope.stitching.trainer import StitchTrainer


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_preset_fits_every_family(preset: str, family: str) -> None:
    assert isinstance(settings_for(preset, family, {}), Settings)


def test_what_is_published() -> None:
    paper = settings_for("paper", "relu-group", {})
    assert (paper.optimizer, paper.rate, paper.momentum, paper.decay) == ("sgd", 1e-3, 0.0, 0.0)
    assert (paper.batch, paper.epochs, paper.head_start, paper.alpha) == (32, 20, 10, 0.1)
    assert paper.select_on == "validation"
    run = {family: settings_for("as-run", family, {}) for family in FAMILIES}
    assert {run[family].rate for family in ("full", "low-rank", "lasso")} == {1e-3}
    assert (run["relu-group"].rate, run["relu-group"].optimizer, run["relu-group"].decay) == (
        1e-2,
        "sgd",
        1e-4,
    )
    assert (run["softsort"].rate, run["softsort"].optimizer) == (1e-2, "adam")
    assert run["full"].select_on == "test"
    for settings in (paper, *run.values()):
        assert (settings.shrinkage, settings.weighing, settings.rounding) == (
            "gradient",
            "softmax",
            "hungarian",
        )
        assert (settings.beta, settings.final_pass) == (0.01, False)


@pytest.mark.parametrize(("given", "expected"), [(None, 0.5), (0.0, 0.0), (0.02, 0.02)])
def test_scales_may_have_their_own_rate(given: float | None, expected: float) -> None:
    settings = Settings(rate=0.5, scale_rate=given, head_start=0)
    trainer = StitchTrainer(
        Stitch("relu-group", 4, "linear", settings=settings),
        nn.Linear(4, 2),
        "relu-group",
        settings,
    )
    trainer.step((torch.randn(8, 4),), torch.arange(8) % 2)
    rates = {group["params"][0].ndim: group["lr"] for group in trainer.optimizer.param_groups}
    assert rates == {2: 0.5, 1: expected}
    assert torch.equal(trainer.stitch.values["scales"], torch.ones(4)) == (given == 0.0)


def test_a_shorter_training_has_a_shorter_head_start() -> None:
    assert settings_for("paper", "relu-group", {"epochs": 5}).head_start == 2
    assert settings_for("paper", "relu-group", {"epochs": 30}).head_start == 10
    assert settings_for("paper", "relu-group", {"epochs": 5, "head_start": 0}).head_start == 0


def test_settings_may_be_given_as_such() -> None:
    given = Settings(rate=0.5, epochs=3, head_start=0)
    assert settings_for(given, "full", {"batch": 7}) == Settings(
        rate=0.5, epochs=3, head_start=0, batch=7
    )


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"epoch": 3}, r"option='epoch' is not a valid choice\. Did you mean 'epochs'"),
        ({"optimizer": "lbfgs"}, "optimizer='lbfgs' is not a valid choice"),
        ({"rate": -1.0}, "rate must be a number >= 0, got -1.0"),
        ({"rate": float("nan")}, "rate must be a number >= 0, got nan"),
        ({"batch": 0}, "batch must be a whole number >= 1, got 0"),
        ({"batch": 2.5}, "batch must be a whole number >= 1, got 2.5"),
        ({"batch": True}, "batch must be a whole number >= 1, got True"),
        ({"pass_batches": 0}, "pass_batches must be a whole number >= 1, got 0"),
        ({"validation": 1.0}, "validation must be a number between 0 and 1, got 1.0"),
        ({"validation": "abc"}, "validation must be a number between 0 and 1, got 'abc'"),
        ({"validation": None}, "validation must be a number between 0 and 1, got None"),
        ({"validation": True}, "validation must be a number between 0 and 1, got True"),
        ({"validation": float("nan")}, "validation must be a number between 0 and 1, got nan"),
        ({"batch_norm_pass": "yes"}, "batch_norm_pass must be True or False or None, got 'yes'"),
        ({"final_pass": None}, "final_pass must be True or False, got None"),
        ({"momentum": 1.0}, "momentum must be a number >= 0 and < 1, got 1.0"),
        ({"shrinkage": "soft"}, "shrinkage='soft' is not a valid choice"),
        ({"weighing": "linear"}, "weighing='linear' is not a valid choice"),
        ({"rounding": "greedy"}, "rounding='greedy' is not a valid choice"),
        ({"beta": -1.0}, "beta must be a number >= 0, got -1.0"),
        (
            {"optimizer": "adam", "shrinkage": "proximal"},
            "shrinkage='proximal' needs the step size of SGD, got optimizer='adam'",
        ),
        ({"epochs": 2, "head_start": 3}, "head_start must be a whole number from 0 to 2, got 3"),
    ],
)
def test_values_that_cannot_be(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(sg.OptionError, match=match):
        settings_for("paper", "full", changes)


@pytest.mark.parametrize("value", ["abc", None, True, float("nan")])
def test_a_share_is_a_number_in_dissections_too(value: Any) -> None:
    with pytest.raises(
        sg.OptionError, match=f"validation must be a number between 0 and 1, got {value!r}"
    ):
        FineTuning(validation=value)


READ = {
    "low-rank": {"rank": 2},
    "lasso": {"strength": 0.1, "shrinkage": "gradient"},
    "relu-group": {
        "alpha": 1.0,
        "regularizer": "rms",
        "projection": "none",
        "beta": 0.1,
        "rounding": "monotone",
    },
    "softsort": {"temperature": 2.0, "weighing": "inverse"},
}
BOTH = {"scale_rate": 0.1, "start": "matched"}  # of the two families with scales


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_takes_what_it_reads_and_nothing_that_only_others_read(family: str) -> None:
    element = torch.eye(2) if family == "fixed" else None
    scaled = set(BOTH) if FAMILIES[family].scales else set()
    assert set(READ.get(family, {})) | scaled == set(FAMILIES[family].options)
    for name, value in () if scaled else BOTH.items():
        with pytest.raises(
            sg.OptionError,
            match=rf"{name}={value!r} is read by family='relu-group' and 'softsort' only",
        ):
            settings_of(Task(family, {name: value}, element), "paper")
    for reader, changes in READ.items():
        for name, value in changes.items():
            task = Task(family, {name: value, "epochs": 3, "head_start": 1}, element)
            if reader == family:
                assert getattr(settings_of(task, "paper"), name) == value
            else:
                with pytest.raises(
                    sg.OptionError, match=rf"{name}={value!r} is read by family='{reader}' only"
                ):
                    settings_of(task, "paper")


def test_settings_as_such_are_for_all_families() -> None:
    given = Settings(rank=3, alpha=2.0, shrinkage="proximal")
    assert settings_of(Task("full"), given).alpha == 2.0
    with pytest.raises(sg.OptionError, match=r"alpha=1\.0 is read by"):
        settings_of(Task("full", {"alpha": 1.0}), given)


def test_an_unknown_preset() -> None:
    with pytest.raises(sg.OptionError, match="preset='papers' is not a valid choice"):
        settings_for("papers", "full", {})


def test_an_earlier_spelling_is_accepted() -> None:
    old: dict[str, Any] = {"regulariser": "rms"}
    settings = Settings(**old)
    assert settings == Settings(regularizer="rms")
    assert replace(settings, rate=0.5).regularizer == "rms"
