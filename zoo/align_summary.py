"""The tables of the experiment on lines between networks, and its rule applied to them."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr, t as student

Row = dict[str, Any]
Measure = Callable[[Row], float]
Estimate = tuple[float, float]  # a mean and its standard error, NaN of fewer than 4 networks
BEST = "activations, all"
CURVES = (
    "naive",
    *(f"{by}, {group}" for by in ("weights", "activations") for group in ("permutations", "all")),
)
SCALED = ("myrtle", "vgg16", "resnet20", "myrtle-nobn")  # whose activations admit scales
GOAL, FEWEST, MARGIN = 0.75, 4, 1.0


def height(row: Row, curve: str, of: str) -> float:
    """Return the largest height above the chord: of `losses`, `calibrated` or `accuracies`, the
    last in points lost.
    """
    values = np.asarray(row["curves"][curve][of])
    if of == "accuracies":
        values = -100 * values
    share = np.linspace(0, 1, len(values))
    return float(np.max(values - ((1 - share) * values[0] + share * values[-1])))


def jackknifed(rows: Sequence[Row], statistic: Callable[[Sequence[Row]], float]) -> Estimate:
    """Return a statistic of pairs and its standard error, leaving out one network at a time."""
    seeds = sorted({seed for row in rows for seed in row["seeds"]})
    whole, n = statistic(rows), len(seeds)
    if n < FEWEST:
        return whole, math.nan
    without = [statistic([row for row in rows if seed not in row["seeds"]]) for seed in seeds]
    mean = statistics.fmean(without)
    return whole, math.sqrt((n - 1) / n * sum((x - mean) ** 2 for x in without))


def interval(estimate: Estimate, networks: int) -> tuple[float, float]:
    half = student.ppf(0.975, max(networks - 1, 1)) * estimate[1]
    return estimate[0] - half, estimate[0] + half


def families(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the pairs by family and width."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if "curves" in row:
            found[row["family"] + (f" x{row['width']}" if row["width"] > 1 else "")].append(row)
    return dict(found)


def summarized(rows: Sequence[Row]) -> str:
    """Return all tables and answers in Markdown."""
    found = families(rows)
    if not found:
        return "No pair has been measured."
    plain = {name: own for name, own in found.items() if " x" not in name}
    parts = [_reduced(plain), _scales(plain), _corrected(plain), _width(found), _predicts(found)]
    return "\n".join([*_table(found), "", *(line for part in parts for line in part)])


def _table(found: dict[str, list[Row]]) -> list[str]:
    lines = [
        "| family | pairs | line | loss | calibrated | points lost "
        "| corrected: loss | calibrated | points lost |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for family, own in found.items():
        for curve in CURVES:
            cells = [
                f"{statistics.fmean(height(row, name, of) for row in own):.3f}"
                for name in (curve, f"{curve}, corrected")
                for of in ("losses", "calibrated", "accuracies")
            ]
            lines.append(f"| {family} | {len(own)} | {curve} | {' | '.join(cells)} |")
    return lines


def reduction(rows: Sequence[Row], curve: str, of: str) -> float:
    """Return by how much the mean barrier falls below that of the naive line."""
    before = statistics.fmean(height(row, "naive", of) for row in rows)
    after = statistics.fmean(height(row, curve, of) for row in rows)
    return 1 - after / before if before > 0 else math.nan


def _reduced(plain: dict[str, list[Row]]) -> list[str]:
    lines, reached = ["## 1. reduced", ""], {}
    for family, own in plain.items():
        for curve in CURVES[1:]:
            name, cells = f"{curve}, corrected", []
            for of in ("calibrated", "accuracies"):
                value, error = jackknifed(own, lambda part, n=name, o=of: reduction(part, n, o))
                seeds = len({seed for row in own for seed in row["seeds"]})
                low, high = interval((value, error), seeds)
                cells.append(f"{of} {100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})")
                if curve == BEST:
                    reached[family, of] = value >= GOAL
            lines.append(f"- {family}, {name}: {', '.join(cells)}")
    asked = [
        [reached.get((family, of)) for family in ("myrtle", "vgg16")]
        for of in ("calibrated", "accuracies")
    ]
    if None in asked[0]:
        return [*lines, "", "Not decided: a family is missing.", ""]
    whole, some = all(map(all, asked)), any(map(all, asked))
    return [*lines, "", f"**{'holds' if whole else 'weakly' if some else 'fails'}**", ""]


def _mean_difference(plain: dict[str, list[Row]], measure: Measure) -> tuple[Estimate, int]:
    """Return the mean over families, its error, and the fewest networks of one."""
    parts, counts = [], []
    for own in plain.values():
        estimate = jackknifed(own, lambda part: statistics.fmean(map(measure, part)))
        if math.isfinite(estimate[1]):
            parts.append(estimate)
            counts.append(len({seed for row in own for seed in row["seeds"]}))
    if not parts:
        return (math.nan, math.nan), 0
    error = math.sqrt(sum(one[1] ** 2 for one in parts)) / len(parts)
    return (statistics.fmean(one[0] for one in parts), error), sum(counts) - len(counts) + 1


def _scales(plain: dict[str, list[Row]]) -> list[str]:
    lines = ["## 2. scales", ""]
    chosen = {name: own for name, own in plain.items() if name in SCALED}
    for by in ("weights", "activations"):
        for end in ("", ", corrected"):

            def gain(row: Row, by: str = by, end: str = end) -> float:
                lost = [
                    height(row, f"{by}, {g}{end}", "accuracies") for g in ("permutations", "all")
                ]
                return lost[0] - lost[1]

            estimate, networks = _mean_difference(chosen, gain)
            low, high = interval(estimate, networks)
            each = ", ".join(
                f"{name} {statistics.fmean(map(gain, own)):.2f}" for name, own in chosen.items()
            )
            lines.append(
                f"- by {by}{end}: {estimate[0]:.2f} points ({low:.2f} to {high:.2f}): "
                f"**{verdict(low, high)}**; {each}"
            )
    return [*lines, ""]


def verdict(low: float, high: float) -> str:
    """Return what an interval of points gained says.

    >>> verdict(0.1, 3), verdict(-3, -1), verdict(-0.5, 0.5), verdict(-0.5, 2)
    ('help', 'hurt', 'add nothing', 'undecided')
    """
    if low > 0 or high < 0:
        return "help" if low > 0 else "hurt"
    return "add nothing" if low >= -MARGIN and high <= MARGIN else "undecided"


def _corrected(plain: dict[str, list[Row]]) -> list[str]:
    def gain(row: Row) -> float:
        without, corrected = (
            height(row, f"{BEST}{end}", "accuracies") for end in ("", ", corrected")
        )
        return without - corrected

    estimate, networks = _mean_difference({n: o for n, o in plain.items() if n in SCALED}, gain)
    low, high = interval(estimate, networks)
    word = "holds" if low > 0 else "fails" if high < 0 else "undecided"
    told = f"{estimate[0]:.2f} points fewer lost ({low:.2f} to {high:.2f}): **{word}**"
    return ["## 3. correction", "", told, ""]


def _width(found: dict[str, list[Row]]) -> list[str]:
    names = ["vgg16", "vgg16 x2", "vgg16 x4"]
    if any(name not in found for name in names):
        return ["## 4. width", "", "Not decided: a width is missing.", ""]
    lines, falls, halves = ["## 4. width", ""], True, True
    for of in ("calibrated", "accuracies"):
        values = [
            statistics.fmean(height(row, f"{BEST}, corrected", of) for row in found[name])
            for name in names
        ]
        falls &= values[0] > values[1] > values[2]
        halves &= values[2] <= values[0] / 2
        lines.append(f"- {of}: " + ", ".join(f"{value:.3f}" for value in values))
    word = "holds" if falls and halves else "weakly" if falls else "fails"
    return [*lines, "", f"**{word}**", ""]


def _predicts(found: dict[str, list[Row]]) -> list[str]:
    lines = ["## 5. predicts", ""]
    for measure in ("procrustes", "cka"):
        pairs = {
            name: [
                (row["similarity"][measure], height(row, f"{BEST}, corrected", "accuracies"))
                for row in own
            ]
            for name, own in found.items()
        }
        whole = _spearman([one for own in pairs.values() for one in own])
        several = [np.asarray(own) for own in pairs.values() if len(own) > 1]
        within = _spearman([tuple(one) for own in several for one in own - own.mean(axis=0)])
        word = "holds" if whole <= -0.5 and within < 0 else "fails"
        if math.isnan(whole + within):
            word = "not decided"
        lines.append(
            f"- G-{measure}: {whole:.2f} over all pairs, {within:.2f} within families: **{word}**"
        )
    return lines


def _spearman(pairs: Sequence[tuple[float, ...]]) -> float:
    columns = np.asarray(pairs).T
    if len(pairs) < 3 or not np.ptp(columns, axis=1).all():
        return math.nan
    return float(spearmanr(*columns).statistic)
