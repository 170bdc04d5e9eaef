"""Figures of results.

Every function of `FIGURES` returns a `Drawn`: the figure, its axes, and the data it shows as a
table. `Drawn.save` writes the figure as PDF, SVG or PNG, with its data as CSV beside it. Functions
that take `axes` draw in a panel of your own figure.
"""

from __future__ import annotations

from collections.abc import Callable

from sigmascope.figures.accuracy import draw_accuracy
from sigmascope.figures.barrier import draw_barrier
from sigmascope.figures.blocks import draw_blocks
from sigmascope.figures.correlations import draw_correlations
from sigmascope.figures.curves import draw_curves
from sigmascope.figures.density import draw_densities, parts_of
from sigmascope.figures.difference import draw_difference
from sigmascope.figures.distances import draw_distances
from sigmascope.figures.drawn import Drawn, save
from sigmascope.figures.embedding import draw_embedding
from sigmascope.figures.linearization import draw_linearization, draw_tuned
from sigmascope.figures.signature import draw_signature, draw_signatures
from sigmascope.figures.similarity_map import draw_similarity
from sigmascope.figures.statistics import draw_statistics
from sigmascope.figures.stitching import (
    draw_cross_validation,
    draw_dissection,
    draw_rotation_penalty,
    draw_stitch,
)
from sigmascope.figures.style import new_figure, styled
from sigmascope.figures.track import draw_track
from sigmascope.figures.tree import draw_tree

__all__ = [
    "FIGURES",
    "Drawn",
    "draw_accuracy",
    "draw_barrier",
    "draw_blocks",
    "draw_correlations",
    "draw_cross_validation",
    "draw_curves",
    "draw_densities",
    "draw_difference",
    "draw_dissection",
    "draw_distances",
    "draw_embedding",
    "draw_linearization",
    "draw_rotation_penalty",
    "draw_signature",
    "draw_signatures",
    "draw_similarity",
    "draw_statistics",
    "draw_stitch",
    "draw_track",
    "draw_tree",
    "draw_tuned",
    "new_figure",
    "parts_of",
    "save",
    "styled",
]

FIGURES: dict[str, Callable[..., Drawn]] = {
    "accuracy": draw_accuracy,
    "barrier": draw_barrier,
    "blocks": draw_blocks,
    "correlations": draw_correlations,
    "curves": draw_curves,
    "densities": draw_densities,
    "difference": draw_difference,
    "distances": draw_distances,
    "embedding": draw_embedding,
    "signature": draw_signature,
    "signatures": draw_signatures,
    "similarity": draw_similarity,
    "statistics": draw_statistics,
    "track": draw_track,
    "tree": draw_tree,
}
"""Name of a figure -> the function that draws it.

>>> from sigmascope import figures
>>> figures.FIGURES["signature"].__name__
'draw_signature'
"""
