"""`sigmascope compare`: stored signatures side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sigmascope.choices import Linkage, Normalize
from sigmascope.cli.choices import LINKAGES, NORMALIZE
from sigmascope.cli.output import emit, inform, json_option, read, say
from sigmascope.cli.program import DONE, PARTIAL

if TYPE_CHECKING:
    from sigmascope.compare.distances import Clustering, Distances
    from sigmascope.figures import Drawn
    from sigmascope.runs import Run

__all__ = ["compare"]

NEIGHBORS = 2
FACTS = ("accuracy", "parameters", "flops", "depth")


@click.command(short_help="Statistics, distances, clusters of stored signatures.")
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@click.option(
    "--normalize",
    type=click.Choice(NORMALIZE),
    help="Distances per step of the path, for networks of unlike depth.",
)
@click.option(
    "--linkage",
    default="average",
    show_default=True,
    type=click.Choice(LINKAGES),
    help="How groups are compared.",
)
@click.option(
    "--groups", metavar="K", type=click.IntRange(min=1), help="Cut the tree into so many groups."
)
@click.option(
    "--figures",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Draw them too, as SVG and PNG with CSV.",
)
@json_option
def compare(
    runs: tuple[str, ...],
    normalize: Normalize | None,
    linkage: Linkage,
    groups: int | None,
    figures: str | None,
    as_json: bool,
) -> int:
    """Compare stored signatures: files, or folders of runs.

    Prints statistics, the distances by dynamic time warping, the clusters that follow from them,
    and the nearest neighbors. Ends with 3 where a network is left out: a folder lacks it, or it
    has no score.
    """
    found = read(runs)
    everything = found.runs
    scored = [run for run in everything if run.signature.coverage.scored]
    for run in everything:
        if run not in scored:
            inform(f"Note: {run.signature.name} ({run.path}) has no score at all and is left out.")
    _check_groups(groups, len(scored))
    tables = _tables(scored, normalize, linkage)
    if as_json:
        emit("comparison", _document(scored, *tables, groups))
    else:
        _print(scored, *tables, groups)
    if figures:
        paths = _draw(scored, tables[1], linkage, Path(figures))
        inform("Written: " + ", ".join(map(str, paths)))
    return DONE if len(scored) == len(everything) and not found.missing else PARTIAL


def _check_groups(groups: int | None, networks: int) -> None:
    if groups and groups > max(networks, 1):
        raise click.UsageError(f"--groups {groups} is more than there are networks: {networks}.")


def _tables(
    runs: list[Run], normalize: Normalize | None, linkage: Linkage
) -> tuple[Any, Distances, Clustering | None]:
    from sigmascope.compare.distances import distances
    from sigmascope.compare.statistics import statistics

    signatures = [run.signature for run in runs]
    found = distances(signatures, normalize=normalize)
    return statistics(signatures), found, found.cluster(linkage) if len(runs) > 1 else None


def _print(
    runs: list[Run], table: Any, found: Distances, tree: Clustering | None, groups: int | None
) -> None:
    say(f"{table!r}")
    known = _known(runs, table.names)
    if known:
        say("\n" + "\n".join(known))
    if tree is None:
        inform("Note: distances need at least two networks.")
        return
    say(f"\n{found!r}\n\n{tree!r}\n")
    if groups:
        for number, members in enumerate(_groups(tree, groups), 1):
            say(f"Group {number}: {', '.join(members)}")
        say("")
    say("\n".join(["Nearest neighbors", "", *_neighbor_lines(found)]))


def _draw(runs: list[Run], found: Distances, linkage: Linkage, folder: Path) -> list[Path]:
    """Draw signatures and densities, and distances where there are any; return the files."""
    from sigmascope import figures

    signatures = [run.signature for run in runs]
    drawings: dict[str, Callable[[], Drawn]] = {
        "signatures": lambda: figures.draw_signatures(signatures),
        "densities": lambda: figures.draw_densities(signatures),
    }
    if len(runs) > 1:
        drawings["distances"] = lambda: figures.draw_distances(found, method=linkage)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (name, draw) in enumerate(drawings.items(), 1):
        inform(
            f"Drawing {number}/{len(drawings)}: {name} of {len(runs)} "
            f"network{'s' * (len(runs) != 1)}"
        )
        drawn = draw()
        paths += [drawn.save(folder / f"{name}.{ending}") for ending in ("svg", "png")]
    return paths


def _known(runs: list[Run], names: tuple[str, ...]) -> list[str]:
    """Lay out the facts that lie beside the signatures, as far as there are any."""
    from sigmascope.tables import as_lines

    if not any(run.facts for run in runs):
        return []
    values = {fact: [getattr(run.facts, fact, None) for run in runs] for fact in FACTS}
    known = {
        fact: [math.nan if one is None else one for one in column]
        for fact, column in values.items()
    }
    return as_lines(
        {
            "network": names,
            **{fact: column for fact, column in known.items() if not all(map(math.isnan, column))},
        }
    )


def _groups(tree: Clustering, count: int) -> list[list[str]]:
    numbers = tree.groups(count)
    return [
        [name for name, number in zip(tree.names, numbers, strict=True) if number == group]
        for group in range(count)
    ]


def _neighbors(found: Distances) -> list[list[tuple[str, float]]]:
    """Name the nearest others of every network, the nearest first."""
    every = []
    for place, row in enumerate(found.matrix.tolist()):
        others = sorted((apart, other) for other, apart in enumerate(row) if other != place)
        every.append([(found.names[other], apart) for apart, other in others[:NEIGHBORS]])
    return every


def _neighbor_lines(found: Distances) -> list[str]:
    from sigmascope.tables import as_lines

    every = _neighbors(found)
    columns: dict[str, list[Any]] = {"network": list(found.names)}
    for rank, (nearest, apart) in enumerate(
        (("nearest", "distance"), ("second", "its distance"))[: len(every[0])]
    ):
        columns |= {
            nearest: [one[rank][0] for one in every],
            apart: [one[rank][1] for one in every],
        }
    return as_lines(columns)


def _document(
    runs: list[Run], table: Any, found: Distances, tree: Clustering | None, groups: int | None
) -> dict[str, object]:
    return {
        "names": table.names,
        "paths": [str(run.path) for run in runs],
        "statistics": table.table,
        "facts": [run.facts for run in runs],
        "distances": {"normalize": found.normalize, "matrix": found.matrix.tolist()},
        "clusters": tree
        and {"method": tree.method, "order": tree.order, "merges": tree.linkage.tolist()},
        "groups": _groups(tree, groups) if tree and groups else None,
        "neighbors": [
            [{"name": name, "distance": apart} for name, apart in one] for one in _neighbors(found)
        ],
    }
