"""Figure 4A: random networks with larger weights are less affine, ReLU less so than tanh.

The networks of `redshift` without shift (t = 0), for the five seeds of the authors' notebook.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sigmascope.figures import Drawn
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.nonlinearity.redshift import (
    SCALES,
    RandomNetwork,
    draw_networks,
    falls,
    mean_scores,
    measure_networks,
)
from sigmascope_papers.setting import Setting

__all__ = ["ITEM"]

# Means over five seeds by an independent implementation in float64; the paper prints none for this
# panel that are not noise.
REFERENCE = {("ReLU", 1): 0.907, ("ReLU", 6): 0.808, ("tanh", 1): 0.965, ("tanh", 6): 0.722}


def measure(setting: Setting) -> list[RandomNetwork]:
    """Return all networks."""
    return measure_networks(0.0)


def judge(networks: Sequence[RandomNetwork]) -> list[Check]:
    """Means agree with the reference to its three digits; scores fall; ReLU falls less than half as
    far, and stays higher.
    """
    means = {
        kind: float(np.mean(list(mean_scores(networks, *kind).values()))) for kind in REFERENCE
    }
    checks = [
        agrees(
            f"{activation} at scale {scale}, in float64",
            expected,
            means[activation, scale],
            tolerance=0.001,
            digits=3,
        )
        for (activation, scale), expected in REFERENCE.items()
    ]
    checks += [falls(networks, activation) for activation in ("ReLU", "tanh")]
    relu, tanh = (means[activation, 1] - means[activation, 6] for activation in ("ReLU", "tanh"))
    claim, obtained = "ReLU falls slightly, beside tanh", f"by {relu:.3f}, tanh by {tanh:.3f}"
    checks.append(
        relation(claim, "less than half as far", obtained, true=relu < tanh, clear=relu < tanh / 2)
    )
    first, second = (
        mean_scores(networks, activation, SCALES[-1]) for activation in ("ReLU", "tanh")
    )
    higher = sum(first[seed] > second[seed] for seed in first)
    claim, expected = "ReLU stays above tanh at scale 6", f"above, for each of {len(first)} seeds"
    mean_higher, obtained = (
        means["ReLU", 6] > means["tanh", 6],
        f"above, for {higher} of {len(first)}",
    )
    checks.append(relation(claim, expected, obtained, true=mean_higher, clear=higher == len(first)))
    return checks


def draw(networks: Sequence[RandomNetwork]) -> dict[str, Drawn]:
    """Draw every network as an image."""
    return {"": draw_networks(networks)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
