"""Sixty networks of 50 to 260 sites: quick to compare, small to send, smooth to use."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from sigmascope.reporting.page import LARGEST, report
from tests.reporting.conftest import Open
from tests.reporting.examples import example, residual_paths, survey
from tests.work import calls_of

SIXTY = survey()
MOST = 60
# Moves over the chart in steps that a hand makes. How much of the page an answer changes, at most,
# and in how many steps there was one.
HOVER = """async (selector) => {
  const stage = document.querySelector(selector);
  const svg = stage.querySelector("svg");
  const box = svg.getBoundingClientRect();
  const frame = () => new Promise(requestAnimationFrame);
  const painted = async () => { await frame(); await frame(); };
  let changes = 0, most = 0, shown = 0;
  const count = (list) => list.forEach(({ addedNodes, removedNodes }) =>
    (changes += 1 + [...addedNodes, ...removedNodes].reduce((sum, node) =>
      sum + (node.querySelectorAll?.("*").length ?? 0), 0)));
  const observer = new MutationObserver(count);
  const all = { attributes: true, childList: true, characterData: true, subtree: true };
  observer.observe(document.body, all);
  for (let step = 0; step < 120; step += 1) {
    const clientX = box.left + 60 + ((step * 37) % (box.width - 90));
    const clientY = box.top + 60 + ((step * 23) % (box.height - 130));
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
    if (step < 20) await painted(); // an answer may come with the next frame
    count(observer.takeRecords());
    [most, changes] = [Math.max(most, changes), 0];
    shown += stage.querySelectorAll(".tip.shown").length;
  }
  return [most, shown];
}"""
CLICKS = """() => {
  document.querySelector(".pick input:not(:checked)").click();
  document.querySelectorAll("#network-table button")[3].click();
}"""


def test_page_is_small_and_soon_written(tmp_path: Path) -> None:
    assert min(map(len, SIXTY)) >= 50
    path = tmp_path / "report.html"
    # 9437 sites: a loop over their pairs would make 40 million calls
    assert calls_of(lambda: report(SIXTY, path)) < 4_000_000
    assert path.stat().st_size < LARGEST
    assert b'"companionsLeftOut":false' in path.read_bytes()


def test_companion_metrics_go_first_when_room_is_scarce(tmp_path: Path) -> None:
    largest = [example(f"resnet-{number}", residual_paths(86), seed=number) for number in range(60)]
    assert {len(one) for one in largest} == {259}
    data = report(largest, tmp_path / "report.html").read_bytes()
    assert len(data) < LARGEST
    assert b'"companionsLeftOut":true' in data


def test_a_page_that_is_too_large_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[object] = []
    # the package offers the function under this name
    module = importlib.import_module("sigmascope.compare.distances")
    real = module.dtw_matrix

    def counted(*args: Any, **options: Any) -> Any:
        times.append(args)
        return real(*args, **options)

    monkeypatch.setattr(module, "dtw_matrix", counted)
    monkeypatch.setattr("sigmascope.reporting.page.LARGEST", 1)
    data = report(SIXTY[:3], tmp_path / "report.html").read_bytes()
    assert b'"companionsLeftOut":true' in data
    assert len(times) == 1


@pytest.mark.parametrize("chart", ["#signature-chart", "#distance-chart .stage", "#density-chart"])
def test_an_answer_to_the_pointer_changes_little(chart: str, open_report: Open) -> None:
    page = open_report(SIXTY)
    page.locator(chart).scroll_into_view_if_needed()
    most, shown = page.evaluate(HOVER, chart)
    assert shown > 20
    assert 0 < most < MOST
    assert page.locator(chart).locator("svg *").count() > MOST  # drawing it anew would be more


def test_everything_else_answers(open_report: Open) -> None:
    page = open_report(SIXTY)
    page.evaluate(CLICKS)
    assert page.locator("#signature-chart [data-mark=dot]").count() == 4
    assert page.locator("#distance-chart [data-mark=cell] rect").count() == 3600
