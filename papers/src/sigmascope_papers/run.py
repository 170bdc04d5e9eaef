"""Run items: measure, judge, draw, and write the outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sigmascope.errors import InputError
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.tables import aligned
from sigmascope_papers.item import OLD_WORDS, UNTESTED, Check, overall, tally
from sigmascope_papers.reading import count, doubt_of, is_number, main_of
from sigmascope_papers.setting import TINY, Setting
from sigmascope_papers.table import ITEMS, item, prose

KIND, VERSION = "reproduction", 1
ENDINGS = ("svg", "png")
ARITHMETIC = ("sym-fig17", "sym-capacity")
"""Items without networks, images and stored results: every setting gives the same."""
FULL_ONLY = ("protocol", "budget", "exact", "uncertainty")


@dataclass(frozen=True, repr=False)
class Outcome:
    """The outcome of an item, with texts of its `Prose`; those of `FULL_ONLY` not for tiny runs."""

    name: str
    title: str
    budget: str
    exact: str
    uncertainty: str
    checks: tuple[Check, ...]
    verdict: str  # the worst one on a testable claim of the paper
    figures: tuple[str, ...]  # the names of the pictures beside the file, without suffix
    seconds: float
    rule: str = ""
    reason: str = ""  # about our networks, and so empty for others
    run: str = ""  # what differs from our networks and their stored signatures
    protocol: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", OLD_WORDS.get(self.verdict, self.verdict))

    @property
    def tally(self) -> str:
        """How many claims hold, weakly hold, do not hold, are not testable here."""
        return tally([check.verdict for check in self.checks])

    @property
    def main(self) -> Check | None:
        """The main claim, None in a file of others that lacks it."""
        return main_of(self.name, self.checks)

    @property
    def counted(self) -> str:
        """The verdict on the main claim, and how many claims hold."""
        verdict = UNTESTED if self.main is None else self.main.verdict
        return f"main claim {verdict}, {count(self.checks)}"

    @property
    def relations(self) -> tuple[Check, ...]:
        """The claims about orders and relations."""
        return tuple(check for check in self.checks if not is_number(check))

    @property
    def numbers(self) -> tuple[Check, ...]:
        """The claims about digits that the paper prints."""
        return tuple(check for check in self.checks if is_number(check))

    def doubt(self, check: Check) -> str:
        """What a failed claim puts in doubt; nothing is said of networks that are not ours."""
        return "" if self.run else doubt_of(self.name, check)

    def judged(self, check: Check) -> str:
        """Return the verdict on a claim and, where it does not hold, what is in doubt."""
        doubt = self.doubt(check)
        return f"{check.verdict} (in doubt: {doubt})" if doubt else check.verdict

    @property
    def facts(self) -> dict[str, str]:
        """What is said of the run beside its claims, by heading."""
        headings = {key: key.title() for key in (*FULL_ONLY, "rule")}
        headings |= {"reason": "Why", "run": "Run"}
        return {head: text for key, head in headings.items() if (text := getattr(self, key))}

    def __repr__(self) -> str:
        rows = [["claim", "expected", "obtained", "verdict"]]
        rows += [[one.claim, one.expected, one.obtained, self.judged(one)] for one in self.checks]
        facts = [f"{name}: {text}." for name, text in self.facts.items()]
        head = f"{self.name}: {self.title}: {self.counted}"
        return "\n".join([head, "", *aligned(rows, set()), "", *facts])


def reproduce(
    name: str, out: str | Path = "reproduced", *, setting: Setting | None = None
) -> Outcome:
    """Reproduce one of `ITEMS`, write pictures, data and verdicts, and return the outcome.

    Raises:
        OptionError: an unknown name.
        InputError: signatures or data are missing; or a run in a tiny size would replace one in
            full.
    """
    wanted, told, folder = item(name), prose(name), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if setting is None or name in ARITHMETIC:
        setting = Setting()
    place = folder / f"{name}.json"
    if setting.smoke and place.is_file() and TINY not in load_outcome(place).run:
        refused = f"{place} is a result in full, which --smoke would replace."
        raise InputError(f"{refused} Choose another directory: -o DIR.")
    results = wanted.measure(setting)
    checks = tuple(wanted.judge(results))
    if setting.smoke:
        checks = tuple(replace(check, verdict=UNTESTED) for check in checks)
    figures = []
    for part, drawn in wanted.draw(results).items():
        figures.append(f"{name}-{part}" if part else name)
        for ending in ENDINGS:
            drawn.save(folder / f"{figures[-1]}.{ending}")
    outcome = Outcome(
        name=name,
        title=told.title,
        checks=checks,
        verdict=overall(checks),
        figures=tuple(figures),
        seconds=round(time.perf_counter() - started, 1),
        rule=told.rule,
        reason="" if setting.told else told.reason,
        run=setting.told,
        **{key: "" if setting.smoke else getattr(told, key) for key in FULL_ONLY},
    )
    write_json(place, KIND, VERSION, encode(outcome))
    return outcome


def load_outcome(path: str | Path) -> Outcome:
    """Read an outcome that `reproduce` wrote; a `FileFormatError` if corrupt, other or newer."""
    content: Any = read_json(path, KIND, VERSION)
    return decode(Outcome, {"protocol": "", **content}, str(path))  # older files have none


def outcomes_in(folder: str | Path) -> list[Outcome]:
    """Read all outcomes in a directory, in the order of `ITEMS`."""
    files = [Path(folder) / f"{name}.json" for name in ITEMS]
    return [load_outcome(file) for file in files if file.is_file()]
