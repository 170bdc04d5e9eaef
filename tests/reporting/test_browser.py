"""The page in Chromium: what it shows and says, and that it is accessible to everybody."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from sigmascope.compare.distances import distances
from sigmascope.compare.statistics import statistics
from sigmascope.measure.result import Signature
from tests.compare.made import made, populated
from tests.reporting.conftest import Open
from tests.reporting.examples import (
    example,
    gapped,
    residual_paths,
    transformer_paths,
    without_scores,
)

PAIR = [
    example("resnet50", residual_paths(16), seed=1),
    example("vit_b_16", transformer_paths(12), kind="gelu", seed=2),
]
FEW = [*PAIR, example("resnet9", residual_paths(4), seed=3), gapped(), without_scores()]
NINE = [example(f"net{number}", residual_paths(5), seed=number) for number in range(9)]
CERTAIN = [populated(one, seed=seed) for seed, one in enumerate(FEW)]
SETS = {"one": PAIR[:1], "pair": PAIR, "few": FEW, "nine": NINE, "no scores": [without_scores()]}
SETS |= {"certain": CERTAIN, "one certain": CERTAIN[:1]}
# Where on the screen the middle of a line lies.
MIDDLE = """(line) => {
  const at = line.getPointAtLength(line.getTotalLength() / 2).matrixTransform(line.getScreenCTM());
  return [at.x, at.y];
}"""
HEAD = "#network-table thead button"
PARTS = ("tbody .range", "tbody .extent")


def names_in_table(page: Any) -> list[str]:
    return page.locator("#network-table tbody th").all_inner_texts()


def ring_position(page: Any) -> tuple[float, float]:
    """Where on the screen the ring of the signature chart is."""
    box = page.locator("#signature-chart .ring").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def unfold(page: Any, details: str) -> Any:
    """Open details and wait for what is built then."""
    found = page.locator(details)
    found.locator("summary").click()
    found.locator("table").first.wait_for()
    return found


def tip_of(page: Any, chart: str) -> str:
    return page.locator(f"{chart} .tip.shown").inner_text()


@pytest.mark.parametrize("chosen", SETS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_the_page_is_quiet(
    chosen: str, theme: str, open_report: Open, axe: Any
) -> None:
    page = open_report(SETS[chosen], color_scheme=theme, reduced_motion="reduce")
    for number in range(page.locator("details").count()):
        unfold(page, f"details >> nth={number}")
    assert axe(page) == []


def test_axe_finds_something_where_something_is_wrong(open_report: Open, axe: Any) -> None:
    page = open_report(PAIR)
    page.evaluate(
        "document.querySelector('#signature-chart svg.plot').removeAttribute('aria-label')"
    )
    page.evaluate("document.querySelector('.explain').style.color = '#cccccc'")
    assert {complaint.partition(":")[0] for complaint in axe(page)} == {
        "svg-img-alt",
        "color-contrast",
    }


def test_axe_finds_nothing_on_a_telephone(open_report: Open, axe: Any) -> None:
    page = open_report(FEW, width=390, height=844)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_hover_tells_site_kind_score_spread_and_width(open_report: Open) -> None:
    page = open_report(PAIR)
    page.locator("#walk-site").fill("7")  # the slider shows where the site is
    x, y = ring_position(page)
    page.locator("h1").hover()
    page.locator("#walk-site").blur()
    assert page.locator(".tip.shown").count() == 0
    page.mouse.move(x + 2, y + 2)
    site = PAIR[0].sites[7]
    assert site.std > 0
    assert site.call == 0
    assert tip_of(page, "#signature-chart").splitlines() == [
        site.name,
        "resnet50, call 8 of 49",
        f"relu, width {site.dim}",
        f"score {site.score:.4f} ± {site.std:.4f}",
        "std over 3 batches",
    ]
    page.mouse.move(5, 5)
    assert page.locator(".tip.shown").count() == 0


def heights_of(page: Any) -> list[float]:
    """The heights of the bars in the signature chart, in pixels."""
    return page.locator("#signature-chart svg.plot [data-mark=rule] line").evaluate_all(
        "all => all.map((one) => Math.abs(one.getAttribute('y1') - one.getAttribute('y2')))"
    )


def test_population_scores_are_drawn_and_told_with_their_intervals(open_report: Open) -> None:
    page = open_report(CERTAIN, told={"by": "population"})
    page.locator("#walk-site").fill("7")
    site = CERTAIN[0].sites[7]
    half = site.population - site.low
    assert tip_of(page, "#signature-chart").splitlines()[3:] == [
        f"population score {site.population:.4f} ± {half:.4f}",
        "95 % interval",
        f"published {site.score:.4f} ± {site.std:.4f}",
        "std over 3 batches",
    ]
    scored = [site for one in CERTAIN for site in one.sites if site.population == site.population]
    assert sum(height > 1 for height in heights_of(page)) == len(scored)
    assert "population score, 95 % interval" in page.locator("#signature-chart").text_content()
    assert page.locator("#density-chart").text_content().count("population score") == 1
    assert "of their population scores" in page.locator("#distance-chart").inner_text()
    assert "Compared are population scores" in page.locator("#estimator").inner_text()
    row = page.locator("#network-table tbody tr").first.locator("td:not(.ranged)")
    told = statistics(CERTAIN[:1], by="population")
    median, half = told.table["median"][0], told.half_width["median"][0]
    assert row.nth(2).text_content() == f"{median:.3f} ± {half:.3f}"


def test_population_scores_stand_beside_published_ones(open_report: Open) -> None:
    page = open_report(CERTAIN)
    page.locator("#walk-site").fill("7")
    site = CERTAIN[0].sites[7]
    assert tip_of(page, "#signature-chart").splitlines()[3:] == [
        f"score {site.score:.4f} ± {site.std:.4f}",
        "std over 3 batches",
        f"population score {site.population:.4f} ± {site.population - site.low:.4f}",
        "95 % interval",
    ]
    scored = [site for one in CERTAIN for site in one.sites if site.population == site.population]
    plain = sum(height > 1 for height in heights_of(open_report(FEW)))
    assert sum(height > 1 for height in heights_of(page)) == plain + len(scored)
    axis = "affinity score; beside it, the population score, 95 % interval"
    assert axis in page.locator("#signature-chart").text_content()
    assert "population" not in page.locator("#density-chart").text_content()
    assert "of their published scores" in page.locator("#distance-chart").inner_text()
    told = page.locator("#estimator").inner_text()
    assert "Compared are published scores" in told
    assert "rank what is most non-linear" in told
    heads = page.locator(HEAD).all_inner_texts()
    row = page.locator("#network-table tbody tr").first.locator("td:not(.ranged)")
    found = statistics(CERTAIN[:1], by="population")
    median, half = found.table["median"][0], found.half_width["median"][0]
    cell = row.nth(heads.index("population median") - 1).text_content()
    assert cell == f"{median:.3f} ± {half:.3f}"
    assert row.nth(2).text_content() == f"{CERTAIN[0].summary()['median']:.3f}"
    details = unfold(page, "#sites-0")
    assert "population, 95 %" in details.locator("thead th").all_inner_texts()
    site = CERTAIN[0].sites[0]
    assert f"{site.population:.4f} ± {site.population - site.low:.4f}" in details.inner_text()


@pytest.mark.parametrize("by", ["published", "population"])
def test_the_table_of_networks_fits_into_1200_pixels(by: str, open_report: Open) -> None:
    facts = {one.name: {"accuracy": 76.1, "depth": 50, "flops": 4.1e9} for one in CERTAIN}
    page = open_report(CERTAIN, told={"by": by, "facts": facts}, width=1200)
    frame = page.locator("#network-table .frame")
    assert frame.evaluate("one => one.scrollWidth - one.clientWidth") == 0


def test_a_negative_minimum_is_on_the_line(open_report: Open) -> None:
    low = populated(made("low", [0.1, 0.5, 0.9]), bias=0.25)
    page = open_report([low], told={"by": "population"})
    assert page.locator("#network-table thead .ranged").inner_text() == "−0.2 – 1"
    line, extent = (page.locator(f"#network-table {one}").bounding_box() for one in PARTS)
    start = (extent["x"] - line["x"]) / line["width"]
    assert start == pytest.approx((-0.15 + 0.2) / 1.2, abs=0.01)
    head = open_report([low]).locator("#network-table thead .ranged")
    assert head.inner_text() == "0 – 1"


def test_what_cannot_be_told_apart_is_tied(open_report: Open) -> None:
    near = populated(made("near", [0.7, 0.4, 0.402, 0.9], paths=list("abcd")))
    page = open_report([near])
    card = page.locator(".card", has_text="Most non-linear layer, tied")
    half = near.sites[1].population - near.sites[1].low
    assert card.inner_text().splitlines()[1:] == [
        "b",
        f"population score 0.3800 ± {half:.4f}; tied with c",
    ]
    text = unfold(page, "#sites-0").locator(".lowest").inner_text()
    assert text == (
        f"Most non-linear layer, tied: b (population score 0.3800 ± {half:.4f}) with c; the "
        "intervals of the differences include 0."
    )
    apart = populated(made("other", [0.7, 0.4, 0.41, 0.99], paths=list("abcd")))
    page = open_report([near, apart, populated(made("high", [0.9, 0.95]))])
    cards = page.locator(".card").all_inner_texts()
    assert any(card.startswith("Most non-linear, tied\nnear\npopulation median") for card in cards)
    assert any(card.startswith("Least non-linear\nhigh\npopulation median") for card in cards)


def test_hover_works_in_shares_of_the_network(open_report: Open) -> None:
    page = open_report(PAIR)
    page.get_by_text("fraction of the network", exact=True).click()
    page.locator("#walk-network").select_option("vit_b_16")
    page.locator("#walk-site").fill("11")
    box = page.locator("#signature-chart svg.plot").bounding_box()
    # the last call lies at the right end
    assert ring_position(page)[0] > box["x"] + box["width"] - 30
    assert tip_of(page, "#signature-chart").splitlines()[:2] == [
        PAIR[1].sites[11].name,
        "vit_b_16, call 12 of 12",
    ]


def test_keyboard_walks_through_the_sites(open_report: Open) -> None:
    page = open_report(PAIR)
    slider = page.locator("#walk-site")
    slider.focus()
    assert PAIR[0].sites[0].name in tip_of(page, "#signature-chart")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    site = PAIR[0].sites[2]
    assert tip_of(page, "#signature-chart").splitlines()[0] == site.name == "layer1.0.relu#1"
    said = slider.get_attribute("aria-valuetext")
    assert said.startswith(
        f"{site.name} · resnet50, call 3 of 49 · relu, width {site.dim} · score "
        f"{site.score:.4f} ± {site.std:.4f}"
    )
    assert page.locator("#readout").inner_text() == said
    page.keyboard.press("Tab")
    assert page.locator(".tip.shown").count() == 0


def test_a_site_without_a_score_says_why(open_report: Open) -> None:
    page = open_report([gapped()])
    page.locator("#walk-site").fill("4")
    assert (
        page.locator("#readout")
        .inner_text()
        .endswith("score – · the output does not vary (3 of 3 batches)")
    )
    assert page.locator("#signature-chart .ring.shown").count() == 0
    # The line has a gap there: it is drawn in two parts.
    drawn = page.locator("#signature-chart svg.plot [data-mark=line] path").first.get_attribute("d")
    assert drawn.count("M") == 2


def test_no_line_hides_a_gap(open_report: Open) -> None:
    page = open_report([gapped(), example("whole", residual_paths(6), seed=6)])
    lines = page.locator("#signature-chart svg.plot [data-mark=line] path")

    def parts() -> list[int]:
        return [
            drawn.count("M")
            for drawn in lines.evaluate_all("all => all.map((one) => one.getAttribute('d'))")
        ]

    assert parts() == [2, 1]  # in color
    page.locator("#walk-site").fill("7")
    # under the pointer
    assert page.locator("#signature-chart .trace").get_attribute("d").count("M") == 2
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#signature-chart [data-mark=dot]").count() == 0
    assert parts() == [2, 1]  # faint


@pytest.mark.parametrize("how", ["click", "Enter", "Space"])
def test_table_sorts(how: str, open_report: Open) -> None:
    page = open_report(FEW)
    assert page.locator("#network-table [aria-sort]").count() == 0

    def sort(label: str) -> str | None:
        button = page.locator(HEAD, has_text=re.compile(f"^{label}$"))
        if how == "click":
            button.click()
        else:
            button.focus()
            page.keyboard.press(how)
        assert page.locator("#network-table [aria-sort]").count() == 1
        return button.locator("..").get_attribute("aria-sort")

    scored, rest = FEW[:-1], [FEW[-1].name]
    for statistic in ("min", "median", "max", "mean", "std", "spread"):
        expected = [
            one.name for one in sorted(scored, key=lambda one, key=statistic: one.summary()[key])
        ]
        assert sort(statistic) == "ascending"
        assert names_in_table(page) == expected + rest
        assert sort(statistic) == "descending"
        assert names_in_table(page) == expected[::-1] + rest
    assert sort("network") == "ascending"
    assert names_in_table(page) == ["gapped", "nothing measured", "resnet9", "resnet50", "vit_b_16"]
    assert sort("sites") == "ascending"
    assert names_in_table(page)[0] == "nothing measured"
    assert sort("parameters") == "ascending"
    assert names_in_table(page) == [one.name for one in sorted(FEW, key=lambda one: one.parameters)]
    assert page.locator("#sorted").inner_text() == "Sorted by parameters, ascending."


def test_table_tells_the_numbers(open_report: Open) -> None:
    page = open_report([replace(FEW[0], samples=256), *FEW[1:]])
    cells = (
        page.locator("#network-table tbody tr").first.locator("td:not(.ranged)").all_inner_texts()
    )
    summary = [
        f"{PAIR[0].summary()[name]:.3f}"
        for name in ("min", "median", "max", "mean", "std", "spread")
    ]
    assert cells[:-2] == ["49", *summary]
    assert cells[-1] == "256"
    last = page.locator("#network-table tbody tr").last.locator("td:not(.ranged)").all_inner_texts()
    assert last[1:7] == ["–"] * 6


def test_theme_follows_the_system_and_the_button(open_report: Open) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    page = open_report(PAIR, color_scheme="dark")
    button = page.locator("#theme")
    dark = page.evaluate(background)
    line = (
        "getComputedStyle(document.querySelector('#signature-chart [data-mark=line] "
        "path').parentNode).stroke"
    )
    dark_line = page.evaluate(line)
    assert button.inner_text() == "Light theme"
    button.click()
    assert (page.evaluate(background), button.inner_text()) == ("rgb(246, 247, 248)", "Dark theme")
    assert page.evaluate(line) != dark_line
    button.press("Enter")
    assert page.evaluate(background) == dark
    page = open_report(PAIR, color_scheme="light")
    assert page.evaluate(background) == "rgb(246, 247, 248)"
    page.emulate_media(color_scheme="dark")
    assert (page.evaluate(background), page.locator("#theme").inner_text()) == (dark, "Light theme")


def test_at_most_eight_networks_have_a_color(open_report: Open) -> None:
    page = open_report(NINE)
    boxes = page.locator(".pick input")
    assert boxes.count() == 9
    assert page.locator(".pick.chosen").count() == 3  # the ends and the middle
    for box in boxes.all():
        if box.is_enabled() and not box.is_checked():
            box.check()
    assert page.locator(".pick.chosen").count() == 8
    assert page.locator(".pick input:disabled").count() == 1
    strokes = page.locator("#signature-chart [data-mark=dot]").evaluate_all(
        "all => all.map((one) => one.getAttribute('fill'))"
    )
    assert sorted(strokes) == [f"var(--slot-{slot})" for slot in range(8)]
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#signature-chart [data-mark=dot]").count() == 0
    page.get_by_role("button", name="Reset").click()
    assert page.locator("#signature-chart [data-mark=dot]").count() == 3


def test_a_single_network_has_a_color_for_each_place_in_a_block(open_report: Open) -> None:
    page = open_report(PAIR)
    assert page.locator("#places .item").count() == 0
    page.locator(".pick", has_text="vit_b_16").locator("input").uncheck()
    assert page.locator("#places .item").all_inner_texts() == [
        "outside the blocks",
        "relu",
        "relu#1",
        "relu#2",
    ]
    counts = page.locator("#signature-chart [data-mark=dot]").evaluate_all(
        "all => all.map((one) => one.childElementCount)"
    )
    assert counts == [1, 16, 16, 16]


def test_many_networks_can_be_filtered(open_report: Open) -> None:
    page = open_report(
        [*NINE, *(example(f"other{number}", residual_paths(3)) for number in range(4))]
    )
    page.get_by_label("Filter networks").fill("OTHER")
    assert page.locator(".pick:visible").count() == 4


def test_heat_map_tells_both_names_and_their_distance(open_report: Open) -> None:
    page = open_report(FEW)
    stage = page.locator("#distance-chart .stage svg.plot")
    stage.scroll_into_view_if_needed()
    found = distances(FEW[:-1])
    order = found.cluster().order
    # first row, second column
    cell = page.locator("#distance-chart [data-mark=cell] rect").nth(1).bounding_box()
    page.mouse.move(cell["x"] + cell["width"] / 2, cell["y"] + cell["height"] / 2)
    expected = [
        found.names[order[0]],
        found.names[order[1]],
        f"distance {found.matrix[order[0], order[1]]:.4f}",
    ]
    assert tip_of(page, "#distance-chart").splitlines() == expected
    page.mouse.move(5, 5)
    assert page.locator(".tip.shown").count() == 0


def test_distances_are_there_as_a_table(open_report: Open) -> None:
    page = open_report(FEW)
    details = page.locator("#distance-chart details")
    assert details.locator("td").count() == 0
    unfold(page, "#distance-chart details")
    found = distances(FEW[:-1])
    order = found.cluster().order
    shown = details.locator("tbody td").all_inner_texts()
    assert shown == [f"{found.matrix[row, column]:.4f}" for row in order for column in order]


def test_tree_joins_all_networks(open_report: Open) -> None:
    page = open_report(FEW)
    tree = page.locator("#distance-chart .heat > div").first
    assert tree.locator("[data-mark=line] path").count() == len(FEW) - 2
    leaves = tree.bounding_box(), page.locator("#distance-chart .stage").bounding_box()
    assert leaves[0]["height"] == leaves[1]["height"]  # so that a leaf meets its row


def test_densities_are_drawn_and_read(open_report: Open) -> None:
    page = open_report(FEW)
    chart = page.locator("#density-chart svg.plot")
    chart.scroll_into_view_if_needed()
    assert chart.locator("[data-mark=area] path").count() == 4
    path = chart.locator("[data-mark=line] path").first
    x, y = path.evaluate(MIDDLE)
    page.mouse.move(x, y)
    assert tip_of(page, "#density-chart").splitlines()[0] in [one.name for one in FEW]
    page = open_report([without_scores()])
    assert "No network has different scores" in page.locator("#density-chart").inner_text()


def rows_of(signature: Signature) -> list[list[str]]:
    return [
        [
            site.name,
            str(place),
            site.kind,
            str(site.dim),
            str(site.n),
            f"{site.score:.4f}",
            f"{site.std:.4f}",
        ]
        for place, site in enumerate(signature.sites, 1)
    ]


def test_site_tables_are_built_when_they_are_opened(open_report: Open) -> None:
    page = open_report(PAIR)
    details = page.locator("#sites-0")
    assert page.locator("#site-tables table").count() == 0
    page.get_by_role("link", name="resnet50").click()
    details.locator("table").wait_for()
    rows = details.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [row[:7] for row in rows] == rows_of(PAIR[0])
    heads = details.locator("thead th").all_inner_texts()
    assert heads == [
        "site",
        "call",
        "activation",
        "width",
        "samples",
        "score",
        "± std",
        "cka",
        "norm",
        "sparsity",
        "entropy",
        "r2",
    ]
    details.locator("summary").click()
    details.locator("summary").click()
    assert details.locator("table").count() == 1


def test_coverage_names_what_is_missing(open_report: Open) -> None:
    signature = gapped()
    page = open_report([signature])
    text = unfold(page, "#sites-0").inner_text()
    assert str(signature.coverage) in text
    for expected in (
        "mask#1",
        "no score is defined for it",
        "classifier.unused",
        "the gates of lstm are not seen",
        "does not vary",
    ):
        assert expected in text


def test_settings_and_remarks_are_told(open_report: Open) -> None:
    page = open_report(FEW)
    assert "nothing measured" in page.locator("#remarks").inner_text()
    shared = page.locator(".pairs div").all_inner_texts()
    assert "covariance\nledoit-wolf" in [re.sub(r"\s+", "\n", text) for text in shared]
    assert page.locator("#setting-tables thead th").all_inner_texts() == [
        "network",
        "data",
        "model",
    ]


def test_prints_in_light_without_controls(open_report: Open) -> None:
    page = open_report(FEW, color_scheme="dark")
    page.locator("#theme").click()
    page.locator("#theme").click()
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in ("#theme", "nav", ".walk", ".tools", ".pick:not(.chosen)"):
        assert page.locator(hidden).first.is_hidden()
    for shown in (
        "#signature-chart svg.plot",
        "#distance-chart .stage svg.plot",
        "#density-chart svg.plot",
        "#network-table table",
        ".pick.chosen",
    ):
        assert page.locator(shown).first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
    page.emulate_media(media="screen")
    assert page.pdf().startswith(b"%PDF")


def test_headings_and_landmarks(open_report: Open) -> None:
    page = open_report(FEW)
    unfold(page, "#sites-0")
    assert page.locator("h1").count() == 1
    assert page.locator("h2:visible").all_inner_texts() == [
        "Signatures",
        "Networks",
        "Distances",
        "Densities",
        "Sites",
        "Settings and versions",
    ]
    assert page.evaluate(
        "[...document.querySelectorAll('table')].every((table) => table.caption?.textContent)"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('svg.plot')].every((one) => one.role === 'img' && "
        "one.ariaLabel)"
    )


def test_first_stop_of_the_keyboard_skips_to_the_content(open_report: Open) -> None:
    page = open_report(PAIR)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_charts_follow_the_width_of_the_window(open_report: Open) -> None:
    page = open_report(PAIR)
    before = page.locator("#signature-chart svg.plot").bounding_box()["width"]
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function(
        f"document.querySelector('#signature-chart svg.plot').clientWidth < {before - 100}"
    )
    assert page.locator("#signature-chart svg.plot").count() == 1
