"""Measures of similarity in tests: the claims about them and their figure, on made-up scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError, InputError
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.beyond_resi import FILE, ITEM, TITLES, draw, measure
from sigmascope_papers.symmetry.similarity_tests import (
    Scores,
    SimilarityTests,
    Treatment,
    mean_ranks,
    rank_spread,
)

NAMES = ("G-Procrustes", "G-CKA", "orthogonal Procrustes", "linear CKA", "RSA")
CLAIMS = {
    "treatments": "the treatments show",
    "procrustes": "G-Procrustes of the group of ReLU loses no test",
    "cka": "G-CKA of the group of ReLU loses no test",
    "group": "allowing only the symmetries of ReLU costs nothing: G-Procrustes",
    "group cka": "allowing only the symmetries of ReLU costs nothing: G-CKA",
    "nested": "every measure finds layers",
    "chance": "similarity does not tell",
}


def scores(value: float, spread: float = 0.001) -> Scores:
    """The score of a measure, which varies so much when a network is left out."""
    return Scores(value, {str(i): value + spread * (i - 1.5) for i in range(4)})


def outcome(worked: tuple[bool, ...] = (True, True, True), **changed: float) -> SimilarityTests:
    """Scores of 0.95 everywhere; 0 for accuracies; and others by `TEST_MEASURE`."""
    table = {
        test: {
            name: scores(changed.get(f"{test}_{name}", 0.0 if test == "accuracy" else 0.95))
            for name in NAMES
        }
        for test in TITLES
    }
    designs = zip(("label", "shortcut", "augmentation"), worked, strict=True)
    moved = {name: Treatment((0.1, 0.5), one) for name, one in designs}
    return SimilarityTests(table, moved, {"seeds": 4})


def verdicts(found: SimilarityTests) -> dict[str, str]:
    told = {one.claim.removeprefix("ours: "): one.verdict for one in ITEM.judge(found)}
    assert len(told) == len(CLAIMS)
    return {
        name: next(word for claim, word in told.items() if claim.startswith(begin))
        for name, begin in CLAIMS.items()
    }


def test_treatments_and_what_does_not_count() -> None:
    assert verdicts(outcome())["treatments"] == HOLDS
    found = outcome((True, False, True))
    assert "shortcut" not in found.counted
    assert verdicts(found)["treatments"] == WEAKLY
    assert verdicts(outcome((True, False, False)))["treatments"] == FAILS
    # a test that does not count loses nothing
    lost = {"shortcut_G-CKA": 0.5}
    assert verdicts(outcome(**lost))["cka"] == FAILS
    assert verdicts(outcome((True, False, True), **lost))["cka"] == WEAKLY


def test_ours_win_lose_or_are_open() -> None:
    found = verdicts(outcome(**{"label_G-CKA": 0.99, "label_G-Procrustes": 0.6}))
    assert [found[name] for name in ("procrustes", "cka")] == [FAILS, HOLDS]
    assert [found[name] for name in ("group", "group cka")] == [FAILS, HOLDS]
    found = verdicts(outcome(**{f"{test}_G-CKA": 0.99 for test in TITLES}))
    assert found["group cka"] == HOLDS
    assert verdicts(outcome())["group"] == WEAKLY


def test_layers_and_chance() -> None:
    found = verdicts(outcome(**{"monotonicity_RSA": 0.7}))
    assert [found[name] for name in ("nested", "chance")] == [WEAKLY, HOLDS]
    found = verdicts(outcome(**{"monotonicity_RSA": 0.7, "monotonicity_linear CKA": 0.8}))
    assert found["nested"] == FAILS
    assert verdicts(outcome(**{"accuracy_RSA": 0.5}))["chance"] == FAILS
    assert verdicts(outcome(**{"accuracy_RSA": -0.5}))["chance"] == HOLDS
    assert verdicts(outcome(**{"monotonicity_RSA": float("nan")}))["nested"] == WEAKLY


def test_ranks_have_the_spread_of_leaving_out() -> None:
    found = outcome(**{"label_RSA": 0.99})
    assert mean_ranks(found.scores, ["label"])["RSA"] == 1
    assert mean_ranks(found.scores, ["label", "output"])["RSA"] == 2
    found.scores["label"]["RSA"].left_out["2"] = 0.1
    assert rank_spread(found.scores, ["label"])["RSA"] == (1, 1, 5)


def test_the_figure_has_every_score() -> None:
    found = outcome((True, True, False), **{"label_RSA": 0.42, "output_RSA": float("nan")})
    drawn = draw(found)[""]
    first, second = drawn.axes
    told = [text.get_text() for text in first.texts]
    assert sum(one == "0.95" for one in told) == len(NAMES) * 4 - 2
    assert told.count("0.950") == len(NAMES)  # the order of layers, in which all are close
    assert told.count("0.42") == told.count("nan") == 1
    assert "augmentation\n(not counted)" in told
    assert len(second.lines) == 2 * len(NAMES)
    assert {row["measure"] for row in drawn.table} == set(NAMES)
    assert drawn.table[-1]["measure"] == "RSA"  # the worst mean rank


def test_the_outcome_is_stored(tmp_path: Path) -> None:
    found = outcome()
    (tmp_path / "trainings").mkdir()
    found.save(tmp_path / FILE)
    assert measure(Setting(results=tmp_path)) == found
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(FileFormatError, match="Pass a similarity-tests file"):
        measure(Setting(results=tmp_path))
    with pytest.raises(InputError, match=r"only reads results\. It trains dozens of networks"):
        measure(Setting(results=tmp_path, from_scratch=True))
    with pytest.raises(InputError, match="is missing"):
        measure(Setting(results=tmp_path / "elsewhere"))
    assert UNTESTED not in verdicts(found).values()
