"""Run items: measure, judge, draw, and write what came out."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from sigmascope.errors import InputError
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.tables import aligned
from sigmascope_papers.item import UNTRIED, Check, overall, tally
from sigmascope_papers.setting import TINY, Setting
from sigmascope_papers.table import ITEMS, item, prose

__all__ = ["ARITHMETIC", "Outcome", "load_outcome", "outcomes_in", "reproduce"]

KIND, VERSION = "reproduction", 1
ENDINGS = ("svg", "png")
ARITHMETIC = ("sym-fig17", "sym-capacity")
"""Items without networks, images and anything stored: in every setting they are the same, also
where others are only tried.
"""


@dataclass(frozen=True, repr=False)
class Outcome:
    """What became of an item.

    Attributes:
        name: of the item.
        title, budget, exact, uncertainty, rule, reason: see `Prose`; the reason is ours, and so only
            where the run is. Budget, exact and uncertainty are empty for a run in a tiny size,
            since they are about one in full.
        checks: one per claim.
        verdict: on the whole, the worst of the claims that could be tried.
        figures: names of the pictures beside the file, without ending.
        run: what differs from our networks and their stored signatures; empty where nothing does.
        seconds: that it took.
    """

    name: str
    title: str
    budget: str
    exact: str
    uncertainty: str
    checks: tuple[Check, ...]
    verdict: str
    figures: tuple[str, ...]
    seconds: float
    rule: str = ""
    reason: str = ""
    run: str = ""

    @property
    def tally(self) -> str:
        """How many claims hold, hold in direction, do not hold, cannot be tried."""
        return tally(self.checks)

    @property
    def facts(self) -> dict[str, str]:
        """What is told of the run beside its claims, by heading."""
        told = {
            "Budget": self.budget,
            "Exact": self.exact,
            "Uncertainty": self.uncertainty,
            "Rule": self.rule,
        }
        return {
            name: text
            for name, text in {**told, "Why": self.reason, "Run": self.run}.items()
            if text
        }

    def __repr__(self) -> str:
        rows = [["claim", "expected", "obtained", "verdict"]]
        rows += [
            [check.claim, check.expected, check.obtained, check.verdict] for check in self.checks
        ]
        facts = [f"{name}: {text}." for name, text in self.facts.items()]
        head = f"{self.name}: {self.title}: {self.verdict} ({self.tally})"
        return "\n".join([head, "", *aligned(rows, set()), "", *facts])


def reproduce(
    name: str, out: str | Path = "reproduced", *, setting: Setting | None = None
) -> Outcome:
    """Reproduce a figure or a table, and write pictures, their data, and what was expected and
    obtained, into a folder.

    Args:
        name: of `ITEMS`.
        out: the folder.
        setting: where signatures come from; by default those stored in the zoo. Those of
            `ARITHMETIC` need none.

    Raises:
        OptionError: an unknown name.
        InputError: signatures or data that are not here, and what to do; a run in a tiny size would
            replace one in full.
    """
    wanted, told, folder = item(name), prose(name), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if setting is None or name in ARITHMETIC:
        setting = Setting()
    if setting.smoke:
        _check_replaceable(folder / f"{name}.json")
    results = wanted.measure(setting)
    checks = tuple(wanted.judge(results))
    if setting.smoke:
        checks = tuple(replace(check, verdict=UNTRIED) for check in checks)
    figures = []
    for part, drawn in wanted.draw(results).items():
        figures.append(f"{name}-{part}" if part else name)
        for ending in ENDINGS:
            drawn.save(folder / f"{figures[-1]}.{ending}")
    outcome = Outcome(
        name=name,
        title=told.title,
        budget="" if setting.smoke else told.budget,
        exact="" if setting.smoke else told.exact,
        uncertainty="" if setting.smoke else told.uncertainty,
        checks=checks,
        verdict=overall(checks),
        figures=tuple(figures),
        seconds=round(time.perf_counter() - started, 1),
        rule=told.rule,
        reason="" if setting.told else told.reason,
        run=setting.told,
    )
    write_json(folder / f"{name}.json", KIND, VERSION, encode(outcome))
    return outcome


def _check_replaceable(place: Path) -> None:
    """Refuse to write a run in a tiny size over one that took hours."""
    if place.is_file() and TINY not in load_outcome(place).run:
        raise InputError(
            f"{place} is a result in full, which --smoke would replace. Choose another "
            "folder: -o DIR."
        )


def load_outcome(path: str | Path) -> Outcome:
    """Read an outcome that `reproduce` wrote.

    Raises:
        FileNotFoundError: no such file.
        FileFormatError: damaged, foreign or newer.
    """
    return decode(Outcome, read_json(path, KIND, VERSION), str(path))


def outcomes_in(folder: str | Path) -> list[Outcome]:
    """Read all outcomes that a folder has, in the order of `ITEMS`.

    Raises:
        FileFormatError: one is damaged, foreign or newer.
    """
    files = [Path(folder) / f"{name}.json" for name in ITEMS]
    return [load_outcome(file) for file in files if file.is_file()]
