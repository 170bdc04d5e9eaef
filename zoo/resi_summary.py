"""The tables of the tests of similarity, and their rule applied to them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from resi_measures import MEASURES
from resi_scores import TESTS, Node, Pair, scored
from resi_trainings import DEGREES, DESIGNS, LAYERS, Training, member

from sigmascope_papers.symmetry.similarity_tests import (
    COUNTERPARTS,
    OURS,
    Ends,
    Scores,
    SimilarityTests,
    Treatment,
    rank_spread,
    ranks,
    restricted,
    rivaled,
    verdict,
)

Row = dict[str, Any]
Similarities = dict[str, dict[str, dict[Pair, float]]]  # test -> measure -> pair -> number
Known = dict[str, dict[Pair, float]]
Table = dict[str, dict[str, Scores]]  # test -> measure
ALIKE = ("accuracy", "output")  # the tests of networks that were trained alike
RISE = 0.05  # of the accuracy on augmented images, so that test 3 counts


def gathered(rows: Sequence[Row]) -> tuple[Similarities, dict[str, Known]]:
    """Return the similarities of all tests, and what is known of their pairs."""
    found: Similarities = {test: defaultdict(dict) for test in TESTS}
    known: dict[str, Known] = {test: defaultdict(dict) for test in TESTS}
    accuracy = {row["key"]: row["accuracy"] for row in rows if row["key"].startswith("train/")}
    for row in rows:
        test, _, rest = row["key"].partition("/")
        if test == "monotonicity":
            for (i, j), values in zip(row["pairs"], row["values"], strict=True):
                pair = Node(0, row["seed"], i), Node(0, row["seed"], j)
                known[test]["layers"][pair] = j - i
                for measure, value in values.items():
                    found[test][measure][pair] = value
        elif test in (*DESIGNS, "alike"):
            a, b = (Node(degree, seed, LAYERS - 1) for degree, seed in row["ends"])
            for name in (test,) if test in DESIGNS else ALIKE:
                for measure, value in row["values"].items():
                    found[name][measure][a, b] = value
            if test == "alike":
                ends = [accuracy[f"train/{name}"] for name in rest.split("/")]
                known["accuracy"]["accuracy"][a, b] = abs(ends[0] - ends[1])
                for name, value in row["outputs"].items():
                    known["output"][name][a, b] = value
            else:
                known[test]["same"][a, b] = float(a.degree == b.degree)
    return found, known


def tables(rows: Sequence[Row]) -> tuple[Table, Table]:
    """Return the ranked and the second scores."""
    found, known = gathered(rows)
    first: Table = {}
    second: Table = {}
    for name, test in TESTS.items():
        every = found[name]
        if set(every) != set(MEASURES):
            continue
        facts = known[name]
        first[name] = {one: scored(test.score, every[one], facts[test.known]) for one in MEASURES}
        if test.second_name:
            second[name] = {
                one: scored(test.second, every[one], facts[test.second_known]) for one in MEASURES
            }
    return first, second


def treatments(rows: Mapping[str, Row], seeds: int) -> dict[str, tuple[list[float], bool]]:
    """Return by design the mean over each group of what its treatment should move, and whether it
    did.
    """
    found = {}
    moved = dict(zip(DESIGNS, ("accuracy", "followed", "hardened"), strict=True))
    for design, name in moved.items():
        networks = [[member(design, degree, n) for n in range(seeds)] for degree in DEGREES]
        if not all(_key(one) in rows for group in networks for one in group):
            continue
        means = [statistics.fmean(rows[_key(one)][name] for one in group) for group in networks]
        steps = [after - before for before, after in pairwise(means)]
        worked = {
            "accuracy": max(steps) < 0,
            "followed": min(steps) > 0,
            "hardened": means[-1] - means[0] >= RISE,
        }
        found[design] = means, worked[name]
    return found


def _key(training: Training) -> str:
    return f"train/{training.name}"


def tests_of(rows: Sequence[Row], setting: Mapping[str, int]) -> SimilarityTests | None:
    """Return the outcome of the networks of one setting, None while something is missing."""
    first, moved, _ = _outcome(rows, setting)
    if len(first) < len(TESTS) or len(moved) < len(DESIGNS):
        return None
    treated = {name: Treatment(tuple(means), worked) for name, (means, worked) in moved.items()}
    return SimilarityTests(first, treated, dict(setting))


def _outcome(
    rows: Sequence[Row], setting: Mapping[str, int]
) -> tuple[Table, dict[str, tuple[list[float], bool]], Table]:
    own = {row["key"]: row for row in rows if row["setting"] == setting}
    first, second = tables(list(own.values()))
    return first, treatments(own, setting.get("seeds", 0)), second


def summarized(rows: Sequence[Row], setting: Mapping[str, int]) -> str:
    """Return all tables and answers in Markdown, of the networks of one setting."""
    first, moved, second = _outcome(rows, setting)
    found = tests_of(rows, setting)
    if found is None:
        return f"Not all tests have been made: {', '.join(first) or 'none'} so far."
    counted = found.counted
    parts = [_heading(rows, setting), _worked(moved), _ranks(first, counted)]
    parts += [_values(first, second), _against(first, counted), _group(first, counted)]
    return "\n".join(line for part in parts for line in part)


def _heading(rows: Sequence[Row], setting: Mapping[str, int]) -> list[str]:
    numbers = ", ".join(f"{name} {number}" for name, number in setting.items())
    own = [row for row in rows if row["setting"] == setting]
    spent = [row["seconds"] for row in own if row["key"].startswith("train/")]
    told = f"{len(spent)} trainings, {sum(spent):,.0f} s of all processes together; "
    told += f"{len(own) - len(spent)} comparisons."
    return [f"Setting: {numbers}.", told, ""]


def _worked(moved: Mapping[str, tuple[list[float], bool]]) -> list[str]:
    what = {
        "label": "accuracy",
        "shortcut": "test images that get the class of their dot",
        "augmentation": "accuracy on augmented test images",
    }
    lines = ["## Did the treatments work?", ""]
    lines += ["| test | mean over the group | " + " | ".join(f"{d} %" for d in DEGREES) + " | |"]
    lines += ["|---|---|" + "--:|" * len(DEGREES) + "---|"]
    for design, (means, worked) in moved.items():
        cells = " | ".join(f"{100 * mean:.1f} %" for mean in means)
        lines.append(f"| {design} | {what[design]} | {cells} | {'yes' if worked else 'no'} |")
    return [*lines, ""]


def _ranks(first: Table, counted: Sequence[str]) -> list[str]:
    lines = ["## Ranks", "", "1 is best; in brackets, without one number of networks.", ""]
    lines.append("| measure | " + " | ".join(first) + " | mean rank |")
    lines.append("|---" * (len(first) + 2) + "|")
    cells: dict[str, list[str]] = defaultdict(list)
    for test in first.values():
        seeds = sorted(next(iter(test.values())).left_out)
        columns = [ranks([one.at(seed) for one in test.values()]) for seed in (None, *seeds)]
        for measure, row in zip(MEASURES, zip(*columns, strict=True), strict=True):
            cells[measure].append(f"{row[0]:g} ({min(row[1:]):g} to {max(row[1:]):g})")
    spread = rank_spread(first, counted)
    for measure in sorted(MEASURES, key=spread.__getitem__):
        mean, low, high = spread[measure]
        last = f"**{mean:.2f}** ({low:.2f} to {high:.2f})"
        lines.append(f"| {measure} | {' | '.join(cells[measure])} | {last} |")
    left = [name for name in TESTS if name not in counted]
    lines += ["", f"Not counted in the mean: {', '.join(left)}." if left else "All tests count."]
    return [*lines, ""]


def _values(first: Table, second: Table) -> list[str]:
    heads = [f"{name}: {TESTS[name].score_name}" for name in first]
    heads += [f"{name}: {TESTS[name].second_name}" for name in second]
    lines = ["## Scores", "", "| measure | " + " | ".join(heads) + " |"]
    lines += ["|---|" + "--:|" * len(heads)]
    for measure in MEASURES:
        numbers = [test[measure].value for part in (first, second) for test in part.values()]
        lines.append(f"| {measure} | " + " | ".join(f"{one:.3f}" for one in numbers) + " |")
    return [*lines, ""]


def _against(first: Table, counted: Sequence[str]) -> list[str]:
    lines = ["## Ours against the best rival", ""]
    lines.append("| test | measure | score | best rival | score | difference | answer |")
    lines.append("|---|---|--:|---|--:|---|---|")
    for name, test in first.items():
        for measure in OURS:
            rival, ends = rivaled(first, name, measure)
            answer = verdict(ends[1], ends[2], ("loses", "wins"))
            scores = f"{test[measure].value:.3f} | {rival} | {test[rival].value:.3f}"
            mark = "" if name in counted else " (not counted)"
            lines.append(f"| {name}{mark} | {measure} | {scores} | {shown(ends)} | {answer} |")
    return [*lines, ""]


def shown(ends: Ends) -> str:
    return f"{ends[0]:+.3f} ({ends[1]:+.3f} to {ends[2]:+.3f})"


def _group(first: Table, counted: Sequence[str]) -> list[str]:
    lines = ["## The group of ReLU instead of all rotations", "", "| test | difference | answer |"]
    lines.append("|---|---|---|")
    for ours, other in COUNTERPARTS.items():
        for name in (*first, "mean"):
            chosen = counted if name == "mean" else [name]
            ends = restricted(first, chosen, ours)
            answer = verdict(ends[1], ends[2], ("hurts", "helps"))
            lines.append(f"| {name}: {ours} less {other} | {shown(ends)} | {answer} |")
    return [*lines, ""]
