"""The types of choices are the tables of the library, and old names lead to new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sigmascope import choices
from sigmascope.capture.pools import POOLS
from sigmascope.checks import OLD_NAMES, check_choice, options_from
from sigmascope.choices import OLD_VALUES, values_of
from sigmascope.errors import OptionError
from sigmascope.maths.covariance import ESTIMATORS
from sigmascope.measure.companions import METRICS
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.settings import PRESETS
from sigmascope.store.kept import WITH_OLD_VALUES
from tests.cli.running import run

TABLES = {
    "Covariance": ESTIMATORS,
    "Pool": POOLS,
    "Metric": METRICS,
    "Family": FAMILIES,
    "Preset": PRESETS,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_type_lists_the_rows_of_its_table(name: str) -> None:
    assert values_of(getattr(choices, name)) == tuple(TABLES[name])


def test_all_metrics_are_the_metrics_or_all() -> None:
    assert values_of(choices.MetricChoice) == ("all", *values_of(choices.Metric))


def test_old_values_are_choices_under_their_new_names() -> None:
    literals: list[Any] = [value for name, value in vars(choices).items() if name[0].isupper()]
    values = {
        word
        for literal in literals
        if isinstance(values_of(literal), tuple)
        for word in values_of(literal)
    }
    assert set(OLD_VALUES.values()) <= values
    assert not values & OLD_VALUES.keys()
    for old, new in OLD_VALUES.items():
        assert check_choice("pool", old, [new]) == new


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure", "a/b", "--data", "nothing", "--pool", "released"], "nothing"),
        (["similarity", "a/b", "a/c", "--normaliser", "live"], "a/b"),
        (["similarity", "a/b", "a/c", "--normalise", "none"], "a/b"),
        (["stitch", "a/b", "a/c", "--at", "relu", "--data", "cifar10"], "a/b"),
        (["stitch", "a/b", "a/c", "--site", "relu", "--data", "cifar10"], "a/b"),
    ],
)
def test_what_was_typed_before_is_understood(arguments: list[str], message: str) -> None:
    """It fails only for the names of networks and data, which exist nowhere."""
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr or "'a'" in result.stderr


def test_old_names_are_not_shown() -> None:
    for command in ("measure", "similarity", "stitch"):
        shown = run(command, "--help").stdout
        assert not any(f"--{old}" in shown for old in OLD_NAMES if old != "at")
        assert "released" not in shown
        assert "--at " not in shown


@dataclass(frozen=True)
class Some:
    normalize: str = "none"


def test_an_old_option_needs_its_new_one() -> None:
    assert options_from(Some, {"normalise": "all"}) == Some("all")
    with pytest.raises(OptionError, match=r"^normalise and normalize are two names of one option"):
        options_from(Some, {"normalise": "all", "normalize": "none"})
    for given in ({"at": "3"}, {"at": "3", "site": "3"}):
        with pytest.raises(OptionError, match=r"^option='at' is not a valid choice"):
            options_from(Some, given)


def test_old_values_belong_to_these_options() -> None:
    hints = {"pool": choices.Pool, "degenerate": choices.Degenerate}
    assert hints.keys() == WITH_OLD_VALUES
    literals = [value for name, value in vars(choices).items() if name[0].isupper()]
    literals = [one for one in literals if one not in (choices.Estimator, choices.ScoreKind)]
    new = {*OLD_VALUES.values()}
    assert [one for one in literals if new & {*(values_of(one) or ())}] == [*hints.values()][::-1]
