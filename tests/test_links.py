"""Every relative link of the pages that people read on a repository's page leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "docs/guides/*.md",
        "docs/how/*.md",
        "papers/*.md",
        "zoo/*.md",
        "examples/*.md",
        ".github/**/*.md",
    )
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^()\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z]+:|//")


def links_of(text: str) -> Iterator[str]:
    """Yield the relative links of a page, without those in code."""
    for found in LINK.finditer(CODE.sub("", text)):
        target = found[1] or found[2]
        if not ELSEWHERE.match(target):
            yield target


def anchors_of(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub names them."""
    heads = re.findall(r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).lower() for head in heads)
    named = {re.sub(r"[^\w\- ]", "", word).replace(" ", "-") for word in words}
    return named | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def broken(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    for link in links_of(text):
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        known = target.exists() and target.is_relative_to(ROOT)
        heads = bool(known and anchor and target.suffix == ".md")
        if not known or (heads and anchor not in anchors_of(target.read_text(encoding="utf-8"))):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [*broken(page)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n[a](#a-title) [b](#b) [c](missing.md) `[d](code.md)` [e](https://e)\n"
    )
    assert [*broken(page)] == ["#a-title", "#b", "missing.md"]  # outside of the repository
    assert anchors_of(page.read_text()) == {"a-title"}
    assert ROOT / "README.md" in PAGES
    assert "SECURITY.md" in {*links_of((ROOT / "README.md").read_text(encoding="utf-8"))}
