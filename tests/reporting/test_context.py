"""Facts, data and missing networks: checked, shown where known, and never more than text."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sigmascope.errors import InputTypeError
from sigmascope.reporting.document import document_of
from sigmascope.reporting.page import report
from sigmascope.runs import Failure
from tests.reporting.conftest import Open
from tests.reporting.examples import HOSTILE, example, residual_paths, without_scores

THREE = [
    example(name, residual_paths(blocks), seed=blocks)
    for name, blocks in (("a", 3), ("b", 4), ("c", 5))
]
FACTS = {
    "a": SimpleNamespace(accuracy=69.758, depth=18, flops=1_814_073_344),
    "b": SimpleNamespace(accuracy=None, depth=1234, flops=None),
    "of nobody": SimpleNamespace(accuracy=1.0, depth=1, flops=1),
}
DATA = "cifar10, test split"
HEADS = ["network", "sites", "0 – 1", "min", "median", "max", "mean", "std", "spread", "parameters"]


def facts_in(document: dict[str, Any]) -> list[dict[str, float]]:
    return [network["facts"] for network in document["networks"]]


def heads_of(page: Any) -> list[str]:
    return page.locator("#network-table thead th").all_inner_texts()


def test_facts_are_kept_as_far_as_they_are_known() -> None:
    expected = [{"accuracy": 69.758, "depth": 18, "flops": 1_814_073_344}, {"depth": 1234}, {}]
    assert facts_in(document_of(THREE, facts=FACTS)) == expected
    tables = {name: vars(one) for name, one in FACTS.items()}
    assert facts_in(document_of(THREE, facts=tables)) == expected
    assert facts_in(document_of(THREE)) == [{}, {}, {}]


def test_facts_of_one_name_hold_for_all_that_bear_it() -> None:
    twice = [THREE[0], THREE[0], without_scores()]
    facts = {"a": {"depth": 1}, "nothing measured": {"depth": 3}}
    assert facts_in(document_of(twice, facts=facts)) == [{"depth": 1}, {"depth": 1}, {"depth": 3}]
    assert facts_in(document_of(twice, facts=facts | {"a (2)": {"depth": 2}}))[1] == {"depth": 2}


def test_numbers_of_numpy_are_numbers_and_nan_is_not_known() -> None:
    facts = {"a": {"accuracy": np.float32(0.5), "depth": np.int64(7), "flops": math.nan}}
    [found] = facts_in(document_of(THREE[:1], facts=facts))
    assert found == {"accuracy": 0.5, "depth": 7}
    assert [type(value) for value in found.values()] == [float, int]


@pytest.mark.parametrize(
    ("told", "match"),
    [
        ({"facts": [69.8]}, "facts must be a mapping .* got list"),
        ({"facts": {"a": {"accuracy": "69.8"}}}, "The fact accuracy must be a number.* got str"),
        ({"facts": {"a": {"depth": True}}}, "The fact depth must be a number.* got bool"),
        ({"data": 3}, "data must be a string .* got int"),
        ({"missing": 3}, "missing must be pairs of texts .* got int"),
        ({"missing": "vit"}, "missing must be pairs .* as item 0"),
        ({"missing": [("vit", "why"), ("vit", None)]}, "missing must be pairs .* as item 1"),
    ],
    ids=str,
)
def test_what_is_of_a_wrong_type_is_refused(
    told: dict[str, Any], match: str, tmp_path: Path
) -> None:
    with pytest.raises(InputTypeError, match=match):
        report(THREE, tmp_path / "report.html", **told)
    assert not list(tmp_path.iterdir())


def test_named_data_keep_their_digests() -> None:
    settings = document_of(THREE, data=DATA)["settings"]
    assert ["data", DATA] in settings["shared"]
    assert settings["columns"] == ["digest of the data", "model"]
    assert document_of(THREE, data="")["settings"] == document_of(THREE)["settings"]


def test_facts_become_columns_that_sort(open_report: Open) -> None:
    page = open_report(THREE, told={"facts": FACTS})
    assert heads_of(page) == [*HEADS, "accuracy", "depth", "FLOPs"]
    rows = page.locator("#network-table tbody tr")
    cells = [row.locator("td").all_inner_texts()[-3:] for row in rows.all()]
    assert cells == [["69.76", "18", "1.81B"], ["–", "1,234", "–"], ["–", "–", "–"]]
    button = page.locator("#network-table thead button", has_text=re.compile("^depth$"))
    button.click()
    button.click()
    assert rows.locator("th").all_inner_texts() == ["b", "a", "c"]  # what is not known comes last
    assert page.locator("#sorted").inner_text() == "Sorted by depth, descending."
    assert "Accuracy in percent" in page.locator("#network-table caption").inner_text()


def test_what_nobody_knows_has_no_column(open_report: Open) -> None:
    page = open_report(THREE[1:], told={"facts": FACTS})
    assert heads_of(page) == [*HEADS, "depth"]
    page = open_report(THREE)
    assert heads_of(page) == HEADS
    page = open_report([THREE[0], replace(THREE[1], samples=64)])
    assert heads_of(page) == [*HEADS, "samples"]  # where they differ
    assert "Accuracy" not in page.locator("#network-table caption").inner_text()
    assert page.locator("#missing").count() == 0


def test_data_and_missing_networks_are_told(open_report: Open, axe: Any) -> None:
    missing = [("vit", "out of memory"), ("swin", "it is not finished")]
    page = open_report(THREE, told={"facts": FACTS, "data": DATA, "missing": missing})
    [card] = [text for text in page.locator(".card").all_inner_texts() if text.startswith("Data")]
    assert card.split("\n")[1:] == [DATA, "192 samples for each network"]
    assert page.locator("#missing li").all_inner_texts() == [
        "vit: out of memory",
        "swin: it is not finished",
    ]
    assert axe(page) == []
    page = open_report(THREE)
    assert any(text.startswith("Samples") for text in page.locator(".card").all_inner_texts())


def test_a_failure_of_a_survey_has_its_log_and_its_command(open_report: Open, axe: Any) -> None:
    command = "sigmascope --debug measure vit --data random:8"
    log = "Traceback\n  <b>line</b> 3\nRuntimeError: as planned"
    failure = Failure("vit", "RuntimeError", "RuntimeError: as planned", log, command)
    page = open_report(THREE, told={"missing": {"vit": failure, "swin": "it is not finished"}})
    failed, open_one = page.locator("#missing li").all()
    assert failed.locator("details").get_attribute("open") is None
    failed.locator("summary").click()
    assert failed.locator("pre").inner_text() == log
    assert failed.locator("code").inner_text() == command
    assert failed.inner_text().startswith("vit: RuntimeError: as planned")
    assert open_one.inner_text() == "swin: it is not finished"
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


def test_hostile_texts_stay_texts(open_report: Open) -> None:
    parts = "document.querySelectorAll('script, style, img, svg, iframe').length"
    expected = open_report(THREE).evaluate(parts)
    missing = [(text, text) for text in HOSTILE]
    for text in ("".join(HOSTILE), HOSTILE[1]):
        page = open_report(
            THREE,
            told={"data": text, "missing": missing, "facts": dict.fromkeys(HOSTILE, FACTS["a"])},
        )
        assert page.evaluate("window.harmed") is None
        assert page.evaluate(parts) == expected
        assert page.locator("#missing li").all_text_contents() == [
            f"{one or '(no name)'}: {one}" for one in HOSTILE
        ]
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
