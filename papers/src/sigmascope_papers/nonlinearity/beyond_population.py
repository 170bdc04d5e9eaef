"""Beyond the paper: its claims on scores, judged with published and with population scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from sigmascope.errors import InputError
from sigmascope.figures import Drawn
from sigmascope.maths.grouped_sums import GROUPS
from sigmascope.maths.moments import Moments
from sigmascope.maths.population import PopulationScore
from sigmascope.maths.scoring import score_all
from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.figures.rejudged import draw_claims, draw_gaps, draw_widths
from sigmascope_papers.item import FAILS, HOLDS, OURS, UNTESTED, WEAKLY, Check, Item, judge_by
from sigmascope_papers.nonlinearity import fig8, fig9
from sigmascope_papers.nonlinearity.functions import FUNCTIONS
from sigmascope_papers.nonlinearity.gaps import gaps, judge_gaps
from sigmascope_papers.nonlinearity.lineup import Lineup, measure_cast
from sigmascope_papers.nonlinearity.margins import interval, margin_of
from sigmascope_papers.nonlinearity.population import (
    CHANGES,
    CORRELATED,
    INDEPENDENT,
    WIDTHS,
    PopulationSetting,
    drawn,
    functions_of,
)
from sigmascope_papers.setting import Setting
from sigmascope_papers.table import item

FIGURE_9 = "fig9, correlated channels"
WIDTHS_OF = {INDEPENDENT: "fig9", CORRELATED: FIGURE_9}
NAMES = ("fig5a", "fig7", "fig8", "fig9", FIGURE_9, "fig10", "fig11", "fig16", "claim-accuracy")
DRAWS = 20
ORDER = {FAILS: 0, WEAKLY: 1, HOLDS: 2}
SAME, WEAKER, STRONGER = "same", "weaker", "stronger"
LOST, GAINED = "no longer testable", "now testable"
PUBLISHED, POPULATION, KEYS = "published", "population", ("low", "population", "high")
STAYS = [partial(fig9.stays, name=name) for name in FUNCTIONS]


@dataclass(frozen=True)
class Subject:
    """Claims that are judged together, and how their scores are measured in either way."""

    judge: Callable[[Any], list[Check]]
    published: Callable[[Setting], Any]
    population: Callable[[PopulationSetting], Any]


@dataclass(frozen=True)
class Rejudged:
    """A claim, judged by either score.

    Attributes:
        item: where the claim is from.
        published, population: the checks.
        mixed: the verdict if sites where rows move keep the published score.
        draws: the verdicts of draws from the sampling distribution of the population scores.
        margin: by how much the claim clearly holds, with the ends of its 95 % interval; None where
            no difference of two numbers decides.
    """

    item: str
    published: Check
    population: Check
    mixed: str
    draws: tuple[str, ...]
    margin: tuple[float, float, float] | None = None

    @property
    def change(self) -> str:
        """In which direction the verdict changes."""
        before, after = self.published.verdict, self.population.verdict
        if before == after:
            return SAME
        if UNTESTED in (before, after):
            return LOST if after == UNTESTED else GAINED
        return STRONGER if ORDER[after] > ORDER[before] else WEAKER

    @property
    def kept(self) -> int:
        """In how many draws the verdict is the same."""
        return self.draws.count(self.population.verdict)

    def row(self) -> dict[str, Any]:
        """Return the claim as a row of a table."""
        return {
            "item": self.item,
            "claim": self.published.claim,
            "published": self.published.verdict,
            "population": self.population.verdict,
            "change": self.change,
            "draws with this verdict": self.kept,
            "draws": len(self.draws),
            "where rows move, published": self.mixed,
            **dict(zip(("margin", "low", "high"), self.margin or (), strict=False)),
            "published number": self.published.obtained,
            "population number": self.population.obtained,
        }


@dataclass(frozen=True, eq=False)
class Outcomes:
    """All claims, and the scores of the cast and by width.

    Attributes:
        claims: judged by either score.
        published, population: the signatures of the cast.
        widths: law -> estimator -> function -> draws (r, k) by width; for population scores low,
            score and high.
    """

    claims: tuple[Rejudged, ...]
    published: Lineup
    population: Lineup
    widths: Mapping[str, Mapping[str, Mapping[str, Array]]]

    def signatures(self) -> tuple[list[Signature], list[Signature]]:
        """Return the published signatures of the cast, and those of population scores."""
        return self.published.of(), self.population.of()

    def gaps(self) -> list[dict[str, Any]]:
        """Return by how much the scores of every site of the cast differ."""
        return gaps(*self.signatures())


def measure(setting: Setting) -> Outcomes:
    """Judge every claim by the published scores, by population scores, and by draws of them."""
    if not setting.ours:
        told = "this item is about networks of the zoo only."
        raise InputError(f"{told} Leave out --weights and --data.")
    again = PopulationSetting.of(setting)
    published = {
        name: again.remember((PUBLISHED, name), partial(subject.published, setting))
        for name, subject in SUBJECTS.items()
    }
    claims = [one for name in SUBJECTS for one in _rejudged(name, published[name], again)]
    widths = {
        law: {**published[name].scores, POPULATION: _intervals(again, law)}
        for law, name in WIDTHS_OF.items()
    }
    return Outcomes(tuple(claims), measure_cast(setting), measure_cast(again), widths)


def _rejudged(name: str, published: Any, again: PopulationSetting) -> list[Rejudged]:
    subject = SUBJECTS[name]

    def results(**changed: Any) -> Any:
        return subject.population(replace(again, **changed))

    def verdicts(**changed: Any) -> list[str]:
        return [check.verdict for check in subject.judge(results(**changed))]

    whole = results()
    checks = subject.judge(whole)
    margins = [margin_of(name, check) for check in checks]
    parts = [results(without=group) for group in range(GROUPS)] if any(margins) else []
    rows = zip(
        subject.judge(published),
        checks,
        verdicts(keeps_moved=True),
        zip(*(verdicts(draw=draw) for draw in range(1, DRAWS + 1)), strict=True),
        [interval(margin, whole, parts) if margin else None for margin in margins],
        strict=True,
    )
    return [Rejudged(name, *row) for row in rows]


def judge(found: Outcomes) -> list[Check]:
    """Every claim is judged by its own rule; its verdict is that of the population scores.

    That no verdict depends on the choice of the score holds if none changes, weakly if one in
    twenty does. Where the mixed verdict is the published one, sites where rows move decide.
    """
    counts = Counter(one.change for one in found.claims)
    changed = len(found.claims) - counts.pop(SAME, 0)
    told = ", ".join(f"{count} {change}" for change, count in counts.items())
    few = changed <= len(found.claims) / 20
    verdict = HOLDS if not changed else WEAKLY if few else FAILS
    obtained = f"{changed} of {len(found.claims)} change" + (f": {told}" if told else "")
    if decided := sum(
        one.change != SAME and one.mixed == one.published.verdict for one in found.claims
    ):
        obtained += f"; {decided} do not if sites where rows move keep the published score"
    text = f"{OURS} verdicts do not depend on the choice of the score"
    first = Check(text, "none changes", obtained, verdict)
    return [first, judge_gaps(found.gaps()), *map(_check, found.claims)]


def _check(one: Rejudged) -> Check:
    claim, after = one.published.claim, one.population
    ours, text = claim.startswith(OURS), claim.removeprefix(OURS).strip()
    obtained = f"{one.change}: {after.obtained}; in {one.kept} of {len(one.draws)} draws"
    if one.margin:
        obtained += "; margin {:+z.4f} ({:+z.4f} to {:+z.4f})".format(*one.margin)
    if one.mixed != after.verdict:
        obtained += f"; {one.mixed} if sites where rows move keep the published score"
    return Check(
        f"{OURS + ' ' if ours else ''}{one.item}: {text}",
        f"published: {one.published.verdict}, {one.published.obtained}",
        obtained,
        after.verdict,
    )


def _function_scores() -> list[list[PopulationScore]]:
    """Return the population scores of the functions of Figure 8 for all of its inputs.

    Channels are independent and alike, so that the score is that of a single one, of which all
    numbers are samples.
    """
    found = []
    for x in fig8.inputs(fig8.MEANS):
        column = torch.from_numpy(x.reshape(-1, 1))
        sums = [Moments() for _ in fig8.FUNCTIONS]
        for one, act in zip(sums, fig8.FUNCTIONS.values(), strict=True):
            one.update(column, act(column))
        found.append(score_all(sums))
    return found


def ranges(setting: PopulationSetting) -> fig8.Ranges:
    """Return the population scores of Figure 8; the guard is never needed, a constant has none."""
    found = setting.remember((POPULATION, "fig8"), _function_scores)
    rows = [[_score(one, setting, place) for one in row] for place, row in enumerate(found)]
    own = fig8.ranges_of(fig8.MEANS, [[(one, math.isnan(one), 0) for one in row] for row in rows])
    if not setting.keeps_moved:
        return own
    other = setting.remember((PUBLISHED, "fig8"), lambda: fig8.measure_ranges(fig8.MEANS))
    moving = {name: other.moving[name] & ~other.guarded[name] for name in own.scores}
    scores = {
        name: np.where(moving[name], other.scores[name], own.scores[name]) for name in own.scores
    }
    return replace(own, scores=scores)


def _score(one: PopulationScore, setting: PopulationSetting, place: int) -> float:
    samples = f"input {place}"
    return drawn(one, setting.draw, samples, samples) if setting.draw else one.score


def robustness(setting: PopulationSetting) -> fig9.Robustness:
    """Return the population scores of Figure 9; both covariances have the same."""
    pooled = setting.remember((POPULATION, "fig9"), lambda: fig9.pooled_signatures(**CHANGES))
    reasons = {
        name: next(site.population_reason for site in one.sites if site.population_reason)
        for name, one in pooled.items()
        if any(site.population_reason for site in one.sites)
    }
    scores = _by_width(setting, INDEPENDENT)
    return fig9.Robustness(
        {name: setting.varied(one, "embedded").scores for name, one in pooled.items()},
        WIDTHS,
        dict.fromkeys(fig9.ESTIMATORS, scores),
        reasons,
    )


def correlated(setting: PopulationSetting) -> fig9.Robustness:
    """Return the population scores by width of correlated channels."""
    scores = _by_width(setting, CORRELATED)
    return fig9.Robustness({}, WIDTHS, dict.fromkeys(fig9.ESTIMATORS, scores))


def _by_width(setting: PopulationSetting, law: str) -> dict[str, Array]:
    found = [setting.varied(one, one.name) for one in _stored_widths(setting, law)]
    return {name: np.array([[one[name].population for one in found]]) for name in FUNCTIONS}


def _stored_widths(setting: PopulationSetting, law: str) -> list[Signature]:
    found: list[Signature] = setting.remember(
        (POPULATION, law), lambda: [functions_of(setting, law, width) for width in WIDTHS]
    )
    return found


def _intervals(setting: PopulationSetting, law: str) -> dict[str, Array]:
    """Return the population scores by function: low, score and high by width, (3, k)."""
    found = _stored_widths(setting, law)
    return {
        name: np.array([[getattr(one[name], key) for one in found] for key in KEYS])
        for name in FUNCTIONS
    }


def _published_widths(setting: Setting) -> fig9.Robustness:
    return fig9.Robustness({}, WIDTHS, fig9.measure_widths(law=CORRELATED))


def _subject(name: str) -> Subject:
    own = item(name)
    population = {"fig8": ranges, "fig9": robustness}.get(name, own.measure)
    return Subject(own.judge, own.measure, population)


OF_WIDTHS = Subject(judge_by("nonlinearity.fig9", *STAYS), _published_widths, correlated)
SUBJECTS = {name: OF_WIDTHS if name == FIGURE_9 else _subject(name) for name in NAMES}


def draw(found: Outcomes) -> dict[str, Drawn]:
    """Draw all verdicts, the scores by width, and the networks by either score."""
    return {
        "": draw_claims([one.row() for one in found.claims]),
        "widths": draw_widths(WIDTHS, found.widths),
        "networks": draw_gaps(*found.signatures(), found.gaps()),
    }


ITEM = Item(measure, judge, draw)
