"""One example of every kind of figure, and names that mean harm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sigmascope.compare.accuracy import fit_accuracy
from sigmascope.compare.difference import difference
from sigmascope.compare.distances import distances
from sigmascope.compare.statistics import statistics
from sigmascope.figures import (
    Drawn,
    draw_accuracy,
    draw_barrier,
    draw_blocks,
    draw_correlations,
    draw_curves,
    draw_densities,
    draw_difference,
    draw_distances,
    draw_embedding,
    draw_signature,
    draw_signatures,
    draw_similarity,
    draw_statistics,
    draw_track,
    draw_tree,
)
from sigmascope.maths.estimate import Estimate
from sigmascope.measure.block_result import MEASURES, Block, Blocks
from sigmascope.measure.options import Options
from sigmascope.measure.result import Signature
from sigmascope.monitoring.track import Entry, Track, TrackedSite
from sigmascope.symmetry.barriers import Barrier, Curve
from sigmascope.symmetry.layer_similarity import LayerSimilarity, Missing
from tests.compare.made import made, populated

# Formulas of spreadsheets and of matplotlib, broken ones too, markup, controls, letters that no
# font has, emptiness.
HOSTILE = (
    "=HYPERLINK(1)",
    "$\\frac{1}{",
    "$x^2$ and \\$5",
    "_nolegend_",
    "</text><script>alert(1)</script>",
    'comma, "quote" & new\nline',
    "\x00\x07\x1b[2J \u202egnihtyreve",
    "half \ud800 a letter, \U0001f9e0, 網路",
    "{percent} %s %d",
    "-1+1",
    "x" * 400,
    "",
)


def networks(names: Sequence[str], seed: int = 0) -> list[Signature]:
    generator = np.random.default_rng(seed)
    return [
        made(name, generator.random(7), parameters=10**6 * (1 + place))
        for place, name in enumerate(names)
    ]


def of_accuracy(names: Sequence[str]) -> Drawn:
    accuracies = {name: 70.0 + place**0.5 for place, name in enumerate(names)}
    families = {name: names[place % 2] or "(none)" for place, name in enumerate(names)}
    return draw_accuracy(fit_accuracy(networks(names), accuracies, families=families))


def of_correlations(names: Sequence[str]) -> Drawn:
    obtained = {name: [place / len(names), -0.9, math.nan] for place, name in enumerate(names)}
    return draw_correlations(
        {names[0]: obtained, names[1]: {names[-1]: [0.5, -0.5, 0.0]}}, names[:3]
    )


def of_difference(names: Sequence[str]) -> Drawn:
    """The names are those of the sites."""
    one, other = (
        populated(made(name, np.linspace(0.3, 0.9, len(names)), paths=names), bias=bias, seed=place)
        for place, (name, bias) in enumerate(((names[0], 0.01), (names[1], 0.03)))
    )
    return draw_difference(difference(one, other))


def of_track(names: Sequence[str]) -> Drawn:
    """The names are those of the sites."""
    track = Track(names[0], Options())
    for step, fall in enumerate(np.linspace(0, 0.3, 5)):
        scores = np.linspace(0.9, 1, len(names)) - fall
        sites = [
            TrackedSite(name, "relu", score, score - 0.01, score + 0.01, 0.0, 0.5, "")
            for name, score in zip(names, scores.tolist(), strict=True)
        ]
        track = track.with_entry(Entry(10 * step, tuple(sites)))
    return draw_track(track)


def of_tree(names: Sequence[str]) -> Drawn:
    return draw_tree(
        distances(networks(names)).cluster(), families={name: name or "(none)" for name in names}
    )


def of_similarity(names: Sequence[str]) -> Drawn:
    count = len(names)
    values = np.linspace(-0.2, 1, count * count).reshape(count, count)
    values[0, 1] = math.nan
    sizes = ((4,) * count,) * 2
    return draw_similarity(
        LayerSimilarity(
            measure="cka",
            group="relu",
            settings={"dtype": "float32"},
            networks=(names[0], names[-1]),
            rows=tuple(names),
            columns=tuple(names),
            similarities=tuple(tuple(row) for row in values.tolist()),
            channels=sizes,
            live=sizes,
            pairs="all",
            samples=10,
            missing=(Missing(names[0], names[1], "made without it"),),
        )
    )


def of_blocks(names: Sequence[str]) -> Drawn:
    measures = {
        measure: Estimate(0.1 * place, 0.1 * place - 0.05, 0.1 * place + 0.05)
        for place, measure in enumerate(MEASURES)
    }
    rows = tuple(Block(name, 0, "Layer", 8, "", 100, 100, 0.0, 0.0, **measures) for name in names)
    return draw_blocks(Blocks(names[0], rows, 8, (), "cpu", {}))


def of_barrier(names: Sequence[str]) -> Drawn:
    curves = {name: Curve((0.5, 1.0, 0.5), (0.9, 0.6, 0.9), (0.4, 0.8, 0.4)) for name in names}
    alignment: Any = None  # which the figure does not show
    return draw_barrier(
        Barrier((names[0], names[-1]), (0.0, 0.5, 1.0), curves, "batch norm", 64, alignment)
    )


# The same keys as FIGURES: names of networks, functions or curves -> a figure of them.
EXAMPLES: dict[str, Callable[[Sequence[str]], Drawn]] = {
    "accuracy": of_accuracy,
    "barrier": of_barrier,
    "blocks": of_blocks,
    "correlations": of_correlations,
    "curves": lambda names: draw_curves(
        [1, 2], {name: [[0.1, 0.2], [0.3, 0.5]] for name in names}, over="batch size"
    ),
    "densities": lambda names: draw_densities(networks(names)),
    "difference": of_difference,
    "distances": lambda names: draw_distances(distances(networks(names))),
    "embedding": lambda names: draw_embedding(
        distances(networks(names)).embed(), families={name: name for name in names}
    ),
    "signature": lambda names: draw_signature(
        made(names[0], np.linspace(0, 1, len(names)), paths=names), groups=names
    ),
    "signatures": lambda names: draw_signatures(networks(names)),
    "similarity": of_similarity,
    "statistics": lambda names: draw_statistics(statistics(networks(names))),
    "track": of_track,
    "tree": of_tree,
}
