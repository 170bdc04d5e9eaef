"""Sixty networks of 50 to 260 sites: small to send, and nothing is redrawn needlessly."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigmascope.reporting.page import LARGEST, report
from tests.reporting.conftest import Open
from tests.reporting.examples import example, residual_paths, survey

SIXTY = survey()
# Moves over the chart in steps that a hand makes: how often a note was shown, and how often the
# chart itself, with its thousands of points, was changed.
HOVER = """(selector) => {
  const stage = document.querySelector(selector);
  const svg = stage.querySelector("svg.plot");
  const box = svg.getBoundingClientRect();
  const observer = new MutationObserver(() => {});
  observer.observe(svg, { subtree: true, childList: true, attributes: true });
  let shown = 0;
  for (let step = 0; step < 120; step += 1) {
    const clientX = box.left + 60 + ((step * 37) % (box.width - 90));
    const clientY = box.top + 60 + ((step * 23) % (box.height - 130));
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
    shown += stage.querySelectorAll(".tip.shown").length;
  }
  return [shown, observer.takeRecords().length];
}"""
# Sorts the table and chooses one more network: how many rows are new.
CLICKS = """() => {
  const rows = new Set(document.querySelectorAll("#network-table tr"));
  document.querySelectorAll("#network-table button")[3].click();
  document.querySelector(".pick input:not(:checked)").click();
  return [...document.querySelectorAll("#network-table tr")].filter((row) => !rows.has(row)).length;
}"""


def test_page_is_small(tmp_path: Path) -> None:
    assert min(map(len, SIXTY)) >= 50
    path = report(SIXTY, tmp_path / "report.html")
    assert path.stat().st_size < LARGEST
    assert b'"companionsLeftOut":false' in path.read_bytes()


def test_companion_metrics_go_first_when_room_is_scarce(tmp_path: Path) -> None:
    largest = [example(f"resnet-{number}", residual_paths(86), seed=number) for number in range(60)]
    assert {len(one) for one in largest} == {259}
    data = report(largest, tmp_path / "report.html").read_bytes()
    assert len(data) < LARGEST
    assert b'"companionsLeftOut":true' in data


@pytest.mark.parametrize("chart", ["#signature-chart", "#distance-chart .stage", "#density-chart"])
def test_hover_does_not_redraw_the_chart(chart: str, open_report: Open) -> None:
    page = open_report(SIXTY)
    page.locator(chart).scroll_into_view_if_needed()
    shown, redrawn = page.evaluate(HOVER, chart)
    assert shown > 20
    assert redrawn == 0


def test_sorting_and_choosing_keep_the_rows(open_report: Open) -> None:
    page = open_report(SIXTY)
    assert page.evaluate(CLICKS) == 0
    assert page.locator("#signature-chart [data-mark=dot]").count() == 4
    assert page.locator("#distance-chart [data-mark=cell] rect").count() == 3600
