"""The gallery as it is read back: nothing is lost, and what is drawn again replaces its item."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sigmascope.errors import FileFormatError
from sigmascope_papers.index import write_gallery
from sigmascope_papers.item import FAILS, HOLDS, VERDICTS, Check
from sigmascope_papers.page import merged, read_gallery
from sigmascope_papers.run import Outcome
from sigmascope_papers.table import ITEMS, prose

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery.md"


def test_the_gallery_survives_being_read_and_written(tmp_path: Path) -> None:
    found = read_gallery(GALLERY)
    again = write_gallery(found, tmp_path / "gallery.md", pictures=GALLERY.with_suffix(""))
    text = GALLERY.read_text(encoding="utf-8")
    own = [line for line in again.read_text(encoding="utf-8").splitlines() if line[:2] != "!["]
    assert own == [line for line in text.splitlines() if line[:2] != "!["]
    pictures = {f"{name}.png" for one in found for name in one.figures}
    assert pictures == {path.name for path in GALLERY.with_suffix("").glob("*.png")}


def test_every_item_is_in_the_gallery_with_its_own_description() -> None:
    found = {one.name: one for one in read_gallery(GALLERY)}
    assert list(found) == list(ITEMS)
    assert [name for name in ITEMS if found[name].protocol != prose(name).protocol] == []
    assert [name for name in ITEMS if found[name].reason != prose(name).reason] == []


def test_texts_with_marks_of_their_own_come_back(tmp_path: Path) -> None:
    texts = ("a|b <i> *c*", "\\d+ & [x](y)", "n/a · 3 < 4 (in doubt)")
    checks = tuple(Check(f"{verdict} {texts[0]}", *texts[1:], verdict) for verdict in VERDICTS)
    figures = ("fig7", "fig7-b")
    for name in figures:
        (tmp_path / f"{name}.png").write_bytes(b"picture")
    one = Outcome("fig7", *texts, "u", checks, FAILS, figures, 2.5, "a rule", "why", "", "p | q")
    page = write_gallery([one], tmp_path / "page.md", pictures=tmp_path)
    assert read_gallery(page) == [one]


def test_what_is_drawn_again_replaces_what_was_kept() -> None:
    kept = [Outcome(n, "old", "", "", "", (), HOLDS, (), 1.0) for n in ("fig7", "gone", "fig2a")]
    fresh = replace(kept[0], title="new", verdict=FAILS)
    found = merged([fresh], kept)
    assert [one.name for one in found] == ["fig2a", "fig7"]
    assert found[1] == fresh
    assert (found[0].title, found[0].protocol) == (prose("fig2a").title, prose("fig2a").protocol)


def test_a_page_without_items_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nothing\n\n## Headline claims\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"page\.md has no items"):
        read_gallery(page)
    page.write_text("## fig7: a title\n\ntext\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"no claims or no time of fig7"):
        read_gallery(page)
