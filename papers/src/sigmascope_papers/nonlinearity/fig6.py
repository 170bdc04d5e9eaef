"""Figure 6: does the signature explain accuracy better than size does?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from sigmascope.compare.accuracy import SEARCHED, SIZES, AccuracyFit, AccuracyFits, fit_accuracy
from sigmascope.figures import Drawn, draw_accuracy
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.setting import Setting, facts_of

EARLY, LATE = ("pre-residual", "residual", "NAS"), ("ViTs", "post-ViT")
FEWEST = 4  # a line through three points leaves a single one to judge it by
# What counts as similar, and as an explanation at all.
SIMILAR, EXPLAINS = 0.1, 0.5


@dataclass(frozen=True, eq=False)
class Family:
    """The fits of one family: predictor -> fit, for every statistic and every size."""

    fits: dict[str, AccuracyFit]

    @property
    def n(self) -> int:
        """How many networks have an accuracy and scores."""
        return self.fits[SEARCHED[0]].n

    def best(self, among: tuple[str, ...]) -> AccuracyFit | None:
        """Return the fit with the highest R² of some predictors, or None if none has one."""
        fitted = [self.fits[key] for key in among if math.isfinite(self.fits[key].r2)]
        return replace(max(fitted, key=lambda fit: fit.r2), tried=len(fitted)) if fitted else None


Families = Mapping[str, Family]


def measure(setting: Setting) -> dict[str, Family]:
    """Fit every family of the cast on everything."""
    runs = setting.runs(setting.cast.names())
    facts = {name: asdict(one) for name, one in facts_of(runs).items()}
    signatures, families = [run.signature for run in runs], setting.cast.families()
    found = {
        on: fit_accuracy(signatures, facts, on=on, families=families).fits
        for on in (*SEARCHED, *SIZES)
    }
    names = [fit.family for fit in found[SEARCHED[0]]]
    return {
        name: Family({on: fits[place] for on, fits in found.items()})
        for place, name in enumerate(names)
    }


def _rivals(family: Family | None) -> tuple[AccuracyFit, AccuracyFit] | str:
    """Return the best statistic and the best size, or why the family cannot be judged."""
    if family is None:
        return "the family is not among the networks"
    if family.n < FEWEST:
        few = f"{family.n} network{'s' * (family.n != 1)} with a known accuracy"
        return f"{few}; a line needs {FEWEST} to be judged"
    statistic, size = family.best(SEARCHED), family.best(SIZES)
    missing = "no fit: the accuracies, the statistics or the sizes do not differ"
    return (statistic, size) if statistic and size else missing


def _told(fit: AccuracyFit) -> str:
    slope = "rising" if fit.coefficients[1] > 0 else "falling"
    return f"{fit.on} R² {fit.r2:.2f} (leave-one-out {fit.r2_loo:.2f}, {slope})"


def _told_both(statistic: AccuracyFit, size: AccuracyFit) -> str:
    return f"best of {statistic.tried}: {_told(statistic)}; best of {size.tried}: {_told(size)}"


def _signature_wins(families: Families, name: str) -> Finding:
    rivals = _rivals(families.get(name))
    if isinstance(rivals, str):
        return rivals
    statistic, size = rivals
    obtained = f"n = {statistic.n}; {_told_both(*rivals)}"
    return obtained, statistic.r2 > size.r2, statistic.r2_loo > max(size.r2_loo, 0)


def _parameters_win(families: Families) -> Finding:
    rivals = _rivals(families.get("NAS"))
    if isinstance(rivals, str):
        return rivals
    statistic, size = rivals
    r2 = families["NAS"].fits["parameters"].r2
    obtained = f"n = {statistic.n}; parameters R² {r2:.2f}; {_told_both(*rivals)}"
    return obtained, r2 > statistic.r2, size.on == "parameters"


def _spread_like_depth(families: Families) -> Finding:
    rivals = _rivals(families.get("pre-residual"))
    if isinstance(rivals, str):
        return rivals
    family, best = families["pre-residual"], rivals[0]
    spread, depth = family.fits["spread"].r2, family.fits["depth"].r2
    obtained = f"n = {family.n}; spread R² {spread:.2f}, depth R² {depth:.2f}; "
    obtained += f"best statistic: {_told(best)}"
    true = abs(spread - depth) <= SIMILAR and min(spread, depth) >= EXPLAINS
    return obtained, true, best.on == "spread"


def _chosen(
    families: Families, names: Sequence[str], wanted: Sequence[str], **_: object
) -> Finding:
    rivals = {name: _rivals(families.get(name)) for name in names}
    missing = [f"{name}: {reason}" for name, reason in rivals.items() if isinstance(reason, str)]
    if missing:
        return "; ".join(missing)
    found = {name: both[0].on for name, both in rivals.items() if not isinstance(both, str)}
    hits, count = sum(on in wanted for on in found.values()), len(names)
    obtained = ", ".join(f"{name} {on}" for name, on in found.items())
    return obtained, hits >= count - (names == EARLY), hits == count


def draw(families: Families) -> dict[str, Drawn]:
    """Draw accuracy against the best statistic of each family, and against the best size."""
    known = [family for family in families.values() if family.n]
    fits = {
        part: tuple(family.best(among) or family.fits[among[0]] for family in known)
        for part, among in (("", SEARCHED), ("size", SIZES))
    }
    return {part: draw_accuracy(AccuracyFits(some, {})) for part, some in fits.items() if some}


WORDS: Any = {"when": "before ViTs", "best": "the spread", "all_of": ", ".join(EARLY)}
LATER: Any = {"when": "from ViTs on", "best": "the median or the min", "all_of": ", ".join(LATE)}
WINS = [partial(_signature_wins, name=name) for name in ("residual", *LATE)]
CHOSEN = (
    partial(_chosen, names=EARLY, wanted=("spread",), **WORDS),
    partial(_chosen, names=LATE, wanted=("median", "min"), **LATER),
)
ITEM = item_of("fig6", measure, draw, *WINS, _parameters_win, _spread_like_depth, *CHOSEN)
