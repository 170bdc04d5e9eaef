"""The page on paper: many networks on a narrow sheet, and headings that stay with their charts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reporting.conftest import Open
from tests.reporting.examples import survey

SHEET = 690  # pixels between the margins of A4
MANY = survey(36, longest=60, metrics=False)
FACTS = {one.name: {"accuracy": 71.25, "depth": 50, "flops": 4_100_000_000} for one in MANY}
# Charts are redrawn in the frame after the one in which a new width is seen.
REDRAWN = """async () => {
  for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
}"""
HEIGHTS = """() => [...document.querySelectorAll("#distance-chart .heat svg.plot")]
  .map((one) => one.getBoundingClientRect().height)"""
# Where on the screen the leaves of the tree end, and the middles of the rows of the map.
ROWS = """() => {
  const rounded = (values) => values.map((value) => Math.round(value * 100) / 100);
  const unique = (values) => [...new Set(rounded(values))].sort((a, b) => a - b);
  const tree = document.querySelector("#distance-chart .heat > div");
  const onScreen = (line, at) => line.getPointAtLength(at).matrixTransform(line.getScreenCTM());
  const ends = [...tree.querySelectorAll("[data-mark=line] path")].flatMap((line) =>
    [0, line.getTotalLength()].map((at) => onScreen(line, at)));
  const right = Math.max(...ends.map(({ x }) => x));
  const cells = [...document.querySelectorAll("#distance-chart [data-mark=cell] rect")]
    .map((one) => one.getBoundingClientRect());
  return [
    unique(ends.filter(({ x }) => right - x < 0.1).map(({ y }) => y)),
    unique(cells.map(({ top, height }) => top + height / 2)),
  ];
}"""
# Columns break like sheets do. Moves the section down step by step; tells in how many places its
# heading is left behind.
LEFT_BEHIND = """([heading, chart]) => {
  const section = document.getElementById(heading).parentElement;
  const main = document.createElement("div");
  const columns = { columns: "690px", columnGap: "40px", columnFill: "auto" };
  Object.assign(main.style, { height: "960px", width: "690px", ...columns });
  const spacer = document.createElement("div");
  main.append(spacer, section);
  document.body.prepend(main);
  let [left, sheets] = [0, new Set()];
  for (let height = 0; height < 960; height += 20) {
    spacer.style.height = `${height}px`;
    const parts = [document.getElementById(heading), document.querySelector(chart)];
    const [one, other] = parts.map((part) =>
      Math.floor(part.getBoundingClientRect().left / 730));
    sheets.add(other);
    left += one !== other;
  }
  return [left, sheets.size];
}"""


# What observes sizes asks for a frame to draw in, after the frame in which it is told.
REDRAWN = """() => new Promise((done) => {
  let left = 4;
  const next = () => (left-- ? requestAnimationFrame(next) : done());
  next();
})"""


def printed(page: Any) -> Any:
    page.emulate_media(media="print")
    page.set_viewport_size({"width": SHEET, "height": 960})
    page.evaluate(REDRAWN)
    return page


@pytest.mark.parametrize("width", [1280, SHEET])
def test_tree_and_map_shrink_together(width: int, open_report: Open) -> None:
    page = printed(open_report(MANY, width=width))
    tree, heat = page.evaluate(HEIGHTS)
    assert tree == pytest.approx(heat, abs=0.1)
    frame = page.locator("#distance-chart .stage").bounding_box()
    assert frame["x"] + frame["width"] <= SHEET
    leaves, rows = page.evaluate(ROWS)
    assert len(rows) == len(MANY)
    assert leaves == pytest.approx(rows, abs=0.6)  # lines are drawn in the middle of pixels
    # The negative control: a tree that keeps its size misses the rows.
    page.evaluate("document.querySelector('#distance-chart .heat > div').style.flex = 'none'")
    tree, heat = page.evaluate(HEIGHTS)
    assert tree > heat + 10


@pytest.mark.parametrize(
    ("heading", "chart"),
    [
        ("distances", "#distance-chart .stage"),
        ("densities", "#density-chart"),
        ("settings", "#setting-tables .pairs"),
    ],
)
def test_headings_stay_with_their_charts(heading: str, chart: str, open_report: Open) -> None:
    page = printed(open_report(MANY))
    assert page.evaluate(LEFT_BEHIND, [heading, chart]) == [0, 2]
    # The negative control: without the rules there are places where the heading stays alone.
    page.evaluate(
        "document.querySelectorAll('*').forEach((one) => (one.style.breakAfter = 'auto'))"
    )
    left, _ = page.evaluate(LEFT_BEHIND, [heading, chart])
    assert left > 0


def test_facts_fit_on_the_sheet(open_report: Open) -> None:
    page = printed(open_report(MANY, told={"facts": FACTS}))
    table = page.locator("#network-table table").bounding_box()
    assert table["x"] + table["width"] <= SHEET
