"""How outcomes are read: the main claim of an item, what a failure puts in doubt, the headlines.

`reading.json` says it for each item: the main claim, by how it begins; who is in doubt where a
claim does not hold, the paper or our stand-in; and the headline claims of both papers, each with
the claims of items that are its evidence. Verdicts come from the outcomes alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sigmascope_papers.item import FAILS, HOLDS, OURS, UNTESTED, WEAKLY, Check

if TYPE_CHECKING:
    from sigmascope_papers.run import Outcome

_TOLD = json.loads((files("sigmascope_papers") / "reading.json").read_text(encoding="utf-8"))
MAIN: dict[str, str] = _TOLD["main"]
DOUBTS: dict[str, dict[str, str]] = _TOLD["doubts"]
WORDS: dict[str, str] = _TOLD["words"]
HEADLINES: dict[str, list[dict[str, Any]]] = _TOLD["headlines"]
OWN = "own"
# what the paper prints, with a tolerance: one number, several, a range or a formula
_NUMBER = re.compile(r"(?:\beach|\bclosed form|^[-−+\d., to]+) ?±")
_WORST_FIRST = {FAILS: 0, WEAKLY: 1, HOLDS: 2, UNTESTED: math.inf}


def is_number(check: Check) -> bool:
    """Return whether a claim is about printed digits, not about an order or a relation.

    >>> is_number(Check("score of ReLU", "0.49 ± 0.005", "0.4874", HOLDS))
    True
    >>> is_number(Check("order", "ReLU < Tanh", "ReLU < Tanh", HOLDS))
    False
    """
    return _NUMBER.search(check.expected) is not None


def main_of(name: str, checks: Sequence[Check]) -> Check | None:
    """Return the main claim of an item: the one named, or the first relation of the paper."""
    if name in MAIN:
        return next((one for one in checks if one.claim.startswith(MAIN[name])), None)
    of_paper = [one for one in checks if not one.claim.startswith(OURS)]
    return next((one for one in of_paper if not is_number(one)), next(iter(of_paper), None))


def count(checks: Sequence[Check]) -> str:
    """Count the claims of the paper that hold; ours, if there are no others.

    >>> count([Check("", "", "", verdict) for verdict in (HOLDS, WEAKLY, FAILS)])
    '1 of 3 claims hold, 1 weakly'
    """
    of_paper = [one for one in checks if not one.claim.startswith(OURS)] or list(checks)
    verdicts = [one.verdict for one in of_paper]
    told = f"{verdicts.count(HOLDS)} of {len(verdicts)} claims hold"
    for verdict, words in ((WEAKLY, "weakly"), (UNTESTED, UNTESTED)):
        told += f", {verdicts.count(verdict)} {words}" if verdict in verdicts else ""
    return told


def doubt_of(name: str, check: Check) -> str:
    """Return what is in doubt where a claim does not hold: the claim or our stand-in; else ""."""
    if check.verdict != FAILS:
        return ""
    rows = DOUBTS.get(name, {})
    fitting = (word for begins, word in rows.items() if check.claim.startswith(begins))
    word = OWN if check.claim.startswith(OURS) else next(fitting, "open")
    return WORDS[word]


@dataclass(frozen=True)
class Evidence:
    """A claim of an item that a headline rests on, and what is said of it, {} for what came out."""

    outcome: Outcome
    check: Check
    told: str = ""

    @property
    def says(self) -> str:
        """What came out, so that it can be read apart from the item."""
        return (self.told or f"{self.check.claim}: {{}}").format(self.check.obtained)

    @property
    def item(self) -> str:
        """The name of the item."""
        return self.outcome.name


@dataclass(frozen=True)
class Headline:
    """A claim of a paper in one sentence, with its evidence on our networks and on real ones."""

    claim: str
    zoo: tuple[Evidence, ...]
    real: tuple[Evidence, ...]

    @property
    def verdict(self) -> str:
        """The worst verdict of the evidence."""
        verdicts = [one.check.verdict for one in (*self.zoo, *self.real)]
        return min(verdicts, key=_WORST_FIRST.__getitem__, default=UNTESTED)

    @property
    def doubt(self) -> str:
        """What the failures among the evidence put in doubt; empty where nothing fails."""
        found = [one.outcome.doubt(one.check) for one in (*self.zoo, *self.real)]
        return "; ".join(dict.fromkeys(word for word in found if word))


def headlines(outcomes: Sequence[Outcome]) -> dict[str, list[Headline]]:
    """Return paper -> its headline claims whose evidence is among the outcomes."""
    by_name = {one.name: one for one in outcomes}

    def evidence(rows: list[dict[str, str]]) -> tuple[Evidence, ...]:
        known = [(row, by_name[row["item"]]) for row in rows if row["item"] in by_name]
        found = [(one, _claim(one, row["claim"]), row["told"]) for row, one in known]
        return tuple(Evidence(one, check, told) for one, check, told in found if check is not None)

    papers = {}
    for paper, rows in HEADLINES.items():
        told = [Headline(row["claim"], evidence(row["zoo"]), evidence(row["real"])) for row in rows]
        papers[paper] = [one for one in told if one.zoo]
    return {paper: told for paper, told in papers.items() if told}


def _claim(outcome: Outcome, begins: str) -> Check | None:
    if not begins:
        return main_of(outcome.name, outcome.checks)
    return next((one for one in outcome.checks if one.claim.startswith(begins)), None)
