"""One site on the page, links to what is shown, and the numbers as files, in Chromium."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sigmascope.measure.histograms import CELLS, histogram_of
from sigmascope.measure.result import Signature
from sigmascope.reporting.details import LEVELS, details_of
from sigmascope.reporting.document import document_of
from sigmascope.reporting.page import report
from tests.compare.made import populated
from tests.reporting.conftest import Open, Opened
from tests.reporting.examples import example, gapped, hostile, residual_paths, transformer_paths


def with_histograms(signature: Signature) -> Signature:
    """The signature with the histogram of a ReLU at every site."""
    x = torch.linspace(-2, 2, 400, dtype=torch.float64)[:, None]
    found = histogram_of(x, x.relu())
    return replace(signature, sites=tuple(replace(one, histogram=found) for one in signature.sites))


PAIR = [
    with_histograms(populated(example("resnet", residual_paths(5), seed=1), seed=1)),
    with_histograms(example("vit", transformer_paths(9), kind="gelu", seed=2)),
]


def shown_facts(page: Any) -> dict[str, str]:
    names, texts = (page.locator(f"#detail .pairs {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, texts, strict=True))


def title(page: Any) -> str:
    return page.locator("#detail-title").inner_text()


def fragment(page: Any) -> str:
    return page.evaluate("location.hash")


def downloaded(page: Any, button: str) -> tuple[str, str]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=button).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_text(encoding="utf-8")


def test_details_are_packed() -> None:
    found = details_of(PAIR[0])
    assert found["scores"][2] == [round(score, 4) for score in PAIR[0].sites[2].scores]
    assert found["axis"]["names"] == ["axis 1: follows linear"]
    *ranges, levels = found["histogram"][0]
    assert ranges[2] == 0
    assert len(levels) == CELLS**2
    assert set(levels) <= set(LEVELS)
    assert LEVELS[-1] in levels
    json.dumps(found, allow_nan=False)


def test_details_go_first_where_room_is_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = len(report(PAIR, tmp_path / "whole.html").read_bytes())
    monkeypatch.setattr("sigmascope.reporting.page.LARGEST", whole - 1)
    text = report(PAIR, tmp_path / "report.html").read_text(encoding="utf-8")
    assert '"details":null' in text
    assert '"companionsLeftOut":false' in text
    monkeypatch.setattr("sigmascope.reporting.document.MOST", 3)
    assert document_of(PAIR)["networks"][0]["details"] is None


@pytest.mark.parametrize("how", ["click", "Enter", "button"])
def test_a_site_opens(how: str, open_report: Open) -> None:
    page = open_report(PAIR, height=1600, reduced_motion="reduce")
    assert page.locator("#detail").is_hidden()
    slider = page.locator("#walk-site")
    slider.fill("7")
    box = page.locator("#signature-chart .ring").bounding_box()
    if how == "click":
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    elif how == "Enter":
        slider.press("Enter")
    else:
        page.get_by_role("button", name="Details").click()
    site = PAIR[0].sites[7]
    assert title(page) == site.name
    assert page.evaluate("document.activeElement.id") == "detail-title"
    facts = shown_facts(page)
    assert facts["published score"] == (
        f"{site.score:.4f}, 95 % interval {site.scatter.low:.4f} to "
        f"{site.scatter.high:.4f} (mean of 3 batches)"
    )
    assert facts["population score"].startswith(f"{site.population:.4f}, 95 % interval ")
    assert facts["channels"] == f"{site.dim}, axis 1: follows linear"
    assert facts["input"] == "64 × 16, float32"
    assert facts["transport proved by, batches"] == "identity 3"
    assert page.locator("#detail [data-mark=dot] circle").count() == 3
    assert page.locator("#detail [data-mark=rect]").count() == 3  # two intervals and the cells
    filled = sum(level != "0" for level in details_of(PAIR[0])["histogram"][7][-1])
    assert page.locator("#detail [data-mark=rect]").last.locator("rect").count() == filled


def test_keyboard_goes_through_sites_and_closes(open_report: Open) -> None:
    page = open_report(PAIR)
    slider = page.locator("#walk-site")
    slider.focus()
    page.keyboard.press("Enter")
    assert title(page) == PAIR[0].sites[0].name
    assert page.get_by_role("button", name="Previous").is_disabled()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Next"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert title(page) == PAIR[0].sites[2].name
    assert slider.input_value() == "2"  # the slider follows
    page.keyboard.press("Escape")
    assert page.locator("#detail").is_hidden()
    assert page.evaluate("document.activeElement.id") == "walk-site"
    assert fragment(page) == ""


def test_the_address_restores_the_view(open_file: Any, tmp_path: Path) -> None:
    path = report([*PAIR, gapped()], tmp_path / "report.html")
    page = open_file(path).page
    page.get_by_text("fraction of the network", exact=True).click()
    page.locator(".pick", has_text="resnet").locator("input").uncheck()
    for _ in range(2):
        page.locator("#network-table thead button", has_text="median").first.click()
    page.locator("#walk-site").press("Enter")
    page.get_by_role("button", name="Next").click()
    link = page.evaluate("location.href")
    assert fragment(page) == "#networks=1,2&depth=share&sort=median,descending&site=1,2"
    page.reload()  # as one who is sent the link
    assert page.evaluate("location.href") == link
    assert title(page) == PAIR[1].sites[1].name
    assert page.locator(".pick.chosen").count() == 2
    assert page.locator("#depth input:checked").get_attribute("value") == "share"
    assert page.locator("#network-table [aria-sort]").get_attribute("aria-sort") == "descending"
    page.evaluate("location.hash = '#networks=&site=0,1'")
    page.wait_for_function("document.querySelectorAll('.pick.chosen').length === 0")
    assert title(page) == PAIR[0].sites[0].name


@pytest.mark.parametrize(
    "text",
    ["#networks=9,x,-1&depth=deep&sort=colour,up&site=7,99", "#site=", "#=&&=", "#site=%E0%A4"],
)
def test_a_wrong_address_does_no_harm(text: str, open_file: Any, tmp_path: Path) -> None:
    opened: Opened = open_file(report(PAIR, tmp_path / "report.html"))
    opened.page.evaluate("(text) => (location.hash = text)", text)
    opened.page.evaluate("() => new Promise((done) => setTimeout(done, 50))")
    assert opened.page.locator("#detail").is_hidden()
    assert opened.complaints() == []


def test_links_to_sections_and_sites_stay(open_report: Open) -> None:
    page = open_report(PAIR)
    page.get_by_role("navigation").get_by_role("link", name="Distances").click()
    assert fragment(page) == "#distances"
    page.locator("#sites-1 summary").click()
    page.locator("#sites-1 tbody a").nth(3).click()
    page.locator("#detail").wait_for()
    assert title(page) == PAIR[1].sites[3].name
    assert page.locator("#walk-network").input_value() == "1"


def test_the_link_is_copied(open_report: Open) -> None:
    page = open_report(PAIR, permissions=["clipboard-read", "clipboard-write"])
    page.locator("#walk-site").press("Enter")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").endswith("report.html#site=0,1")


def test_csv_has_every_site(open_report: Open) -> None:
    page = open_report(PAIR)
    name, text = downloaded(page, "CSV")
    assert name == "sigmascope-sites.csv"
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(PAIR[0]) + len(PAIR[1])
    site, row = PAIR[0].sites[4], rows[4]
    assert (row["network"], row["call"], row["site"]) == ("resnet", "5", site.name)
    assert float(row["score"]) == pytest.approx(site.score, abs=5e-5)
    assert float(row["population"]) == pytest.approx(site.population, abs=5e-5)
    half = float(row["population half width 95 %"])
    assert half == pytest.approx(site.population - site.low, abs=5e-5)
    assert float(row["cka"]) == pytest.approx(site.metrics["cka"], rel=1e-3)
    assert rows[-1]["population"] == ""


def test_json_has_everything(open_report: Open) -> None:
    page = open_report([*PAIR, gapped()], told={"data": "made"})
    name, text = downloaded(page, "JSON")
    found = json.loads(text)
    assert (name, found["data"]) == ("sigmascope-report.json", "made")
    assert [one["name"] for one in found["networks"]] == ["resnet", "vit", "gapped"]
    site = found["networks"][0]["sites"][1]
    assert site["name"] == PAIR[0].sites[1].name
    assert site["scores"] == [round(score, 4) for score in PAIR[0].sites[1].scores]
    assert len(site["histogram"]) == 5
    assert found["networks"][2]["sites"][4]["score"] is None
    assert "does not vary" in found["networks"][2]["sites"][4]["reason"]
    matrix = found["distances"]["matrix"]
    assert matrix[0][1] == matrix[1][0] > 0
    assert matrix[2][2] == 0


def test_hostile_names_stay_text_in_files(open_report: Open) -> None:
    formula = example("=1+1", [("@SUM(A1)", 0), ("-2", 0), ('a "b", c', 0)])
    page = open_report([formula, *hostile()[:4]])
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "CSV")[1])))
    assert rows[0]["network"] == "'=1+1"
    assert [row["site"] for row in rows[:3]] == ["'@SUM(A1)", "'-2", 'a "b", c']
    page.locator("#walk-site").press("Enter")
    assert page.evaluate("window.harmed") is None


def test_a_site_without_score_or_histogram_says_why(open_report: Open) -> None:
    page = open_report([gapped()])
    page.locator("#walk-site").fill("4")
    page.locator("#walk-site").press("Enter")
    text = page.locator("#detail").inner_text()
    assert "does not vary" in text
    assert "has no histogram" in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_all_fits_on_a_telephone(
    theme: str, open_report: Open, axe: Any
) -> None:
    options = {"color_scheme": theme, "reduced_motion": "reduce"}
    page = open_report(PAIR, width=390, height=844, **options)
    page.locator("#walk-open").click()
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 900})
    assert axe(page) == []


def test_details_that_were_left_out_are_told(
    open_report: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sigmascope.reporting.document.MOST", 1)
    page = open_report(PAIR)
    assert "details of single sites are left out" in page.locator("#remarks").inner_text()
    page.locator("#walk-open").click()
    assert "left out to keep this page small" in page.locator("#detail").inner_text()
    assert json.loads(downloaded(page, "JSON")[1])["networks"][0]["sites"][0]["score"] > 0
