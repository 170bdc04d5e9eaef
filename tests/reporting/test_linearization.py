"""The page of a linearized network in Chromium."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.errors import InputTypeError
from sigmascope.linearize import Cost, Folding, Linearization, Split, fit
from sigmascope.reporting.linearization import document_of, linearization_page

HOSTILE = '</script><img src=x onerror="alert(1)">\u202e'


@functools.cache
def made() -> Linearization:
    torch.manual_seed(0)
    x = torch.randn(300, 6)
    layers: list[nn.Module] = []
    for width in (6, 16, 16):
        layers += [nn.Linear(width, 16), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Linear(16, 3)).eval()
    split = Split.divided((x, (x[:, :3]).argmax(1)))
    found = fit(network, split, budget=2, epochs=2, by="gradient", fold=False, baseline=True)
    costs = Cost(4, 3, 1000, 2000, 0.004), Cost(3, 1, 800, 1500, 0.002)
    folding = Folding(("0 + 2 → one linear layer",), ("4: it has a hook",), ("a:b",), *costs)
    return replace(found, folding=folding, name="my/network", data="some data")


@pytest.fixture
def opened(open_file: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    pages = []

    def opened(result: Linearization, **options: Any) -> Any:
        found = open_file(linearization_page(result, tmp_path / "page.html"), **options)
        pages.append(found)
        return found.page

    yield opened
    for one in pages:
        assert one.complaints() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(opened: Any, axe: Any, theme: str) -> None:
    page = opened(made(), color_scheme=theme)
    page.locator("summary").click()
    page.locator("#curve-details table").wait_for()
    assert axe(page) == []


def test_the_page_fits_a_telephone(opened: Any, axe: Any) -> None:
    page = opened(made(), width=390, height=844)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_it_shows_the_numbers(opened: Any) -> None:
    result = made()
    page = opened(result)
    assert page.title() == "my/network, linearized – sigmascope"
    cards = page.locator("#cards").inner_text()
    assert "1 of 3" in cards
    assert f"{result.before.accuracy:.2f} → {result.after.accuracy:.2f}" in cards
    assert "4 → 3" in cards
    assert "4 → 2" in cards
    rows = page.locator("#site-table tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == [site.name for site in result.plan.ranking]
    assert ["replaced" in row for row in rows] == [True, True, False]
    for site, row in zip(result.plan.ranking, rows, strict=True):
        assert f"{site.score:.4f}" in row
        assert f"{site.low:.4f} – {site.high:.4f}" in row
    assert page.locator("#tuning-table tbody tr").count() == 4
    assert "0 + 2 → one linear layer" in page.locator("#folding-table").inner_text()
    assert "4: it has a hook" in page.locator("#folding-table").inner_text()
    assert "some data" in page.locator("#setting-pairs").inner_text()


def test_the_chart_has_every_point(opened: Any) -> None:
    result = made()
    page = opened(result)
    # two kinds of points, and the ring
    dots = page.locator("#curve-chart svg.plot [data-mark=dot] path").count()
    rings = page.locator("#curve-chart svg.plot [data-mark=dot] circle").count()
    assert dots + rings == len(result.points) + 1
    label = page.locator("#curve-chart svg.plot").get_attribute("aria-label")
    assert f"{result.points[0].held_out.accuracy:.2f} %" in label
    assert f"{result.chosen.held_out.accuracy:.2f} %" in label


def test_the_slider_goes_through_the_points(opened: Any) -> None:
    result = made()
    page = opened(result)
    slider = page.locator("#walk-point")
    slider.focus()
    for number, point in enumerate(result.points):
        slider.fill(str(number))
        text = slider.get_attribute("aria-valuetext")
        assert f"accuracy {point.held_out.accuracy:.2f} %" in text
        assert page.locator("#readout").inner_text() == text
        assert f"{point.left} activation" in page.locator("#curve-chart .tip.shown").inner_text()
        assert ("the result" in text) is (point is result.chosen)


def test_the_curve_is_a_table_too(opened: Any) -> None:
    result = made()
    page = opened(result)
    page.locator("summary").click()
    page.locator("#curve-details table").wait_for()
    rows = page.locator("#curve-details tbody tr").all_inner_texts()
    assert len(rows) == len(result.points)
    assert f"{result.points[1].held_out.accuracy:.2f} %" in rows[1]


def test_sections_without_content_are_left_out(opened: Any) -> None:
    page = opened(replace(made(), tunings=(), folding=None, settings=None))
    for name in ("tuning", "folding"):
        assert not page.locator(f"#{name}").is_visible()
        assert not page.locator(f'nav a[href="#{name}"]').is_visible()
    assert page.locator("#sites").is_visible()


def test_names_are_text_whatever_they_hold(opened: Any) -> None:
    result = made()
    sites = tuple(replace(site, path=HOSTILE, reason=HOSTILE) for site in result.plan.sites)
    plan = replace(result.plan, sites=sites, by=HOSTILE, meaning=HOSTILE)
    assert result.folding is not None
    folding = replace(result.folding, steps=(HOSTILE,), refused=(HOSTILE,))
    page = opened(replace(result, plan=plan, folding=folding, name=HOSTILE, data=HOSTILE))
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("#setting-pairs").inner_text()


def test_themes_are_switched(opened: Any) -> None:
    page = opened(made(), color_scheme="light")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_other_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputTypeError, match="result must be of type Linearization"):
        linearization_page(sg.Moments(), tmp_path / "page.html")  # type: ignore[arg-type]


def test_the_document_is_plain(tmp_path: Path) -> None:
    result = made()
    one, two = (linearization_page(result, tmp_path / name) for name in ("a.html", "b.html"))
    assert one.read_bytes() == two.read_bytes()
    document = document_of(result)
    assert [point["isResult"] for point in document["points"]].count(True) == 1
