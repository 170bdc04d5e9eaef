"""What may be compared: lists of signatures with scores, by whatever names."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.compare.accuracy import fit_accuracy
from sigmascope.compare.correlation import correlations
from sigmascope.compare.density import densities
from sigmascope.compare.distances import distances
from sigmascope.compare.networks import checked_networks, families_of
from sigmascope.compare.statistics import statistics
from sigmascope.errors import InputError, InputTypeError, MissingExtraError, OptionError
from sigmascope.measure.options import Options
from tests.compare.made import OPTIONS, made, many, populated

METRICS = {"cka": [0.1, 0.5, 0.4, 0.9]}
ONE = made("one", [0.2, 0.4, 0.9, 0.7], METRICS)
# Every function of the package, with what it needs besides the signatures.
COMPARISONS: dict[str, Callable[..., Any]] = {
    "statistics": statistics,
    "distances": distances,
    "densities": densities,
    "correlations": correlations,
    "fit_accuracy": lambda signatures, **how: fit_accuracy(
        signatures, {"one": 70.0, "two": 75.0}, **how
    ),
}
each_comparison = pytest.mark.parametrize("compare", COMPARISONS.values(), ids=COMPARISONS)


def test_made_signatures_could_have_been_measured(tmp_path: Path) -> None:
    assert Options(**dataclasses.asdict(OPTIONS)) == OPTIONS
    signature = made("made", [0.5, math.nan], {"cka": [0.5, math.nan]})
    assert repr(sg.load(signature.save(tmp_path / "made.json"))) == repr(signature)
    assert [site.name for site in made("made", [0.5] * 3).sites] == [
        "layer0.relu",
        "layer0.relu#1",
        "layer1.relu",
    ]
    assert made("named", [0.5], paths=["stem"]).sites[0].path == "stem"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (ONE, InputTypeError, r"signatures is a single Signature\. Pass a list: \[signature\]"),
        ({"one": ONE}, InputTypeError, r"signatures is a dict\. Pass a list or tuple"),
        (
            (one for one in [ONE]),
            InputTypeError,
            r"signatures is a generator\. Pass a list or tuple",
        ),
        (None, InputTypeError, r"signatures is a NoneType\. Pass a list or tuple"),
        (
            [ONE, "runs/two.json"],
            InputTypeError,
            r"Item 1 of signatures is a str, not a Signature.*sigmascope\.load",
        ),
        (
            [ONE.scores],
            InputTypeError,
            r"Item 0 of signatures is a ndarray, not a Signature.*sigmascope\.signature",
        ),
        ("one", InputTypeError, r"Item 0 of signatures is a str"),
        ([], InputError, r"There are no signatures\. Pass at least one"),
        (
            [ONE, made("dead", [math.nan] * 2)],
            InputError,
            r"The signature of dead has no score at all\. Leave it out",
        ),
        (
            [ONE, made("empty", [])],
            InputError,
            r"The signature of empty has no score at all\. Leave it out",
        ),
    ],
)
@each_comparison
def test_anything_else_is_refused(
    compare: Callable[..., Any], given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        compare(given)


def test_a_list_and_a_tuple_are_welcome() -> None:
    assert repr(statistics([ONE])) == repr(statistics((ONE,)))


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        (["a", "b", "c"], ("a", "b", "c")),
        (["a", "a", "a"], ("a", "a (2)", "a (3)")),
        (["a", "a", "a (2)"], ("a", "a (3)", "a (2)")),
        (["a (2)", "a", "a"], ("a (2)", "a", "a (3)")),
        (["", ""], ("", " (2)")),
    ],
)
def test_names_become_unique(names: list[str], unique: tuple[str, ...]) -> None:
    assert checked_networks([made(name, [0.5]) for name in names]).names == unique


def test_sites_without_a_score_are_dropped() -> None:
    (curve,) = checked_networks([made("gap", [0.5, math.nan, 0.7])]).curves
    assert curve.tolist() == [0.5, 0.7]


def test_a_table_is_read_by_the_unique_name_and_then_by_the_given_one() -> None:
    networks = checked_networks([made("a", [0.5]), made("a", [0.6]), made("b", [0.7])])
    assert networks.look_up({"a": 1, "a (2)": 2}) == [1, 2, None]
    assert networks.look_up({"a": 1}) == [1, 1, None]


def test_families() -> None:
    networks = checked_networks([made("a", [0.5]), made("b", [0.6])])
    assert families_of(networks, None) == ["all", "all"]
    assert families_of(networks, {"b": "second"}) == ["", "second"]
    with pytest.raises(
        InputError, match=r"families names none of the networks: a, b\. Use their names as keys"
    ):
        families_of(networks, {"c": "third"})
    with pytest.raises(InputTypeError, match=r"families must be a mapping .* got list"):
        families_of(networks, ["first", "second"])  # type: ignore[arg-type]


@each_comparison
def test_every_result_prints_and_becomes_a_frame(compare: Callable[..., Any]) -> None:
    result = compare([ONE, made("two", [0.3, 0.1, 0.8, 0.5], METRICS)])
    assert dataclasses.is_dataclass(result)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign"):
        result.names = ()
    assert all(line == line.rstrip() for line in repr(result).splitlines())
    assert len(result.to_frame())


@each_comparison
def test_without_pandas_there_is_no_frame(
    compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = compare([ONE])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        MissingExtraError, match=r"to_frame needs pandas: pip install 'sigmascope\[analysis\]'"
    ):
        result.to_frame()


def test_a_hostile_name_stays_on_its_line() -> None:
    name = "evil\n\x1b[31mred\u202e" + "x" * 300
    text = repr(statistics([made(name, [0.5]), ONE]))
    assert len(text.splitlines()) == 3
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) < 128


def test_many_are_many() -> None:
    networks = checked_networks(many())
    lengths = [len(curve) for curve in networks.curves]
    assert len(networks.names) == 60
    assert (min(lengths) >= 50, max(lengths) <= 260, len(set(lengths)) > 30) == (True, True, True)
    assert all(np.ptp(curve) > 0.05 for curve in networks.curves)


@each_comparison
def test_by_population_is_the_comparison_of_population_scores(compare: Callable[..., Any]) -> None:
    """Published scores that equal the population scores of other signatures compare alike."""
    generator = np.random.default_rng(0)
    metrics = {"cka": generator.random(6)}
    two = [made(name, generator.random(6), metrics) for name in ("one", "two")]
    shifted = [made(one.name, one.scores - 0.05 * one.scores**2, metrics) for one in two]
    both = [
        dataclasses.replace(
            populated(one),
            sites=tuple(
                dataclasses.replace(site, population=score)
                for site, score in zip(populated(one).sites, other.scores.tolist(), strict=True)
            ),
        )
        for one, other in zip(two, shifted, strict=True)
    ]
    wanted = compare(shifted).to_dict()
    found = compare(both, by="population").to_dict()
    assert {key: found[key] for key in wanted} == pytest.approx(wanted, nan_ok=True)
    assert compare(both).to_dict() == pytest.approx(compare(two).to_dict(), nan_ok=True)
    with pytest.raises(OptionError, match=r"by='population', but one was measured with estimator="):
        compare(two, by="population")
    with pytest.raises(OptionError, match="by='best' is not a valid choice"):
        compare(two, by="best")


def population_only(name: str) -> sg.Signature:
    found = populated(made(name, [0.5, 0.6]))
    return dataclasses.replace(
        found,
        options=dataclasses.replace(found.options, estimator="population"),
        sites=tuple(dataclasses.replace(site, score=math.nan) for site in found.sites),
    )


def test_with_one_estimator_alone_it_is_used() -> None:
    networks = checked_networks([population_only("a"), populated(made("b", [0.3, 0.4]))])
    assert networks.by == "population"
    assert [curve.tolist() for curve in networks.curves] == [
        pytest.approx([0.48, 0.58]),
        pytest.approx([0.28, 0.38]),
    ]
    assert checked_networks([ONE, populated(ONE)]).by == "published"


def test_published_and_population_scores_are_not_mixed() -> None:
    with pytest.raises(InputError, match="one has published scores only and b population scores"):
        checked_networks([populated(ONE), population_only("b"), ONE])
