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
    verdict,
)

Row = dict[str, Any]
GOAL = 0.75


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
                cells.append(f"{of} {100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})")
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


def _scales(found: Lines) -> list[str]:
    lines, chosen = ["## 2. scales", ""], scaled(found)
    for by in BY:
        for end in ("", ", corrected"):
            gain = partial(scale_gain, by=by, end=end)
            mean, low, high = mean_difference(chosen, gain)
            each = ", ".join(
                f"{name} {statistics.fmean(map(gain, own)):.2f}" for name, own in chosen.items()
            )
            lines.append(
                f"- by {by}{end}: {mean:.2f} points ({low:.2f} to {high:.2f}): "
                f"**{verdict(low, high)}**; {each}"
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
            statistics.fmean(one.heights[f"{BEST}, corrected"][of] for one in families[name])
            for name in names
        ]
        falls &= values[0] > values[1] > values[2]
        halves &= values[2] <= values[0] / 2
        lines.append(f"- {of}: " + ", ".join(f"{value:.3f}" for value in values))
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
    return lines
