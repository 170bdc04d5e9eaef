"""What a figure or a table of a paper is here: a measurement, a rule that judges it, and a drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn
    from sigmascope_papers.setting import Setting

__all__ = [
    "DIRECTION",
    "FAILS",
    "HOLDS",
    "OURS",
    "UNTRIED",
    "VERDICTS",
    "Check",
    "Item",
    "agrees",
    "overall",
    "relation",
    "tally",
    "untried",
]

HOLDS, DIRECTION, FAILS, UNTRIED = VERDICTS = (
    "holds",
    "holds in direction",
    "does not hold",
    "cannot be tried here",
)
OURS = "ours:"
"""How a claim begins that we added to those of the paper."""


@dataclass(frozen=True)
class Check:
    """One claim of the paper beside what came out here.

    Attributes:
        claim: what is said, in a few words.
        expected: the number, or the relation, as the paper has it.
        obtained: what came out.
        verdict: one of `VERDICTS`.
    """

    claim: str
    expected: str
    obtained: str
    verdict: str


@dataclass(frozen=True)
class Item:
    """How a figure or a table is reproduced; what is said of it is in the Markdown file beside it.

    Attributes:
        measure: does the work; what it returns is all that the other two need.
        judge: the rule, fixed before the run: results in, one `Check` for each claim out.
        draw: results in, figures by the ending of their file names out ("" for the only one).
    """

    measure: Callable[[Setting], Any]
    judge: Callable[[Any], list[Check]]
    draw: Callable[[Any], dict[str, Drawn]]


def agrees(
    claim: str, expected: float, obtained: float, *, tolerance: float, digits: int = 2
) -> Check:
    """Judge a number by its distance from the printed one."""
    verdict = HOLDS if abs(obtained - expected) <= tolerance else FAILS  # a NaN does not hold
    return Check(
        claim, f"{expected:.{digits}f} ± {tolerance:g}", f"{obtained:.{digits + 2}f}", verdict
    )


def relation(claim: str, expected: str, obtained: str, *, true: bool, clear: bool = True) -> Check:
    """Judge a relation: it holds where it is true and clear, in direction where it is true but not
    clear.
    """
    return Check(claim, expected, obtained, (HOLDS if clear else DIRECTION) if true else FAILS)


def untried(claim: str, expected: str, reason: str) -> Check:
    """Say of a claim that it cannot be tried, and why."""
    return Check(claim, expected, reason, UNTRIED)


def overall(checks: Sequence[Check]) -> str:
    """Return the verdict on an item: the worst of the paper's claims that could be tried, whatever
    became of ours.

    >>> overall([Check("", "", "", HOLDS), Check("", "", "", DIRECTION), Check("ours: more", "", "", FAILS)])
    'holds in direction'
    """
    order = {FAILS: 0, DIRECTION: 1, HOLDS: 2, UNTRIED: math.inf}
    of_paper = [check.verdict for check in checks if not check.claim.startswith(OURS)]
    return min(of_paper, key=order.__getitem__, default=UNTRIED)


def tally(checks: Sequence[Check]) -> str:
    """Count the verdicts on the claims of an item.

    >>> tally([Check("", "", "", HOLDS), Check("", "", "", FAILS), Check("", "", "", HOLDS)])
    '2 hold, 1 does not hold'
    """
    words = {HOLDS: ("holds", "hold"), DIRECTION: ("holds in direction", "hold in direction")}
    words |= {
        FAILS: ("does not hold", "do not hold"),
        UNTRIED: ("cannot be tried here", "cannot be tried here"),
    }
    counts = {verdict: sum(check.verdict == verdict for check in checks) for verdict in VERDICTS}
    return ", ".join(
        f"{count} {words[verdict][count != 1]}" for verdict, count in counts.items() if count
    )
