"""The tables of the experiment with linearized activations, and its rule applied to them."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from linearize_jobs import CURVE
from linearize_networks import PLANS

from sigmascope_papers.nonlinearity.criteria import CHEAP, Advantage, Unit, interval, verdict
from sigmascope_papers.nonlinearity.tuned_curves import Curves, Point

Row = dict[str, Any]
COMPARED = (("untuned", "affine"), ("tuned", "affine"), ("untuned", "identity"))


def drops(
    rows: list[Row], by: str = CURVE
) -> dict[tuple[str, int, float], dict[int, tuple[float, float]]]:
    """Return accuracy and drop by seed of every point (network, removed, epochs) of a criterion.

    A point without an original and a control, tuned by the same recipe, of the same weights is left
    out.
    """
    original = {(r["network"], r["seed"], r["origin"]): r for r in rows if r["stage"] == "train"}
    control = {
        (r["network"], r["seed"], r["origin"], _recipe(r)): r
        for r in rows
        if r["stage"] == "control"
    }
    found: dict[tuple[str, int, float], dict[int, tuple[float, float]]] = defaultdict(dict)
    for row in rows:
        unit = tuple(row[name] for name in ("network", "seed", "origin")) if "seed" in row else ()
        if row["stage"] != "curve" or row["criterion"] != by or unit not in original:
            continue
        if (*unit, _recipe(row)) not in control:
            continue
        best = max(original[unit]["test"], control[*unit, _recipe(row)]["test"])
        point = row["network"], row["removed"], row["epochs"]
        found[point][row["seed"]] = row["test"], best - row["test"]
    return dict(found)


def _recipe(row: Row) -> tuple[Any, ...]:
    return tuple(row["recipe"].values())


def curves_of(rows: list[Row]) -> Curves:
    """Return the points of all tuned networks, of several tunings the longest, and advantages."""
    found, longest = drops(rows), dict[tuple[str, int], float]()
    for network, removed, epochs in found:
        longest[network, removed] = max(epochs, longest.get((network, removed), 0))
    points = (
        Point(network, seed, removed, epochs, accuracy, round(accuracy + drop, 4))
        for (network, removed, epochs), by_seed in found.items()
        if epochs == longest[network, removed]
        for seed, (accuracy, drop) in sorted(by_seed.items())
    )
    return Curves(tuple(points), tuple(_all_advantages(rows)))


def _all_advantages(rows: list[Row]) -> Iterator[Advantage]:
    """Return the advantages of affinity over every rival, by comparison and unit."""
    for stage, maps in COMPARED:
        cells = cells_of(rows, stage, maps)
        for rival in sorted({*cells} - {"affinity"}):
            for (network, seed), points in sorted(advantages(cells, rival).items()):
                yield Advantage(stage, maps, rival, network, seed, round(points, 4))


def curves_table(rows: list[Row], by: str = CURVE) -> list[str]:
    """Return the table against the published one; of several tunings the longest."""
    found = drops(rows, by)
    if not found:
        return []
    title = "network" if by == CURVE else f"network, by {by}"
    lines = [
        f"| {title} | removed | epochs | accuracy, by seed | mean | drop, by seed | mean drop | "
        "goal | published (drop) | reached |",
        "|---|---:|---:|---|---:|---|---:|---:|---|---|",
    ]
    for network, plan in PLANS.items():
        for i, removed in enumerate(plan.removed):
            lengths = [epochs for name, n, epochs in found if (name, n) == (network, removed)]
            if not lengths:
                continue
            by_seed = found[network, removed, max(lengths)]
            points, lost = zip(*(by_seed[seed] for seed in sorted(by_seed)), strict=True)
            drop, goal = statistics.fmean(lost), plan.drops[i]
            reached = "yes" if drop <= goal + 1e-9 else "no"
            published = plan.published[i]
            lines.append(
                f"| {network} ({plan.activations}) | {removed} | {max(lengths):g} | "
                f"{_listed(points)} | {statistics.fmean(points):.2f} | {_listed(lost)} | "
                f"{drop:.2f} | {goal} | {published} ({plan.start - published:.1f}) | {reached}"
                f"{' so far' * (len(lost) < 3)} |"
            )
    return lines


def _curves_tables(rows: list[Row]) -> list[list[str]]:
    """Return the table, and then those of other criteria."""
    others = {row["criterion"]: None for row in rows if row["stage"] == "curve"}
    return [curves_table(rows, by) for by in {CURVE: None, **others}]


def starts_table(rows: list[Row]) -> list[str]:
    """Return the accuracies of originals and controls."""
    lines = ["| network | | epochs | test, by seed | held out | seconds | published |"]
    lines += ["|---|---|---:|---|---|---|---|"]
    groups: dict[tuple[str, str, float], list[Row]] = defaultdict(list)
    for row in rows:
        if row["stage"] in ("train", "control") and not row.get("repeated"):
            groups[row["network"], row["stage"], row["epochs"]].append(row)
    for (network, stage, epochs), held in groups.items():
        held.sort(key=lambda row: row["seed"])
        start = f"{PLANS[network].start}" if stage == "train" else ""
        cells = (_listed(row[name] for row in held) for name in ("test", "held_out"))
        seconds = _listed((row["seconds"] for row in held), digits=0)
        lines.append(
            f"| {network} | {stage} | {epochs:g} | {' | '.join(cells)} | {seconds} | {start} |"
        )
    return lines


def _listed(values: Iterable[float], digits: int = 2) -> str:
    return " ".join(f"{value:.{digits}f}" for value in values)


def cells_of(rows: list[Row], stage: str, maps: str) -> dict[str, dict[tuple[Unit, int], float]]:
    """Return accuracies by criterion and (unit, number removed); the random draws are averaged.

    Only cells that every criterion has count, so that a run that is not finished compares equals.
    """
    measure = "test" if stage == "tuned" else "held_out"
    drawn: dict[str, dict[tuple[Unit, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["stage"] == stage and row["maps"] == maps:
            cell = (row["network"], row["seed"]), row["removed"]
            drawn[row["criterion"].partition("-")[0]][cell].append(row[measure])
    draws = {name: max(map(len, values.values())) for name, values in drawn.items()}
    every = {cell for values in drawn.values() for cell in values}
    whole = {
        cell
        for cell in every
        if all(len(drawn[name].get(cell, ())) == draws[name] for name in drawn)
    }
    return {
        name: {cell: statistics.fmean(values[cell]) for cell in sorted(whole)}
        for name, values in drawn.items()
    }


def advantages(cells: dict[str, dict[tuple[Unit, int], float]], rival: str) -> dict[Unit, float]:
    """Return the mean advantage of affinity over a rival for each unit."""
    held: dict[Unit, list[float]] = defaultdict(list)
    for (unit, removed), value in cells["affinity"].items():
        held[unit].append(value - cells[rival][unit, removed])
    return {unit: statistics.fmean(values) for unit, values in held.items()}


def criteria_table(rows: list[Row], stage: str, maps: str = "affine") -> list[str]:
    """Return mean accuracies, advantages with intervals and verdicts, for all and each network."""
    cells = cells_of(rows, stage, maps)
    if "affinity" not in cells or not cells["affinity"]:
        return []
    networks = sorted({unit[0] for unit, _ in cells["affinity"]}, key=list(PLANS).index)
    lines = [
        f"| {stage}, {maps} | accuracy | affinity's advantage, all | verdict | "
        f"{' | '.join(networks)} |",
        "|---|---:|---|---|" + "---|" * len(networks),
    ]
    for rival in sorted(cells, key=lambda name: -statistics.fmean(cells[name].values())):
        gained = advantages(cells, rival)
        told = "" if rival == "affinity" else verdict(rival, gained, stage)
        by_network = [
            _advantage(value for (name, _), value in gained.items() if name == one)
            for one in networks
        ]
        mean = statistics.fmean(cells[rival].values())
        lines.append(
            f"| {rival} | {mean:.2f} | {_advantage(gained.values())} | {told} | "
            f"{' | '.join(by_network)} |"
        )
    return [*lines, *_conclusions(cells, networks, stage)]


def _advantage(values: Iterable[float]) -> str:
    mean, low, high = interval(values)
    ends = f" [{low:+.2f}, {high:+.2f}]" if math.isfinite(low) else ""
    return f"{mean:+.2f}{ends}"


def _conclusions(
    cells: dict[str, dict[tuple[Unit, int], float]], networks: list[str], stage: str
) -> list[str]:
    tying = [
        rival
        for rival in CHEAP
        if rival in cells and verdict(rival, advantages(cells, rival), stage) in ("ties", "loses")
    ]
    over = advantages(cells, "random") if "random" in cells else {}
    failing = [
        one
        for one in networks
        if over and statistics.fmean(v for (name, _), v in over.items() if name == one) <= 0
    ]
    return [
        "",
        f"- cheaper rivals that tie with affinity or beat it: {', '.join(tying) or 'none'}",
        f"- networks on which affinity is not better than random: {', '.join(failing) or 'none'}",
    ]


def curve_table(rows: list[Row], maps: str) -> list[str]:
    """Return the mean accuracy of each criterion by network and number removed, without tuning."""
    cells = cells_of(rows, "untuned", maps)
    points = sorted({(unit[0], removed) for held in cells.values() for unit, removed in held})
    lines = []
    for network in PLANS:
        numbers = [removed for name, removed in points if name == network]
        if not numbers:
            continue
        lines += ["", f"| {network}, {maps} | {' | '.join(map(str, numbers))} |"]
        lines += ["|---|" + "---:|" * len(numbers)]
        for criterion, held in cells.items():
            means = (
                statistics.fmean(v for (u, n), v in held.items() if (u[0], n) == (network, one))
                for one in numbers
            )
            lines.append(f"| {criterion} | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    return lines


def penalized_table(rows: list[Row]) -> list[str]:
    """Return the accuracies of the penalized networks before and after the replacement."""
    held = [row for row in rows if row["stage"] == "penalized"]
    if not held:
        return []
    lines = ["| penalized sites replaced, no tuning | before | affine maps | identity |"]
    lines += ["|---|---:|---:|---:|"]
    for row in sorted(held, key=lambda row: row["run"]):
        cells = " | ".join(f"{row[name]:.2f}" for name in ("before", "test", "identity"))
        lines.append(f"| {row['run']} | {cells} |")
    return lines


def pilots_table(rows: list[Row]) -> list[str]:
    """Return the pilots, the best first."""
    held = [row for row in rows if row["stage"] == "pilot"]
    lines = ["| pilot | held out | epochs | seconds |", "|---|---:|---:|---:|"]
    for row in sorted(held, key=lambda row: (row["network"], -row["held_out"])):
        cells = f"{row['held_out']:.2f} | {row['epochs']:g} | {row['seconds']:.0f}"
        lines.append(f"| {row['key']} | {cells} |")
    return lines if held else []


def summarized(rows: list[Row]) -> str:
    """Return all tables that the rows allow, in Markdown."""
    parts = [starts_table(rows), pilots_table(rows), *_curves_tables(rows)]
    parts += [criteria_table(rows, stage, maps) for stage, maps in COMPARED]
    parts += [curve_table(rows, maps) for maps in ("affine", "identity")]
    parts += [penalized_table(rows)]
    return "\n\n".join("\n".join(part) for part in parts if part)
