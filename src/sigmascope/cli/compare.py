"""`sigmascope compare`: stored signatures side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from sigmascope import choices
from sigmascope.cli import options
from sigmascope.cli.output import (
    announce_distances,
    counted,
    directory,
    emit,
    inform,
    json_option,
    read,
    say,
)
from sigmascope.cli.program import DONE, PARTIAL

if TYPE_CHECKING:
    from sigmascope.compare.difference import Difference
    from sigmascope.compare.distances import Clustering, Distances
    from sigmascope.compare.statistics import Statistics
    from sigmascope.figures import Drawn
    from sigmascope.runs import Run

FACTS = ("accuracy", "parameters", "flops", "depth")
NEIGHBORS = (("nearest", "distance"), ("second", "its distance"))


EXAMPLES = (
    "sigmascope compare runs",
    "sigmascope compare a.json b.json --by population --figures figures",
)


@click.command(
    short_help="Statistics, distances, clusters of stored signatures.",
    epilog=options.examples(*EXAMPLES),
)
@options.runs
@options.only
@options.choice(
    "--by", choices.ScoreKind, "Scores to compare.  [default: published, if all have them]"
)
@options.choice("--normalize", choices.Normalize, "Divide distances by path length.")
@options.choice("--linkage", choices.Linkage, "Distance between clusters.", "average")
@options.count("--groups", "Cut the tree into N groups.")
@options.option("--figures", "Directory for figures, as SVG and PNG with CSV.", metavar="DIR")
@json_option
def compare(
    runs: tuple[str, ...], groups: int | None, figures: str | None, as_json: bool, **given: Any
) -> int:
    """Compare stored signatures: files, or directories of runs.

    Prints statistics, with 95 % intervals where population scores were measured, the distances by
    dynamic time warping, the clusters they form, and the nearest neighbors; of two networks with
    population scores also their differences. Exits with 3 if a network is left out: a directory
    lacks it, or it has no score.
    """
    folder = directory(figures) if figures else None
    found = read(runs, only=given.pop("only"))
    scored = []
    for run in found.runs:
        if _is_scored(run, given["by"]):
            scored.append(run)
        else:
            inform(f"Note: {run.signature.name} ({run.path}) has no score at all and is left out.")
    if groups and groups > max(len(scored), 1):
        raise click.UsageError(f"--groups {groups} exceeds the number of networks, {len(scored)}.")
    announce_distances(len(scored))
    compared = _compared(scored, groups, **given)
    if as_json:
        emit("comparison", _document(compared))
    else:
        _print(compared)
    if folder:
        inform("Written: " + ", ".join(map(str, _draw(compared, given["linkage"], folder))))
    return DONE if len(scored) == len(found.runs) and not found.missing else PARTIAL


def _is_scored(run: Run, by: choices.ScoreKind | None) -> bool:
    from sigmascope.compare.networks import has_scores

    if by:
        run.signature.scores_by(by)  # raises where it was not measured
    kinds = [by] if by else get_args(choices.ScoreKind)
    return any(has_scores(run.signature, kind) for kind in kinds)


@dataclass(frozen=True)
class Comparison:
    """What is printed; no tree for a single network.

    Intervals are the statistics of population scores, where the others are published; the
    difference is that of two networks.
    """

    runs: list[Run]
    statistics: Statistics
    intervals: Statistics | None
    difference: Difference | None
    distances: Distances
    tree: Clustering | None
    groups: list[list[str]] | None


def _compared(
    runs: list[Run],
    count: int | None,
    *,
    normalize: choices.Normalize | None,
    linkage: choices.Linkage,
    by: choices.ScoreKind | None,
) -> Comparison:
    from sigmascope.compare.difference import difference
    from sigmascope.compare.distances import distances
    from sigmascope.compare.networks import has_scores
    from sigmascope.compare.statistics import statistics

    signatures = [run.signature for run in runs]
    own = statistics(signatures, by=by)
    certain = all(has_scores(one, "population") for one in signatures)
    more = statistics(signatures, by="population") if certain and own.by == "published" else None
    pair = difference(*signatures) if certain and len(signatures) == 2 else None
    found = distances(signatures, normalize=normalize, by=by)
    tree = found.cluster(linkage) if len(runs) > 1 else None
    groups = _groups(tree, count) if tree and count else None
    return Comparison(runs, own, more, pair, found, tree, groups)


def _groups(tree: Clustering, count: int) -> list[list[str]]:
    members: list[list[str]] = [[] for _ in range(count)]
    for name, group in zip(tree.names, tree.groups(count), strict=True):
        members[group].append(name)
    return members


def _print(compared: Comparison) -> None:
    say(f"{compared.statistics!r}")
    for more in filter(None, (compared.intervals, compared.difference)):
        say(f"\n{more!r}")
    known = _known(compared.runs, compared.statistics.names)
    if known:
        say("\n" + "\n".join(known))
    if compared.tree is None:
        inform("Note: distances need at least two networks.")
        return
    say(f"\n{compared.distances!r}\n\n{compared.tree!r}\n")
    for number, members in enumerate(compared.groups or (), 1):
        say(f"Group {number}: {', '.join(members)}")
    if compared.groups:
        say("")
    say("\n".join(["Nearest neighbors", "", *_neighbor_lines(compared.distances)]))


def _draw(compared: Comparison, linkage: choices.Linkage, folder: Path) -> list[Path]:
    """Draw signatures and densities, and distances if there are any; return the files."""
    from sigmascope import figures

    signatures, by = [run.signature for run in compared.runs], compared.statistics.by
    drawings: dict[str, Callable[[], Drawn]] = {
        "signatures": lambda: figures.draw_signatures(signatures, by=by),
        "densities": lambda: figures.draw_densities(signatures, by=by),
    }
    if compared.difference:
        drawings["difference"] = compared.difference.plot
    if compared.tree:
        drawings["distances"] = lambda: figures.draw_distances(compared.distances, method=linkage)
    paths = []
    for number, (name, draw) in enumerate(drawings.items(), 1):
        inform(f"Drawing {number}/{len(drawings)}: {name} of {counted(len(signatures), 'network')}")
        drawn = draw()
        paths += [drawn.save(folder / f"{name}.{ending}") for ending in ("svg", "png")]
    return paths


def _known(runs: list[Run], names: tuple[str, ...]) -> list[str]:
    """Return a table of the facts stored beside the signatures, if there are any."""
    from sigmascope.tables import as_lines

    if not any(run.facts for run in runs):
        return []
    columns: dict[str, Any] = {"network": names}
    for fact in FACTS:
        values = [getattr(run.facts, fact, None) for run in runs]
        if any(value is not None for value in values):
            columns[fact] = [math.nan if value is None else value for value in values]
    return as_lines(columns)


def _neighbors(found: Distances) -> list[list[tuple[str, float]]]:
    """Return the nearest other networks of every network, the nearest first."""
    every = []
    for index, row in enumerate(found.matrix.tolist()):
        others = sorted((distance, other) for other, distance in enumerate(row) if other != index)
        every.append([(found.names[other], apart) for apart, other in others[: len(NEIGHBORS)]])
    return every


def _neighbor_lines(found: Distances) -> list[str]:
    from sigmascope.tables import as_lines

    every = _neighbors(found)
    columns: dict[str, list[Any]] = {"network": list(found.names)}
    for rank, titles in enumerate(NEIGHBORS[: len(every[0])]):
        for part, title in enumerate(titles):
            columns[title] = [neighbors[rank][part] for neighbors in every]
    return as_lines(columns)


def _document(compared: Comparison) -> dict[str, object]:
    tree, found, certain = compared.tree, compared.distances, compared.intervals
    return {
        "names": compared.statistics.names,
        "paths": [str(run.path) for run in compared.runs],
        "by": compared.statistics.by,
        "statistics": compared.statistics.table,
        "half_width": compared.statistics.half_width,
        "population": certain and {"statistics": certain.table, "half_width": certain.half_width},
        "difference": compared.difference,
        "facts": [run.facts for run in compared.runs],
        "distances": {
            "by": found.by,
            "normalize": found.normalize,
            "matrix": found.matrix.tolist(),
        },
        "clusters": tree
        and {"method": tree.method, "order": tree.order, "merges": tree.linkage.tolist()},
        "groups": compared.groups,
        "neighbors": [
            [{"name": name, "distance": distance} for name, distance in neighbors]
            for neighbors in _neighbors(found)
        ],
    }
