"""The page and the gallery: sound markup, every claim, and nothing that a hostile file could
smuggle in.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sigmascope.errors import InputError
from sigmascope_papers.index import write_gallery, write_index
from sigmascope_papers.item import VERDICTS, Check
from sigmascope_papers.run import Outcome

VOID = {"meta", "img", "link", "br"}
HOSTILE = (
    "</h2><script>alert(1)</script>\" onerror='x' | `b` [a](javascript:x) *c* &amp; \u2028\n# d"
)


class Page(HTMLParser):
    """Checks that what is opened is closed, and keeps elements and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def outcome(tmp_path: Path) -> Outcome:
    for name in ("fig1", "fig1-guard"):
        (tmp_path / f"{name}.png").write_bytes(b"picture")
    checks = tuple(Check(f"claim {verdict}", "0.5 ± 0.1", "0.45", verdict) for verdict in VERDICTS)
    return Outcome(
        "fig1",
        "a title",
        "a budget",
        "exact",
        "none",
        checks,
        VERDICTS[2],
        ("fig1", "fig1-guard"),
        1.5,
    )


def test_the_page_shows_everything(outcome: Outcome, tmp_path: Path) -> None:
    path = write_index([outcome, replace(outcome, name="fig2", verdict=VERDICTS[0])], tmp_path)
    assert path == tmp_path / "index.html"
    page = Page(path.read_text(encoding="utf-8"))
    for text in (
        "a title",
        "a budget",
        "0.5 ± 0.1",
        "0.45",
        *VERDICTS,
        "1.5 s",
        "8 claims: 2 hold, 2 weakly hold, 2 do not hold, 2 not testable here. ",
        "2 main claims: 2 hold.",
    ):
        assert text in page.text
    assert [image["src"] for image in page.all("img")] == ["fig1.png", "fig1-guard.png"] * 2
    assert all(image["alt"] for image in page.all("img"))
    assert page.all("html") == [{"lang": "en"}]
    identifiers = [heading["id"] for heading in page.all("h2") if heading["id"] != "items"]
    assert [link["href"] for link in page.all("a") if (link["href"] or "").startswith("#")] == [
        f"#{one}" for one in identifiers
    ]
    assert not page.all("script")


def test_the_page_tells_verdicts_apart_without_colors(outcome: Outcome, tmp_path: Path) -> None:
    page = write_index([outcome], tmp_path).read_text(encoding="utf-8")
    badges = re.findall(r'<span class="badge (\w+)">(.)', page)
    assert len(set(badges)) == len(VERDICTS)
    assert len({sign for _, sign in badges}) == len(VERDICTS)


def test_hostile_text_stays_text(outcome: Outcome, tmp_path: Path) -> None:
    check = Check(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    texts = dict.fromkeys(("name", "title", "budget", "exact", "uncertainty", "verdict"), HOSTILE)
    hostile = replace(outcome, checks=(check,), **texts)
    page = Page(write_index([hostile], tmp_path).read_text(encoding="utf-8"))
    assert HOSTILE in page.text
    assert not page.all("script")
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    gallery = write_gallery([hostile], tmp_path / "gallery.md", pictures=tmp_path).read_text(
        encoding="utf-8"
    )
    assert "<script" not in gallery
    assert not re.search(r"(?<!\\)\[a(?<!\\)\]", gallery)
    assert not re.search(r"^# d", gallery, re.MULTILINE)
    rows = [line for line in gallery.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4, 5}  # no text adds a cell


@pytest.mark.parametrize("name", ["../fig1", "fig1/../fig1", "missing", "javascript:x"])
def test_a_picture_is_a_file_in_the_folder(name: str, outcome: Outcome, tmp_path: Path) -> None:
    folder = tmp_path / "fig1"
    folder.mkdir()
    strange = replace(outcome, figures=(name,))
    with pytest.raises(
        InputError, match=r"has no picture .* of fig1\. Reproduce fig1 into that directory"
    ):
        write_index([strange], folder)
    with pytest.raises(InputError, match="has no picture"):
        write_gallery([strange], tmp_path / "gallery.md", pictures=folder)


def test_odd_names_of_pictures_are_quoted(outcome: Outcome, tmp_path: Path) -> None:
    odd = "a\"b <c>'#?%20"
    (tmp_path / f"{odd}.png").write_bytes(b"picture")
    page = Page(
        write_index([replace(outcome, figures=(odd,))], tmp_path).read_text(encoding="utf-8")
    )
    assert [image["src"] for image in page.all("img")] == ["a%22b%20%3Cc%3E%27%23%3F%2520.png"]


def test_nothing_to_show_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no outcome to show"):
        write_index([], tmp_path)
    with pytest.raises(InputError, match="no outcome to show"):
        write_gallery([], tmp_path / "gallery.md")


def test_the_gallery_links_its_own_folder_or_another(outcome: Outcome, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "gallery").mkdir(parents=True)
    for name in outcome.figures:
        (docs / "gallery" / f"{name}.png").write_bytes(b"picture")
    text = write_gallery([outcome], docs / "gallery.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((.*?)\)", text)
    assert links == ["#fig1-a-title", "gallery/fig1.png", "gallery/fig1-guard.png"]
    assert "\n## fig1: a title\n" in text
    text = write_gallery([outcome], docs / "gallery.md", pictures=tmp_path).read_text(
        encoding="utf-8"
    )
    links = re.findall(r"\]\((.*?)\)", text)
    assert links == ["#fig1-a-title", "../fig1.png", "../fig1-guard.png"]
    assert "| claim holds | 0.5 ± 0.1 | 0.45 | ✓ holds |" in text
