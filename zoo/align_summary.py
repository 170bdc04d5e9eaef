"""The tables of the experiment on lines between networks, and its rule applied to them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from sigmascope_papers.symmetry.lines import (
    BEST,
    BY,
    CALIBRATED,
    CURVES,
    FEWEST,
    LOSS,
    LOST,
    MEASURES,
    Line,
    Lines,
    correction_gain,
    heights,
    mean_difference,
    predicted,
    reduced,
    scale_gain,
    scaled,
    told_points,
    verdict,
)

Row = dict[str, Any]
GOAL = 0.75
CURVE = f"{BEST}, corrected"  # on which the rule decides
WORDS = {LOSS: "loss", CALIBRATED: "calibrated loss", LOST: "accuracy lost"}
ROUNDING = 0.001  # points; an image of 2,500 is 0.04


def lines_of(rows: Sequence[Row]) -> Lines:
    """Return the pairs, of those with the most images."""
    pairs = [row for row in rows if "curves" in row]
    most = max((row["images"] for row in pairs), default=0)
    found = (
        Line(
            row["family"],
            row["width"],
            (row["seeds"][0], row["seeds"][1]),
            heights(row["curves"]),
            row["similarity"],
        )
        for row in pairs
        if row["images"] == most
    )
    return Lines(tuple(sorted(found, key=_place)), most)


def _place(line: Line) -> tuple[int, str, tuple[int, int]]:
    return line.width, line.family, line.seeds


def summarized(rows: Sequence[Row]) -> str:
    """Return all tables and answers in Markdown."""
    found = lines_of(rows)
    if not found.pairs:
        return "No pair has been measured."
    parts = [_reduced(found), _scales(found), _corrected(found), _width(found), _predicts(found)]
    return "\n".join(
        [*_heading(rows, found), *_table(found), *(one for part in parts for one in part)]
    )


def _heading(rows: Sequence[Row], found: Lines) -> list[str]:
    places = Counter(
        f"{row['device']} (torch {row['torch']})"
        for row in rows
        if row.get("images") == found.images
    )
    told = ", ".join(f"{count} on {name}" for name, count in places.items())
    return [f"{len(found.pairs)} pairs, {found.images} images: {told}.", ""]


def _table(found: Lines) -> list[str]:
    lines = [
        "| family | pairs | line | loss | calibrated | points lost "
        "| corrected: loss | calibrated | points lost |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for family, own in found.families.items():
        for curve in CURVES:
            cells = [
                f"{statistics.fmean(one.heights[name][of] for one in own):.3f}"
                for name in (curve, f"{curve}, corrected")
                for of in (LOSS, CALIBRATED, LOST)
            ]
            lines.append(f"| {family} | {len(own)} | {curve} | {' | '.join(cells)} |")
    return [*lines, ""]


def _reduced(found: Lines) -> list[str]:
    lines, reached = ["## 1. reduced", ""], {}
    for family, own in found.plain.items():
        for curve in CURVES[1:]:
            name, cells = f"{curve}, corrected", []
            for of in (CALIBRATED, LOST):
                value, low, high = reduced(own, name, of)
                cells.append(f"{WORDS[of]} {100 * value:.1f} % ({_ends(low, high)})")
                if curve == BEST:
                    reached[family, of] = value >= GOAL
            lines.append(f"- {family}, {name}: {', '.join(cells)}")
    asked = [
        [reached.get((family, of)) for family in ("myrtle", "vgg16")] for of in (CALIBRATED, LOST)
    ]
    if None in asked[0]:
        return [*lines, "", "Not decided: a family is missing.", ""]
    whole, some = all(map(all, asked)), any(map(all, asked))
    return [*lines, "", f"**{'holds' if whole else 'weakly' if some else 'fails'}**", ""]


def _ends(low: float, high: float) -> str:
    if math.isnan(low + high):
        return "no interval"
    return f"{100 * low:.1f} to {100 * high:.1f}"


def _scales(found: Lines) -> list[str]:
    lines, chosen = ["## 2. scales", ""], scaled(found)
    for by in BY:
        for end in ("", ", corrected"):
            gain = partial(scale_gain, by=by, end=end)
            ends = mean_difference(chosen, gain)
            each = ", ".join(
                f"{name} {round(statistics.fmean(map(gain, own)), 2) + 0.0:.2f}"
                for name, own in chosen.items()
            )
            gains = [gain(one) for own in chosen.values() for one in own]
            equal = sum(abs(one) < ROUNDING for one in gains)
            lines.append(
                f"- by {by}{end}: {told_points(ends)}: "
                f"**{verdict(*ends[1:])}**; {each}; no difference in {equal} of {len(gains)} pairs"
            )
    return [*lines, ""]


def _corrected(found: Lines) -> list[str]:
    mean, low, high = mean_difference(scaled(found), correction_gain)
    word = "holds" if low > 0 else "fails" if high < 0 else "undecided"
    told = f"{mean:.2f} points fewer lost ({low:.2f} to {high:.2f}): **{word}**"
    return ["## 3. correction", "", told, ""]


def _width(found: Lines) -> list[str]:
    families, names = found.families, ["vgg16", "vgg16 x2", "vgg16 x4"]
    if any(name not in families for name in names):
        return ["## 4. width", "", "Not decided: a width is missing.", ""]
    lines, falls, halves = ["## 4. width", ""], True, True
    for of in (CALIBRATED, LOST):
        values = [
            statistics.fmean(one.heights[CURVE][of] for one in families[name]) for name in names
        ]
        falls &= values[0] > values[1] > values[2]
        halves &= values[2] <= values[0] / 2
        lines.append(f"- {WORDS[of]}: " + ", ".join(f"{value:.3f}" for value in values))
    word = "holds" if falls and halves else "weakly" if falls else "fails"
    return [*lines, "", f"**{word}**", ""]


def _predicts(found: Lines) -> list[str]:
    lines = ["## 5. predicts", ""]
    for measure, name in MEASURES.items():
        whole, within = predicted(found, measure)
        word = "holds" if whole <= -0.5 and within < 0 else "fails"
        if math.isnan(whole + within):
            word = "not decided"
        lines.append(
            f"- {name}: {whole:.2f} over all pairs, {within:.2f} within families: **{word}**"
        )
    return [*lines, "", *_by_family(found)]


def _by_family(found: Lines) -> list[str]:
    """Return the means behind the last answer, and its correlations within each family."""
    heads = [f"{name} | its correlation" for name in MEASURES.values()]
    lines = [f"| family | pairs | points lost | {' | '.join(heads)} |"]
    lines.append("|---|--:|--:|" + "--:|--:|" * len(heads))
    for family, own in found.families.items():
        cells = [f"{statistics.fmean(one.lost(CURVE) for one in own):.1f}"]
        for measure in MEASURES:
            cells.append(f"{statistics.fmean(one.similarity[measure] for one in own):.3f}")
            alone = predicted(Lines(tuple(own), found.images), measure)[0]
            cells.append("–" if len(own) < FEWEST or math.isnan(alone) else f"{alone:.2f}")
        lines.append(f"| {family} | {len(own)} | {' | '.join(cells)} |")
    return lines
