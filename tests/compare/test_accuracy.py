"""Fits of accuracy against explicit refits, known polynomials and their laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sigmascope.compare.accuracy import AccuracyFit, fit_accuracy
from sigmascope.compare.regression import regress
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.measure.result import Signature
from tests.compare.made import made

NAMES = tuple("abcdefg")


def networks(count: int = 7, seed: int = 0) -> list[Signature]:
    generator = np.random.default_rng(seed)
    return [
        made(name, generator.random(9), parameters=10**6 * (place + 1))
        for place, name in enumerate(NAMES[:count])
    ]


def accuracies(count: int = 7, seed: int = 1) -> dict[str, float]:
    return dict(
        zip(NAMES, (70 + 10 * np.random.default_rng(seed).random(count)).tolist(), strict=False)
    )


def only(signatures: list[Signature], facts: Any, **options: Any) -> AccuracyFit:
    (fit,) = fit_accuracy(signatures, facts, **options).fits
    return fit


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_r2_and_leave_one_out_are_those_of_explicit_fits(degree: int, scale: float) -> None:
    generator = np.random.default_rng(degree)
    x, y = scale * (1 + generator.random(8)), generator.random(8)
    found = regress(x, y, degree)
    total = np.square(y - y.mean()).sum()
    fitted = np.polynomial.Polynomial.fit(x, y, degree)
    assert np.polynomial.Polynomial(found.coefficients)(x) == pytest.approx(fitted(x), abs=1e-9)
    assert found.r2 == pytest.approx(1 - np.square(y - fitted(x)).sum() / total)
    missed = 0.0
    for left_out in range(8):
        kept = np.arange(8) != left_out
        missed += (
            float(np.polynomial.Polynomial.fit(x[kept], y[kept], degree)(x[left_out]) - y[left_out])
            ** 2
        )
    assert found.r2_loo == pytest.approx(1 - missed / total)
    assert found.r2_loo < found.r2
    assert found.reason == ""


def test_noise_is_predicted_worse_than_by_the_mean() -> None:
    generator = np.random.default_rng(0)
    assert np.mean([regress(*generator.random((2, 6)), 2).r2 for _ in range(100)]) > 0.3
    assert np.mean([regress(*generator.random((2, 6)), 2).r2_loo for _ in range(100)]) < 0


@pytest.mark.parametrize(
    ("x", "y", "degree", "reason"),
    [
        ([1, 2], [1, 3], 1, "2 points; a fit of degree 1 needs at least 3"),
        ([1], [1], 1, "1 point; a fit of degree 1 needs at least 3"),
        ([], [], 1, "0 points; a fit of degree 1 needs at least 3"),
        ([1, 2, 3], [1, 3, 4], 2, "3 points; a fit of degree 2 needs at least 4"),
        ([0.3, 0.1 + 0.2, 0.3], [1, 3, 4], 1, "the predictor is the same for all"),
        (
            [1, 1, 2, 2],
            [1, 3, 4, 5],
            2,
            "the predictor takes 2 values; a fit of degree 2 needs at least 3",
        ),
        ([1, 2, 3], [4, 4, 4], 1, "the accuracy is the same for all"),
    ],
)
def test_too_few_points_give_a_reason(
    x: list[float], y: list[float], degree: int, reason: str
) -> None:
    found = regress(np.array(x, dtype=float), np.array(y, dtype=float), degree)
    assert (found.coefficients, found.reason) == ((), reason)
    assert math.isnan(found.r2)
    assert math.isnan(found.r2_loo)


def test_a_point_that_decides_alone_cannot_be_left_out() -> None:
    found = regress(np.array([1.0, 1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0, 5.0]), 1)
    assert found.coefficients == pytest.approx((-1, 3))
    assert found.r2 == pytest.approx(1 - 2 / 8.75)
    assert math.isnan(found.r2_loo)
    assert found.reason == "one point decides the fit alone, so none is left without it"


@pytest.mark.parametrize("on", ["min", "median", "max", "mean", "std", "spread", "iqr"])
def test_a_law_of_a_statistic_is_found(on: str) -> None:
    signatures = networks()
    facts = {one.name: 50 + 20 * one.summary()[on] for one in signatures}
    fit = only(signatures, facts, on=on)
    assert fit.coefficients == pytest.approx((50, 20))
    assert (fit.r2, fit.r2_loo) == pytest.approx((1, 1))
    assert (fit.family, fit.on, fit.n, fit.tried, fit.degree) == ("all", on, 7, 1, 1)
    assert fit.names == NAMES
    assert fit.predict(np.array([0.0, 2.0])) == pytest.approx([50, 90])


def test_a_parabola_needs_degree_two() -> None:
    signatures = networks()
    facts = {one.name: {"accuracy": (one.parameters / 1e6 - 4) ** 2 + 60} for one in signatures}
    assert only(signatures, facts, on="parameters").r2 == pytest.approx(0, abs=1e-9)
    fit = only(signatures, facts, on="parameters", degree=2)
    assert fit.r2_loo == pytest.approx(1)
    assert fit.coefficients == pytest.approx((76, -8e-6, 1e-12))


def test_the_best_has_the_highest_r2_of_six() -> None:
    signatures, facts = networks(), accuracies()
    each = {
        on: only(signatures, facts, on=on).r2
        for on in ("min", "max", "mean", "median", "std", "spread")
    }
    best = only(signatures, facts)
    assert (best.on, best.r2) == (max(each, key=lambda on: each[on]), max(each.values()))
    assert best.tried == 6


def test_predictors_that_cannot_be_fitted_were_not_tried() -> None:
    signatures = [
        made(name, [0.1, 0.1 + 0.1 * place, 0.9]) for place, name in enumerate(NAMES[:5], 1)
    ]
    best = only(signatures, accuracies())
    assert best.tried == 3  # mean, median and std; min, max and spread are constant
    assert best.on in ("mean", "median", "std")


@pytest.mark.parametrize("on", ["parameters", "flops", "depth"])
def test_sizes_come_from_the_facts(on: str) -> None:
    signatures = networks()
    facts = {
        name: {"accuracy": 60.0 + place, on: 1000 * place, "weights": "IMAGENET1K_V1"}
        for place, name in enumerate(NAMES)
    }
    fit = only(signatures, facts, on=on)
    assert fit.x.tolist() == [1000 * place for place in range(7)]
    assert fit.coefficients == pytest.approx((60, 1e-3))


def test_parameters_default_to_those_of_the_signature() -> None:
    facts = {name: {"accuracy": value, "parameters": None} for name, value in accuracies().items()}
    assert only(networks(), facts, on="parameters").x.tolist() == [
        10**6 * place for place in range(1, 8)
    ]
    assert only(networks(), accuracies(), on="parameters").x.tolist() == [
        10**6 * place for place in range(1, 8)
    ]


def test_networks_of_which_something_is_unknown_are_left_out_with_a_reason() -> None:
    facts: dict[str, Any] = {
        name: {"accuracy": value, "flops": 1e9 * value} for name, value in accuracies().items()
    }
    facts["a"]["flops"] = None
    facts["b"] = {"flops": 3.0}
    facts["c"] = math.nan
    del facts["d"]
    found = fit_accuracy(networks(), facts, on="flops")
    assert found.left_out == {
        "a": "flops unknown",
        "b": "accuracy unknown",
        "c": "accuracy unknown",
        "d": "accuracy unknown",
    }
    assert found.fits[0].names == ("e", "f", "g")
    assert "Left out: a: flops unknown." in repr(found)


def test_every_family_has_its_own_fit() -> None:
    signatures, facts = networks(), accuracies()
    families = dict(zip(NAMES, ["first"] * 4 + ["second"] * 2, strict=False))
    found = fit_accuracy(signatures, facts, on="mean", families=families)
    first, second = found.fits
    alone = only(signatures[:4], facts, on="mean")
    assert (first.family, first.r2, first.r2_loo) == ("first", alone.r2, alone.r2_loo)
    assert (second.family, second.n, second.tried) == ("second", 2, 0)
    assert second.reason == "2 points; a fit of degree 1 needs at least 3"
    assert found.left_out == {"g": "it has no family"}
    with pytest.raises(
        InputError, match=r"There is no fit for second: 2 points.*Draw its points alone"
    ):
        second.predict(np.array([0.5]))


def test_it_prints_n_and_how_many_were_tried() -> None:
    found = fit_accuracy(
        networks(),
        accuracies(),
        families=dict(zip(NAMES, ["first"] * 5 + ["second"] * 2, strict=True)),
    )
    lines = repr(found).splitlines()
    assert lines[2].split() == ["family", "on", "degree", "n", "tried", "r2", "r2_loo"]
    fit = found.fits[0]
    assert lines[3].split() == [
        "first",
        fit.on,
        "1",
        "5",
        "6",
        f"{fit.r2:.4f}",
        f"{fit.r2_loo:.4f}",
    ]
    assert lines[4].split()[3:] == ["2", "0", "–", "–"]
    assert lines[-1] == "second: 2 points; a fit of degree 1 needs at least 3."


def test_the_frame_holds_the_fits() -> None:
    frame = fit_accuracy(networks(), accuracies()).to_frame()
    assert frame.columns.tolist() == [
        "family",
        "on",
        "degree",
        "n",
        "tried",
        "r2",
        "r2_loo",
        "coefficients",
        "reason",
    ]
    assert frame.loc[0, "n"] == 7


def test_repeated_names_share_their_facts() -> None:
    signatures = [made("a", scores) for scores in np.random.default_rng(0).random((4, 5))]
    fit = only(signatures, {"a": 70.0, "a (2)": 71.0}, on="mean")
    assert fit.y.tolist() == [70, 71, 70, 70]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (None, r"facts must be a mapping such as .*, got NoneType"),
        ([70.0], r"facts must be a mapping such as .*, got list"),
        ({"a": "70"}, r"The accuracy of a is '70'\. Pass a number, or None"),
        ({"a": True}, r"The accuracy of a is True\. Pass a number, or None"),
        (
            {"a": {"accuracy": 70, "depth": "deep"}},
            r"The depth of a is 'deep'\. Pass a number, or None",
        ),
    ],
)
def test_other_facts_are_refused(facts: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        fit_accuracy(networks(), facts)


def test_other_options_are_refused() -> None:
    with pytest.raises(
        OptionError,
        match=r"on='meen' is not a valid choice\. Did you mean 'mean'\?.*'flops', 'depth'",
    ):
        fit_accuracy(networks(), accuracies(), on="meen")
    for degree in (0, 3, "1"):
        with pytest.raises(OptionError, match=r"degree must be a whole number from 1 to 2"):
            fit_accuracy(networks(), accuracies(), degree=degree)  # type: ignore[arg-type]
