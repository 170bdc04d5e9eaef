"""Trainings on the page, in Chromium: charts, notes, tables, and a page that follows a file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from sigmascope.monitoring.track import Track
from sigmascope.reporting.following import FINISHED, LEFT, UNDER_WAY, Follower, write_following
from tests.compare.made import made, populated
from tests.reporting.conftest import Open, Opened
from tests.reporting.examples import HOSTILE
from tests.reporting.made_tracks import entry, made_track, troubled

TROUBLED = troubled()
BOTH = [made("alpha", [0.5, 0.6, 0.7]), populated(made("beta", [0.4, 0.6]), seed=1), TROUBLED]
SETS: dict[str, list[Any]] = {
    "one": [TROUBLED],
    "both": BOTH,
    "several": [made_track("a", ended="finished"), made_track("b", seed=1)],
    "single measurement": [made_track(measurements=1)],
    "nothing": [made_track(measurements=0)],
}


def sections(page: Any) -> list[str]:
    return page.locator("main h2:visible").all_inner_texts()


def tip(page: Any, chart: str) -> list[str]:
    return page.locator(f"{chart} .tip.shown").inner_text().splitlines()


@pytest.mark.parametrize(
    ("chosen", "theme"), [*zip(SETS, itertools.cycle(["light", "dark"]), strict=False)]
)
def test_axe_finds_nothing(chosen: str, theme: str, open_report: Open, axe: Any) -> None:
    page = open_report(SETS[chosen], color_scheme=theme, reduced_motion="reduce")
    for details in page.locator("details:visible").all():
        details.locator("summary").click()
        details.locator("table").first.wait_for()
    assert axe(page) == []


def test_on_a_telephone(open_report: Open, axe: Any) -> None:
    page = open_report([TROUBLED], width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert axe(page) == []


def test_sections_without_content_are_left_out(open_report: Open) -> None:
    page = open_report([TROUBLED])
    assert sections(page) == ["Over training"]
    assert page.locator("nav a:visible").all_inner_texts() == ["Over training"]
    assert page.locator("h1").inner_text() == "troubled over training"
    assert page.title() == "troubled, step 30 – sigmascope"
    assert sections(open_report(BOTH))[:2] == ["Over training", "Signatures"]
    assert "Over training" not in sections(open_report(BOTH[:2]))


def test_hover_and_click_on_the_map(open_report: Open) -> None:
    page = open_report([TROUBLED])
    assert page.locator("#walk-tracked option:checked").inner_text() == "layer2.relu"  # the lowest
    box = page.locator("#training-map svg.plot").bounding_box()
    x, y = box["x"] + box["width"] - 30, box["y"] + 10
    page.mouse.move(x, y)
    assert tip(page, "#training-map") == [
        "layer0.relu",
        "step 30, relu",
        "population score –",
        "100% of the channels do not vary",
        "the output does not vary",
    ]
    page.mouse.click(x, y + 20)
    assert page.locator("#walk-tracked option:checked").inner_text() == "layer1.relu"
    assert page.locator("#training-readout").inner_text().split(" · ") == [
        "layer1.relu",
        "step 30, relu",
        "population score 0.9950",
        "95 % interval 0.9750 to 1.0000",
        "25% of the channels do not vary",
        "layer1.relu became affine: score 0.995",
    ]


def test_the_keyboard_goes_through_the_steps(open_report: Open) -> None:
    page = open_report([TROUBLED])
    page.locator("#walk-tracked").select_option("layer0.relu")
    page.locator("#walk-step").focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    shown = tip(page, "#training-map")
    assert shown[1:3] == ["step 10, relu", "population score 0.8500"]
    assert page.locator("#walk-step").get_attribute("aria-valuetext").startswith("layer0.relu · st")
    page.locator("#walk-step").blur()
    assert page.locator(".tip.shown").count() == 0


def test_lines_gaps_band_and_mean(open_report: Open) -> None:
    page = open_report([TROUBLED])
    page.locator("#walk-tracked").select_option("layer0.relu")
    lines = page.locator("#training-lines svg.plot [data-mark=line]")
    assert [lines.nth(number).locator("path").count() for number in range(3)] == [3, 1, 1]
    assert lines.nth(2).locator("path").get_attribute("d").count("L") == 1  # two of four steps
    assert page.locator("#training-lines [data-mark=area] path").count() == 1
    assert page.locator("#training-map .event").all_text_contents() == ["D", "A"]
    label = page.locator("#training-lines svg.plot").get_attribute("aria-label")
    assert "In color: layer0.relu, from 0.9000 to –." in label
    assert "Step 20: layer0.relu died" in label


@pytest.mark.parametrize(("count", "least"), [(1, 1), (4, 4), (400, 4)])
def test_ticks_are_steps(count: int, least: int, open_report: Open) -> None:
    page = open_report([made_track(measurements=count)])
    labels = page.locator(
        "#training-lines [data-mark='x-axis tick label'] text"
    ).all_text_contents()
    steps = [
        int(float(text.replace("k", "").replace(",", "")) * (1000 if "k" in text else 1))
        for text in labels
    ]
    assert len(steps) >= least
    assert min(steps) == 0
    assert max(steps) <= 10 * (count - 1)
    assert all(text.replace(",", "").replace("k", "").replace(".", "").isdigit() for text in labels)


def test_an_event_shows_its_site_and_step(open_report: Open) -> None:
    page = open_report([TROUBLED])
    page.locator(".events button").first.click()
    assert page.locator("#training-readout").inner_text().startswith("layer0.relu · step 20")
    assert page.locator(".events li").count() == 2


def test_tables_and_download(open_report: Open) -> None:
    page = open_report([TROUBLED])
    page.locator("#tracked-sites summary").click()
    rows = page.locator("#tracked-sites tbody tr").all_inner_texts()
    assert rows[0].split("\t") == [
        *("layer0.relu", "relu", "0.9000", "–", "–", "0.8500", "0.9000", "100%")
    ]
    page.locator("#tracked-steps summary").click()
    page.locator("#walk-tracked").select_option("layer1.relu")  # the table stays open
    first = page.locator("#tracked-steps tbody tr").first.inner_text()
    assert first.split("\t")[:3] == ["0", "0.8000", "0.7800 – 0.8100"]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").click()
    lines = Path(waiting.value.path()).read_text().splitlines()
    assert waiting.value.suggested_filename == "troubled.csv"
    assert lines[0] == "step,layer0.relu,layer1.relu,layer2.relu"
    assert lines[3] == "20,,0.995,0.65"


def test_a_long_training_is_thinned_and_says_so(open_report: Open) -> None:
    page = open_report([made_track(measurements=1000, sites=20)])
    assert page.locator("#thinned").inner_text() == (
        "Drawn are 251 of 1,000 measurements. The tables and the CSV file have the scores of all."
    )
    assert page.locator("#training-map svg.plot *").count() < 150  # not one for each cell
    page.locator("#tracked-steps summary").click()
    expect(page.locator("#tracked-steps tbody tr")).to_have_count(1000)


def test_another_training_is_chosen(open_report: Open) -> None:
    page = open_report(SETS["several"])
    assert "12 measurements, finished" in page.locator("#training-cards").inner_text()
    page.locator("#walk-training").select_option("b")
    assert "12 measurements, no end recorded" in page.locator("#training-cards").inner_text()
    assert page.locator("#trainings tbody tr").count() == 2


def test_hostile_names_stay_text(open_report: Open) -> None:
    names = [text for text in HOSTILE if "\ud800" not in text and text]
    track = made_track(HOSTILE[0], measurements=0)
    for step in range(3):
        track = track.with_entry(entry(step, [0.5] * len(names), names))
    page = open_report([track])
    assert page.evaluate("window.harmed") is None
    assert page.locator("h1").inner_text().startswith("</script><script>window.harmed")


# A page that follows. It would reload every minute; the tests let the time pass.

MINUTE = 60


@dataclass
class Followed:
    """A track in a file, and the page that follows it."""

    follower: Follower
    target: Path
    opened: Opened | None = None

    def write(self, track: Track, state: str) -> None:
        track.save(self.follower.source)
        self.follower.look()
        write_following(self.follower, self.target, state, MINUTE)

    def pass_time(self) -> None:
        assert self.opened is not None
        self.opened.page.clock.fast_forward(1000 * (MINUTE + 1))


@pytest.fixture
def followed(tmp_path: Path, open_file: Callable[..., Opened]) -> Followed:
    """Give a page that follows a track and is open in the browser."""
    found = Followed(Follower(tmp_path / "run.json"), tmp_path / "page.html")
    found.write(TROUBLED, UNDER_WAY)
    found.opened = open_file(found.target, clock=True)
    return found


def later(step: int) -> Track:
    return TROUBLED.with_entry(entry(step, [math.nan, 0.9, 0.4]))


def wait_for_step(page: Any, step: int) -> None:
    expect(page).to_have_title(f"troubled, step {step} – sigmascope", timeout=120_000)


def test_the_page_follows_the_file_and_keeps_what_was_chosen(followed: Followed) -> None:
    page = followed.opened.page
    assert "Under way: this page reloads every 60 s." in page.locator("#following").inner_text()
    page.locator("#walk-tracked").select_option("layer1.relu")
    page.locator("#theme").click()
    page.locator("#tracked-steps summary").click()
    page.locator("#walk-step").fill("1")
    page.locator("#walk-step").focus()
    page.evaluate("scrollTo({ top: 200, behavior: 'instant' })")
    expect(page.locator("#tracked-steps tbody tr")).to_have_count(4)
    top = page.evaluate("scrollY")
    assert top > 100
    followed.write(later(40), UNDER_WAY)
    followed.pass_time()
    wait_for_step(page, 40)
    assert "5 measurements, under way" in page.locator("#training-cards").inner_text()
    assert page.locator("#walk-tracked option:checked").inner_text() == "layer1.relu"
    assert page.locator("#training-readout").inner_text().startswith("layer1.relu · step 10")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(page.locator("#tracked-steps tbody tr")).to_have_count(5)
    assert page.evaluate("document.activeElement.id") == "walk-step"
    assert page.evaluate("scrollY") == top
    assert followed.opened.complaints() == []


@pytest.mark.parametrize(
    ("state", "text"),
    [(FINISHED, "Finished: this page does not"), (LEFT, "No longer followed: this page does not")],
)
def test_the_last_page_does_not_reload(followed: Followed, state: str, text: str) -> None:
    page = followed.opened.page
    followed.write(later(40), state)
    followed.pass_time()
    wait_for_step(page, 40)
    # a reader at the end sees the newest
    assert "step 40" in page.locator("#training-readout").inner_text()
    assert text in page.locator("#following").inner_text()
    assert page.locator("#pause").count() == 0
    page.evaluate("window.same = true")
    followed.pass_time()
    assert page.evaluate("window.same")


def test_a_reader_can_pause(followed: Followed) -> None:
    page = followed.opened.page
    page.locator("#pause").click()
    assert page.locator("#pause").inner_text() == "Resume"
    followed.write(later(40), UNDER_WAY)
    page.evaluate("window.same = true")
    followed.pass_time()
    assert page.evaluate("window.same")
    page.locator("#pause").click()
    followed.pass_time()
    wait_for_step(page, 40)


def test_a_page_waits_while_it_is_used(followed: Followed) -> None:
    page = followed.opened.page
    followed.write(later(40), UNDER_WAY)
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    page.evaluate("window.same = true")
    for second in range(MINUTE + 10):
        page.mouse.move(200 + second, 200)
        page.clock.run_for(1000)
    assert page.evaluate("window.same")
    page.clock.run_for(1000 * MINUTE)
    wait_for_step(page, 40)
