"""Sixty networks of 50 to 260 sites: quick to compare, small to send, smooth to use."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sigmascope.reporting.page import LARGEST, report
from tests.reporting.conftest import Open
from tests.reporting.examples import example, residual_paths, survey

SIXTY = survey()
# Moves over the chart in steps that a hand makes. What it takes to answer and lay the answer out,
# and until it is painted.
HOVER = """async (selector) => {
  const stage = document.querySelector(selector), svg = stage.querySelector("svg"), box = svg.getBoundingClientRect();
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(null);
  }));
  const answered = [], seen = [];
  let shown = 0;
  for (let step = 0; step < 120; step += 1) {
    const clientX = box.left + 60 + ((step * 37) % (box.width - 90));
    const clientY = box.top + 60 + ((step * 23) % (box.height - 130));
    const begun = performance.now();
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true, pointerType: "mouse" }));
    stage.querySelector(".tip").getBoundingClientRect();
    answered.push(performance.now() - begun);
    shown += stage.querySelectorAll(".tip.shown").length;
    await painted();
    seen.push(performance.now() - begun);
  }
  for (const times of [answered, seen]) times.sort((a, b) => a - b);
  return [answered[114], seen[60], shown];
}"""
CLICKS = """() => {
  const time = (part) => {
    const begun = performance.now();
    part.click();
    document.body.getBoundingClientRect();
    return performance.now() - begun;
  };
  const sort = document.querySelectorAll("#network-table button")[3];
  return [time(document.querySelector(".pick input:not(:checked)")), time(sort)];
}"""


def test_page_is_small_and_soon_written(tmp_path: Path) -> None:
    assert min(map(len, SIXTY)) >= 50
    start = time.perf_counter()
    path = report(SIXTY, tmp_path / "report.html")
    assert time.perf_counter() - start < 10
    assert path.stat().st_size < LARGEST
    assert b'"companionsLeftOut":false' in path.read_bytes()


def test_companion_metrics_go_first_when_room_is_scarce(tmp_path: Path) -> None:
    largest = [example(f"resnet-{number}", residual_paths(86), seed=number) for number in range(60)]
    assert {len(one) for one in largest} == {259}
    data = report(largest, tmp_path / "report.html").read_bytes()
    assert len(data) < LARGEST
    assert b'"companionsLeftOut":true' in data


@pytest.mark.parametrize("chart", ["#signature-chart", "#distance-chart .stage", "#density-chart"])
def test_hover_answers_at_once(chart: str, open_report: Open) -> None:
    page = open_report(SIXTY)
    page.locator(chart).scroll_into_view_if_needed()
    nearly_all_answered, half_painted, shown = page.evaluate(HOVER, chart)
    assert shown > 20
    assert nearly_all_answered < 50  # milliseconds
    assert half_painted < 50


def test_everything_else_answers_soon(open_report: Open) -> None:
    page = open_report(SIXTY)
    took = page.evaluate(CLICKS)
    assert max(took) < 1000
    assert page.locator("#signature-chart [data-mark=dot]").count() == 4
    assert page.locator("#distance-chart [data-mark=cell] rect").count() == 3600
