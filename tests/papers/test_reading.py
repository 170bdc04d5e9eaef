"""Main claims, doubts and headlines: every name in the table is that of a claim."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sigmascope_papers.index import write_gallery, write_index
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, VERDICTS, WEAKLY, Check
from sigmascope_papers.reading import (
    DOUBTS,
    HEADLINES,
    WORDS,
    count,
    doubt_of,
    headlines,
    is_number,
    main_of,
)
from sigmascope_papers.run import Outcome
from sigmascope_papers.table import ITEMS

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery.md"
ROW = re.compile(r"^\| (.*?) \| (.*?) \| (.*) \| [✓≈✗–] (.*?) \|$", re.MULTILINE)


def stored() -> dict[str, list[Check]]:
    """Return item -> its claims, as the gallery tells them."""
    found = {}
    for section in re.split(r"^## ", GALLERY.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name = section.partition(":")[0]
        rows = [[re.sub(r"\\(.)", r"\1", cell) for cell in row] for row in ROW.findall(section)]
        checks = [Check(*row[:3], row[3].partition(" (in doubt")[0]) for row in rows]
        if name in ITEMS:
            found[name] = checks
    return found


STORED = stored()


def outcome(name: str, checks: list[Check], run: str = "") -> Outcome:
    return Outcome(name, "a title", "", "", "", tuple(checks), FAILS, (), 1.0, run=run)


def test_the_gallery_was_read() -> None:
    assert len(STORED) > 50
    assert all(check.verdict in VERDICTS for checks in STORED.values() for check in checks)


@pytest.mark.parametrize("name", STORED)
def test_every_item_has_a_main_claim(name: str) -> None:
    main = main_of(name, STORED[name])
    assert main is not None
    assert not is_number(main)


@pytest.mark.parametrize("name", DOUBTS)
def test_every_doubt_is_about_a_claim_that_does_not_hold(name: str) -> None:
    for begins, word in DOUBTS[name].items():
        assert word in WORDS
        about = [check for check in STORED[name] if doubt_of(name, check) == WORDS[word]]
        assert any(check.claim.startswith(begins) for check in about)


def test_every_failure_says_what_is_in_doubt() -> None:
    failed = [
        (name, one) for name, checks in STORED.items() for one in checks if one.verdict == FAILS
    ]
    assert {name for name, _ in failed} <= set(DOUBTS)
    assert WORDS["open"] not in {doubt_of(name, one) for name, one in failed}


def test_the_headlines_cite_claims() -> None:
    cited = [row["zoo"] + row["real"] for rows in HEADLINES.values() for row in rows]
    names = {name for rows in cited for name in _items(rows)}
    found = headlines([outcome(name, STORED[name]) for name in names])
    for paper, rows in HEADLINES.items():
        assert 5 <= len(rows) <= 8
        assert [len(one.zoo) for one in found[paper]] == [len(row["zoo"]) for row in rows]
        assert [len(one.real) for one in found[paper]] == [len(row["real"]) for row in rows]


def _items(rows: list[dict[str, str]]) -> list[str]:
    return [row["item"] for row in rows]


def test_a_headline_is_as_good_as_its_worst_evidence() -> None:
    good = [Check("the score rises with the mean", "", "", HOLDS)]
    bad = [*good, Check("inputs above 0 score 1", "", "", WEAKLY)]
    verdicts = [next(iter(headlines([outcome("fig2a", one)]).values()))[0] for one in (good, bad)]
    assert [one.verdict for one in verdicts] == [HOLDS, WEAKLY]
    assert headlines([outcome("fig3", good)]) == {}  # no evidence, no headline


def test_a_headline_that_fails_says_what_is_in_doubt(tmp_path: Path) -> None:
    split = "activations at the end of a block score above"
    checks = [Check(f"{split} those inside", "", "", verdict) for verdict in (FAILS, HOLDS)]
    bad, good = (next(iter(headlines([outcome("fig7", [one])]).values()))[0] for one in checks)
    assert (bad.verdict, bad.doubt) == (FAILS, WORDS["claim"])
    assert (good.verdict, good.doubt) == (HOLDS, "")
    failed = outcome("fig7", checks[:1])
    text = write_gallery([failed], tmp_path / "g.md", pictures=tmp_path).read_text(encoding="utf-8")
    assert "| ✗ does not hold (in doubt: the claim) | ✗ [fig7]" in text
    assert "main claim ✗ does not hold (in doubt: the claim), 0 of 1 claims hold |" in text


def test_the_links_of_the_gallery_lead_somewhere() -> None:
    text = GALLERY.read_text(encoding="utf-8")
    headings = [
        re.sub(r"\\(.)", r"\1", one) for one in re.findall(r"^## (.*)$", text, re.MULTILINE)
    ]
    # as GitHub names them: lower case, blanks become hyphens, other punctuation goes
    kept = ["".join(c for c in one.lower() if c.isalnum() or c in "-_ ") for one in headings]
    anchors = {one.replace(" ", "-") for one in kept}
    links = set(re.findall(r"\]\(#([^)]*)\)", text))
    assert len(links) > 50
    assert links <= anchors
    pictures = re.findall(r"\]\((gallery/[^)]*)\)", text)
    assert len(pictures) > 50
    assert all((GALLERY.parent / one).is_file() for one in pictures)


def test_a_failure_of_other_networks_is_not_explained_by_ours() -> None:
    failed = Check("residual networks have two modes", "2 in each", "1", FAILS)
    assert outcome("fig7", [failed]).doubt(failed) == WORDS["claim"]
    assert outcome("fig7", [failed], run="other networks").doubt(failed) == ""
    assert doubt_of("fig7", replace(failed, verdict=HOLDS)) == ""
    assert doubt_of("fig7", replace(failed, claim="ours: x")) == WORDS["own"]


def test_a_printed_outcome_says_what_is_in_doubt() -> None:
    checks = [
        Check("residual networks have two modes", "2 in each", "1", verdict)
        for verdict in (FAILS, HOLDS)
    ]
    _, _, _, failed, held, *_ = repr(outcome("fig7", checks)).splitlines()
    assert failed.endswith(f"{FAILS} (in doubt: {WORDS['claim']})")
    assert held.endswith(f" {HOLDS}")


def test_a_paper_without_evidence_on_real_networks_says_so(tmp_path: Path) -> None:
    told, column = "None of these was measured on real networks.", "on real networks"
    for names, has in ((["sym-fig17"], False), (["fig5a", "real-fig5a"], True)):
        some = [outcome(name, STORED[name]) for name in names]
        page = write_gallery(some, tmp_path / "g.md", pictures=tmp_path).read_text("utf-8")
        html = write_index(some, tmp_path).read_text("utf-8")
        assert (told in page, told in html) == (not has, not has)
        assert (f" | {column} |" in page, f">{column}</th>" in html) == (has, has)
        [head, line, *_] = re.findall(r"^\|.*\|$", page, re.MULTILINE)
        assert head.count("|") == line.count("|") == 4 + has


def test_counts_are_of_the_paper() -> None:
    checks = [Check(name, "", "", verdict) for name, verdict in (("a", HOLDS), ("ours: b", FAILS))]
    assert count(checks) == "1 of 1 claims hold"
    assert count([*checks, Check("c", "", "", UNTESTED)]).endswith(f"hold, 1 {UNTESTED}")
    assert main_of("fig3", checks) is None  # a file of others, without the claim


def test_both_pages_open_with_the_headlines(tmp_path: Path) -> None:
    checks = STORED["fig7"]
    assert any(check.verdict == FAILS for check in checks)
    one = outcome("fig7", checks)
    text = write_gallery([one], tmp_path / "g.md", pictures=tmp_path).read_text(encoding="utf-8")
    assert text.index("## Headline claims") < text.index("## All items") < text.index("## fig7")
    assert "[fig7](#fig7-a-title)" in text
    assert "(in doubt: the claim)" in text
    page = write_index([one], tmp_path).read_text(encoding="utf-8")
    assert '<a href="#item-1">fig7</a>' in page
    assert "in doubt: the claim" in page
