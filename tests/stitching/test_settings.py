"""Presets are plain values that options may change."""

from __future__ import annotations

from typing import Any

import pytest

import sigmascope as sg
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.settings import PRESETS, Settings, settings_for


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
    assert (run["relu-group"].rate, run["relu-group"].optimizer, run["relu-group"].decay) == (1e-2, "sgd", 1e-4)
    assert (run["softsort"].rate, run["softsort"].optimizer) == (1e-2, "adam")
    assert run["full"].select_on == "test"


def test_a_shorter_training_has_a_shorter_head_start() -> None:
    assert settings_for("paper", "relu-group", {"epochs": 5}).head_start == 2
    assert settings_for("paper", "relu-group", {"epochs": 30}).head_start == 10
    assert settings_for("paper", "relu-group", {"epochs": 5, "head_start": 0}).head_start == 0


def test_settings_may_be_given_as_such() -> None:
    given = Settings(rate=0.5, epochs=3, head_start=0)
    assert settings_for(given, "full", {"batch": 7}) == Settings(rate=0.5, epochs=3, head_start=0, batch=7)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"epoch": 3}, r"setting='epoch' is not known\. Did you mean 'epochs'"),
        ({"optimizer": "lbfgs"}, "optimizer='lbfgs' is not known"),
        ({"rate": -1.0}, "rate=-1.0 cannot be"),
        ({"rate": float("nan")}, "rate=nan cannot be"),
        ({"batch": 0}, r"batch=0 cannot be. Pass a number that is at least 1"),
        ({"batch": 2.5}, "batch=2.5 is not whole"),
        ({"batch": True}, "batch=True cannot be"),
        ({"pass_batches": 0}, "pass_batches=0 cannot be"),
        ({"validation": 1.0}, "validation=1.0 is no share"),
        ({"batch_norm_pass": "yes"}, "batch_norm_pass='yes' is not known"),
        ({"epochs": 2, "head_start": 3}, "head_start=3 is more than epochs=2"),
    ],
)
def test_values_that_cannot_be(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(sg.OptionError, match=match):
        settings_for("paper", "full", changes)


def test_an_unknown_preset() -> None:
    with pytest.raises(sg.OptionError, match="preset='papers' is not known"):
        settings_for("papers", "full", {})
