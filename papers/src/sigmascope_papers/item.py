"""A figure or table of a paper: a measurement, a rule that judges it, and a drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sigmascope_papers.prose import Claim, prose_of

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn
    from sigmascope_papers.setting import Setting


VERDICTS = ("holds", "weakly holds", "does not hold", "not testable here")
HOLDS, WEAKLY, FAILS, UNTESTED = VERDICTS
PLURALS = ("hold", "weakly hold", "do not hold", "not testable here")
OLD_WORDS = {"holds in direction": WEAKLY, "cannot be tried here": UNTESTED}
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", OLD_WORDS.get(self.verdict, self.verdict))


@dataclass(frozen=True)
class Item:
    """How a figure or table is reproduced; the Markdown file beside it describes it.

    Attributes:
        measure: does the work; what it returns is all that the other two need.
        judge: the rule, fixed before the run: results in, one `Check` for each claim out.
        draw: results in, figures by the suffix of their file names out ("" for the only one).
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


def relation(
    claim: str, expected: str, obtained: str, *, true: object, clear: object = True
) -> Check:
    """Judge a relation: it holds if true and clear, and weakly holds if true but not clear."""
    return Check(claim, expected, obtained, (HOLDS if clear else WEAKLY) if true else FAILS)


def untried(claim: str, expected: str, reason: str) -> Check:
    """Return a claim that is not testable here, with the reason."""
    return Check(claim, expected, reason, UNTESTED)


Finding = str | tuple[str, Any] | tuple[str, Any, Any]
"""What came out, whether the claim is true, and clearly so; or only why it is not testable here."""


def conclude(claim: str, expected: str, finding: Finding) -> Check:
    """Judge a claim by a finding."""
    if isinstance(finding, str):
        return untried(claim, expected, finding)
    obtained, *truth = finding
    return relation(claim, expected, obtained, true=bool(truth[0]), clear=bool(truth[-1]))


Rule = Callable[[Any], Finding | Check | list[Check] | dict[str, Finding]]


def judge_by(file: str, *rules: Rule) -> Callable[[Any], list[Check]]:
    """Return the judge of an item: it applies rules in turn, to the claims of the Markdown file.

    A rule that the table of claims does not name returns its checks itself, or claim -> finding.

    Args:
        file: see `prose_of`.
        rules: from results to a finding; `lacks` of the results says if a group is missing.
    """
    claims = prose_of(file).claims

    def apply(rule: Rule, results: Any) -> list[Check]:
        function = getattr(rule, "func", rule)  # of a partial
        words = {**function.__globals__, **getattr(rule, "keywords", {})}

        def told(row: Claim, finding: Finding) -> Check:
            return conclude(row.claim.format_map(words), row.expected.format_map(words), finding)

        row = claims.get(function.__name__.strip("_"))
        if row is None:
            found: Any = rule(results)
            if isinstance(found, dict):
                return [told(claims[name], finding) for name, finding in found.items()]
            return found if isinstance(found, list) else [found]
        needs = row.needs.format_map(words).split()
        reason = results.lacks(*needs) if needs else ""
        return [told(row, reason or cast(Finding, rule(results)))]

    def judge(results: Any) -> list[Check]:
        return [check for rule in rules for check in apply(rule, results)]

    judged = [row.judged for row in claims.values()]
    judge.__doc__ = "\n".join(judged) or "Apply the rules in turn."
    return judge


def overall(checks: Sequence[Check]) -> str:
    """Return the verdict on an item: the worst one on the paper's testable claims, ours aside.

    >>> overall([Check("", "", "", verdict) for verdict in (HOLDS, WEAKLY, UNTESTED)])
    'weakly holds'
    """
    order = {FAILS: 0, WEAKLY: 1, HOLDS: 2, UNTESTED: math.inf}
    of_paper = [check.verdict for check in checks if not check.claim.startswith(OURS)]
    return min(of_paper, key=order.__getitem__, default=UNTESTED)


def tally(verdicts: Sequence[str]) -> str:
    """Count verdicts.

    >>> tally([HOLDS, FAILS, HOLDS])
    '2 hold, 1 does not hold'
    """
    counts = [(verdicts.count(verdict), place) for place, verdict in enumerate(VERDICTS)]
    return ", ".join(
        f"{count} {(VERDICTS, PLURALS)[count != 1][place]}" for count, place in counts if count
    )
