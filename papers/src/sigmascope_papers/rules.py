"""Rules that claims of both papers are judged by. A NaN never holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, conclude, relation

LISTED = 6
"""More numbers than this are not listed; the figure and its data have them."""


def near(
    claim: str,
    paper: Sequence[float],
    found: Array,
    limits: tuple[float, float],
    *,
    digits: int = 2,
    listed: float = np.inf,
) -> Check:
    """Judge the means of numbers (p, k) over p pairs by their distances from the paper's (k,).

    The limits are of the distance: to hold, to hold weakly. If the paper has more than `listed`
    numbers, only their range is told.
    """
    printed, mean = np.asarray(paper, dtype=np.float64), found.mean(axis=0)
    deviation, gap = found.std(axis=0), np.abs(mean - printed)
    form = f".{digits}f" if digits > 1 else "g"
    expected = f"{len(printed)} numbers from {printed.min():g} to {printed.max():g}"
    if len(printed) <= listed:
        expected = ", ".join(f"{value:{form}}" for value in printed)
    numbers = [f"{value:.{digits}f}" for value in mean]
    if len(found) > 1:
        spread = zip(numbers, deviation, strict=True)
        numbers = [f"{number} ± {value:.{digits}f}" for number, value in spread]
    shown = ", ".join(numbers) + "; " if len(numbers) <= LISTED else ""
    return relation(
        claim,
        f"{expected}, each ± {limits[0]:g}",
        f"{shown}off by {gap.max():.{digits}f} at most, {np.median(gap):.{digits}f} in median",
        true=(gap <= limits[1]).all(),
        clear=(gap <= limits[0]).all(),
    )


def below(
    claim: str,
    less: Array,
    more: Array,
    *,
    expected: str = "at every layer, in every pair",
    digits: int | None = 1,
) -> Check:
    """Judge whether values (p, k) are below others in all p pairs at all k layers.

    If they are so at every layer on average, the claim weakly holds. `digits` are of the means;
    None lists none.
    """
    means = less.mean(axis=0), more.mean(axis=0)
    lower, on_average = less < more, means[0] < means[1]
    listed = ""
    if digits is not None and len(on_average) <= LISTED:
        pairs = zip(*means, strict=True)
        rows = [f"{a:.{digits}f} {'<' if a < b else '≥'} {b:.{digits}f}" for a, b in pairs]
        listed = ", ".join(rows) + "; "
    obtained = f"{listed}on average at {on_average.sum()} of {on_average.size} layers"
    obtained += f", in {lower.sum()} of {lower.size} comparisons"
    return relation(claim, expected, obtained, true=on_average.all(), clear=lower.all())


def ordered_alike(
    claim: str,
    one: Sequence[float] | Array,
    other: Sequence[float] | Array,
    limits: tuple[float, float],
    *,
    digits: int = 2,
) -> Check:
    """Judge the rank correlation of two lists (k,) by its limits: to hold, to hold weakly."""
    both = np.asarray([one, other], dtype=np.float64)
    known = bool(np.isfinite(both).all() and (np.ptp(both, axis=1) > 0).all())
    rank = float(spearmanr(*both).statistic) if known else float("nan")
    finding = at_least(f"{rank:.{digits}f}", rank, limits)
    return conclude(claim, f"rank correlation of {limits[0]:g} or more", finding)


def at_most(obtained: str, values: Any, limits: tuple[float, float]) -> tuple[str, bool, bool]:
    """Find whether all values are at most the second limit, and clearly so at most the first."""
    clear, true = (bool(np.all(np.asarray(values) <= limit)) for limit in limits)
    return obtained, true, clear


def at_least(obtained: str, values: Any, limits: tuple[float, float]) -> tuple[str, bool, bool]:
    """Find whether all values are at least the second limit, and clearly so at least the first."""
    clear, true = (bool(np.all(np.asarray(values) >= limit)) for limit in limits)
    return obtained, true, clear
