"""The items that are exact: each runs, is judged by a rule that can fail, and draws its data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sigmascope_papers.item import FAILS, HOLDS, WEAKLY, Check, overall
from sigmascope_papers.nonlinearity import fig8, fig9
from sigmascope_papers.nonlinearity.functions import PARTS, closed_forms, population_score
from sigmascope_papers.nonlinearity.redshift import (
    SEEDS,
    SHIFT,
    RandomNetwork,
    measure_networks,
    published_text,
)
from sigmascope_papers.setting import Setting
from sigmascope_papers.table import item

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "reproduction.json").read_text())


def verdicts(checks: Sequence[Check]) -> dict[str, str]:
    found = {check.claim: check.verdict for check in checks}
    assert len(found) == len(checks)  # no two claims of one name
    return found


def failing(checks: Sequence[Check]) -> set[str]:
    return {claim for claim, verdict in verdicts(checks).items() if verdict == FAILS}


# Figure 2


@pytest.mark.parametrize("name", ["fig2a", "fig2b", "fig2c"])
def test_figure_2_holds_and_any_wrong_score_is_noticed(name: str) -> None:
    figure = item(name)
    cases = figure.measure(Setting())
    assert set(verdicts(figure.judge(cases)).values()) == {HOLDS}
    for key, case in cases.items():
        if math.isfinite(case.score):
            assert failing(figure.judge(cases | {key: replace(case, score=case.score - 0.2)}))
    broken = {
        key: replace(case, score=math.nan) if math.isfinite(case.score) else case
        for key, case in cases.items()
    }
    assert overall(figure.judge(broken)) == FAILS


def test_figure_2a_has_no_score_for_a_constant_output() -> None:
    cases = item("fig2a").measure(Setting())
    assert [mean for mean, case in cases.items() if not math.isfinite(case.score)] == [
        m for m in cases if m < -2
    ]


def test_figure_2c_is_golden_and_near_its_closed_form() -> None:
    cases = item("fig2c").measure(Setting())
    for degree, printed in zip(
        GOLDEN["figure_2c"]["degrees"], GOLDEN["figure_2c"]["printed"], strict=True
    ):
        assert cases[degree].score == pytest.approx(printed, abs=0.005)
        assert cases[degree].score == pytest.approx(population_score(degree), abs=1e-3)
    assert abs(population_score(3) - population_score(5)) > 0.1


@pytest.mark.parametrize("name", ["fig2a", "fig2b", "fig2c"])
def test_figure_2_draws_functions_and_affine_maps(name: str) -> None:
    cases = item(name).measure(Setting())
    (drawn,) = item(name).draw(cases).values()
    first = next(
        axes for axes in drawn.axes if "output $\\sigma(x)$" in axes.get_legend_handles_labels()[1]
    )
    output, mapped = first.lines[:2]
    shown = [
        row
        for row in drawn.table
        if row["panel"] == next(iter(row["panel"] for row in drawn.table))
    ]
    assert len(shown) == 1000
    order = np.argsort([row["x"] for row in shown])
    np.testing.assert_array_equal(output.get_ydata(), np.array([row["y"] for row in shown])[order])
    np.testing.assert_array_equal(
        mapped.get_ydata(), np.array([row["mapped"] for row in shown])[order]
    )
    slopes = np.diff(mapped.get_ydata()) / np.diff(mapped.get_xdata())
    assert np.ptp(slopes) < 1e-3 * abs(slopes.mean())  # it is affine


# Figure 3

FIGURE_3 = item("fig3")


@pytest.mark.parametrize(("high", "low", "score"), GOLDEN["relu_uniform"])
def test_the_closed_form_is_golden(high: float, low: float, score: float) -> None:
    assert float(closed_forms(np.array(low), np.array(high))["score"]) == pytest.approx(
        score, abs=1e-9
    )


def test_figure_3_holds_and_fails_for_a_wrong_formula_or_measurement() -> None:
    parts = FIGURE_3.measure(Setting())
    assert set(verdicts(FIGURE_3.judge(parts)).values()) == {HOLDS}
    wrong = replace(parts, formula=parts.formula | {"bound": parts.formula["bound"] / math.sqrt(2)})
    assert failing(FIGURE_3.judge(wrong)) == {"bound, as measured"}
    flat = np.full_like(parts.shifts, 0.5)
    assert "the score nears 0 only as all inputs become negative" in failing(
        FIGURE_3.judge(replace(parts, measured=parts.measured | {"score": flat}))
    )
    skewed = replace(
        parts, measured=parts.measured | {"distance": parts.measured["bound"], "bound": flat}
    )
    assert {"the distance is roughly symmetric", "the asymmetry is that of the bound"} <= failing(
        FIGURE_3.judge(skewed)
    )


def test_figure_3_draws_both() -> None:
    parts = FIGURE_3.measure(Setting())
    (drawn,) = FIGURE_3.draw(parts).values()
    for axes, name in zip(drawn.axes, PARTS, strict=True):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), parts.formula[name])
        assert set(axes.lines[1].get_ydata()) <= set(parts.measured[name])
    assert len(drawn.table) == 3 * len(parts.shifts)


# Figure 4

FIGURE_4A, FIGURE_4B = item("fig4a"), item("fig4b")


@pytest.fixture(scope="module")
def networks() -> dict[str, list[RandomNetwork]]:
    return {"A": measure_networks(0.0), "B": measure_networks(SHIFT)}


def test_the_seeds_are_those_of_the_notebook() -> None:
    generator = np.random.RandomState(12)
    generator.randint(0, 10**6, 5)
    assert tuple(generator.randint(0, 10**6, 5)) == SEEDS


def test_networks_are_golden(networks: dict[str, list[RandomNetwork]]) -> None:
    names = {"relu": "ReLU", "tanh": "tanh"}
    found = {(one.seed, one.scale, one.activation): one.scores for one in networks["B"]}
    for row in GOLDEN["redshift"]:
        assert row["shift"] == SHIFT
        # The network runs in float32, whose rounding differs between machines.
        assert found[row["seed"], int(row["scale"]), names[row["activation"]]] == pytest.approx(
            row["ref64"], abs=1e-4
        )


def test_random_networks_leave_torch_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    measure_networks(0.0, ["ReLU"], seeds=[1], side=4)
    assert torch.equal(torch.rand(2), expected)


def test_the_published_text_rounds_first() -> None:
    scores = [0.574, 0.574, 0.574]
    assert published_text(scores) == "0.57 ± 0.00"
    assert (
        published_text([0.005, 0.015, 0.0])
        == f"{np.round([0.005, 0.015, 0.0], 2).mean():.2f} ± 0.01"
    )


def test_figure_4_holds(networks: dict[str, list[RandomNetwork]]) -> None:
    assert set(verdicts(FIGURE_4A.judge(networks["A"])).values()) == {HOLDS}
    assert set(verdicts(FIGURE_4B.judge(networks)).values()) == {HOLDS}


def changed(
    networks: list[RandomNetwork], change: Callable[[RandomNetwork], tuple[float, ...]]
) -> list[RandomNetwork]:
    return [replace(one, scores=change(one)) for one in networks]


def test_figure_4_fails_where_scores_do_not_fall(networks: dict[str, list[RandomNetwork]]) -> None:
    constant = changed(networks["A"], lambda one: (0.9, 0.9, 0.9))
    claims = {f"{name}: the score falls with the scale" for name in ("ReLU", "tanh")}
    assert claims <= failing(FIGURE_4A.judge(constant))
    assert claims <= failing(FIGURE_4B.judge(networks | {"B": constant}))
    assert "ReLU becomes less affine than in panel A" in failing(
        FIGURE_4B.judge({"A": networks["B"], "B": networks["A"]})
    )


def test_one_seed_against_the_rest_leaves_the_direction(
    networks: dict[str, list[RandomNetwork]],
) -> None:
    def odd(one: RandomNetwork) -> tuple[float, ...]:
        return (0.99,) * 3 if one.seed == SEEDS[0] and one.scale == 6 else one.scores

    found = verdicts(FIGURE_4A.judge(changed(networks["A"], odd)))
    assert found["ReLU: the score falls with the scale"] == WEAKLY


def test_figure_4_notices_one_wrong_digit(networks: dict[str, list[RandomNetwork]]) -> None:
    def moved(one: RandomNetwork) -> tuple[float, ...]:
        return (
            tuple(score + 0.02 for score in one.scores)
            if one.seed == 915395 and one.activation == "ReLU"
            else one.scores
        )

    found = failing(FIGURE_4B.judge(networks | {"B": changed(networks["B"], moved)}))
    assert {"ReLU at scale 1, seed 915395", "ReLU at scale 6, seed 915395"} <= found
    assert "tanh at scale 6, seed 915395" not in found


def test_figure_4_draws_every_network(networks: dict[str, list[RandomNetwork]]) -> None:
    (drawn,) = FIGURE_4B.draw(networks).values()
    assert len(drawn.axes) == 20
    first = networks["B"][0]
    assert (first.activation, first.scale) == ("ReLU", 1)
    np.testing.assert_array_equal(np.asarray(drawn.axes[0].images[0].get_array()), first.image)
    assert first.image.min() == 0
    assert first.image.max() == 1
    assert published_text(first.scores) in drawn.axes[0].get_title()


# Figure 8


@pytest.fixture(scope="module")
def ranges() -> fig8.Ranges:
    """A small budget: 100 samples of 3 channels."""
    return fig8.measure_ranges(fig8.MEANS, samples=100, channels=3)


def test_figure_8_scores_an_affine_side_with_1_and_marks_the_guard(ranges: fig8.Ranges) -> None:
    assert set(ranges.scores) == set(fig8.FUNCTIONS)
    found = verdicts(fig8.ITEM.judge(ranges))
    assert found["ReLU on positive inputs, in float64"] == HOLDS
    left = ranges.means < -12
    assert ranges.guarded["ReLU"][left].all()
    assert np.isnan(ranges.true_scores()["ReLU"][left]).all()
    np.testing.assert_array_equal(ranges.scores["ReLU"][left], 1)
    assert not ranges.guarded["ReLU"][~left & (ranges.means > 0)].any()


def test_figure_8_judges(ranges: fig8.Ranges) -> None:
    shape = ranges.scores["ReLU"].shape
    equal = replace(
        ranges, scores=dict.fromkeys(fig8.FUNCTIONS, np.full(shape, 0.5)), baselines={"ReLU": 0.0}
    )
    equal = replace(equal, guarded=dict.fromkeys(fig8.FUNCTIONS, np.zeros(shape, dtype=bool)))
    assert failing(fig8.ITEM.judge(equal)) == set(verdicts(fig8.ITEM.judge(equal))) - {
        "Sigmoid is symmetric, in float64"
    }
    assert len(failing(fig8.ITEM.judge(equal))) == 11
    slope = np.linspace(0.2, 1, len(ranges.means))[:, None] * np.ones(shape)
    tilted = replace(equal, scores=equal.scores | {"Sigmoid": slope})
    assert "Sigmoid is symmetric, in float64" in failing(fig8.ITEM.judge(tilted))


def test_figure_8_compares_with_the_scores_of_the_guard_and_without(ranges: fig8.Ranges) -> None:
    """ReLU scores 1 where it is guarded and 0.5 elsewhere; the others 0.8 everywhere, or only where
    ReLU has no score.
    """
    shape = ranges.scores["ReLU"].shape
    dead = np.zeros(shape, dtype=bool)
    dead[:15] = True
    guarded = dict.fromkeys(fig8.FUNCTIONS, np.zeros(shape, dtype=bool)) | {"ReLU": dead}
    scores = dict.fromkeys(fig8.FUNCTIONS, np.full(shape, 0.8)) | {"ReLU": np.where(dead, 1.0, 0.5)}
    found = verdicts(fig8.ITEM.judge(replace(ranges, scores=scores, guarded=guarded)))
    claims = (
        "Sigmoid and GELU are non-linear in a wider range than ReLU",
        "SiLU and Hardswish are less affine than ReLU",
    )
    for claim in claims:
        assert found[f"{claim}, the guard's scores counted"] == HOLDS
        assert found[f"{claim}, where all three have a score"] == FAILS
    alive = scores | {"ReLU": np.where(dead, 1.0, 0.97)}
    found = verdicts(fig8.ITEM.judge(replace(ranges, scores=alive, guarded=guarded)))
    assert [found[f"{claim}, where all three have a score"] for claim in claims] == [HOLDS, HOLDS]


def test_figure_8_draws_with_and_without_the_guard(ranges: fig8.Ranges) -> None:
    drawn = fig8.ITEM.draw(ranges)
    assert list(drawn) == ["", "guard"]
    rows = {
        part: [row for row in one.table if row["function"] == "ReLU"] for part, one in drawn.items()
    }
    assert rows[""][0]["scores"] == 0
    assert rows["guard"][0]["scores"] == len(fig8.DEVIATIONS)
    assert rows["guard"][0]["median"] == 1
    assert rows["guard"][-1]["baseline"] == ranges.baselines["ReLU"]


# Figure 9


@pytest.fixture(scope="module")
def robustness() -> fig9.Robustness:
    """A small budget: one draw, and 16 images."""
    return fig9.Robustness(
        fig9.measure_poolings(images=16), fig9.WIDTHS, fig9.measure_widths(draws=1)
    )


def test_figure_9_has_the_known_values(robustness: fig9.Robustness) -> None:
    found = verdicts(fig9.ITEM.judge(robustness))
    assert {claim for claim, verdict in found.items() if verdict == FAILS} <= {
        "top: averaging agrees with flattening",  # which fails with the full budget too
        "top: they order activations alike",
    }
    assert found["top: averaging agrees with summing"] == HOLDS


def test_figure_9_can_fail_and_can_hold(robustness: fig9.Robustness) -> None:
    score = np.linspace(0.4, 0.9, 19)
    same = replace(robustness, poolings=dict.fromkeys(fig9.POOLINGS, score))
    assert failing(fig9.ITEM.judge(same)) == set()
    assert "of 19 calls flattened above averaged 0 times" in fig9.ITEM.judge(same)[1].obtained
    turned = replace(
        same, poolings=same.poolings | {"flattened": score[::-1], "summed": score + 0.02}
    )
    assert (
        len([claim for claim in failing(fig9.ITEM.judge(turned)) if claim.startswith("top")]) == 3
    )
    swapped = dict(zip(fig9.ESTIMATORS, reversed(robustness.scores.values()), strict=True))
    found = failing(fig9.ITEM.judge(replace(robustness, scores=swapped)))
    assert {
        f"bottom: {name} stays constant with shrinkage" for name in ("ReLU", "Tanh", "Sigmoid")
    } <= found


def test_the_plateau_is_golden() -> None:
    assert [score for mean, std, score in GOLDEN["relu_normal"] if (mean, std) == (0, 1)] == [
        fig9.PLATEAU
    ]


def test_figure_9_draws_three_rows(robustness: fig9.Robustness) -> None:
    (drawn,) = fig9.ITEM.draw(robustness).values()
    assert len(drawn.axes) == 3
    assert {row["row"] for row in drawn.table} == {"top", "middle", "bottom"}
    np.testing.assert_array_equal(
        drawn.axes[0].lines[0].get_ydata(), robustness.poolings["averaged"]
    )
    np.testing.assert_allclose(
        drawn.axes[2].lines[0].get_ydata(), robustness.scores["ledoit-wolf"]["ReLU"].mean(axis=0)
    )
