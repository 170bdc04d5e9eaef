"""Where in a residual network an activation call is: inside a block, at its end, or before the
blocks.
"""

from __future__ import annotations

import numpy as np

from sigmascope.measure.signature import Signature
from sigmascope_papers.nonlinearity.cases import Array

__all__ = ["END", "INSIDE", "STEM", "by_place", "places_in", "separation"]

INSIDE, END, STEM = "inside a block", "at the end of a block", "before the blocks"


def places_in(signature: Signature) -> list[str]:
    """Say of each site whether it is inside a block, at its end, or before the blocks.

    A block is the module that the activation lies in: `layer1.0` for `layer1.0.relu`, `blocks.0`
    for `blocks.0.act2`. The last of its calls is its end.
    """
    blocks = [site.path.rpartition(".")[0] for site in signature.sites]
    last = {block: number for number, block in enumerate(blocks)}
    return [
        STEM if not block else END if last[block] == number else INSIDE
        for number, block in enumerate(blocks)
    ]


def by_place(signature: Signature) -> dict[str, Array]:
    """Return the scores that there are, by place."""
    places, scores = np.array(places_in(signature)), signature.scores
    return {place: scores[(places == place) & np.isfinite(scores)] for place in (INSIDE, END)}


def separation(signature: Signature) -> float:
    """Return the share of pairs of calls in which the one at the end of a block scores higher than
    the one inside.
    """
    found = by_place(signature)
    return float((found[END][:, None] > found[INSIDE]).mean())
