"""Two networks brought to equal scales: channels of one vary as much as those of the other.

An activation such as ReLU leaves the scale of every channel free. Where the channels of two
networks differ in it, the mean of their weights is no network between them: with the factors 1 and
d, what enters a layer has the mean factor (1 + d) / 2 and its weights have (1 + 1/d) / 2, whose
product is greater than 1.
"""

from __future__ import annotations

import numpy as np
from torch import nn

from sigmascope.symmetry.aligning.result import Element
from sigmascope.symmetry.interpolation import Statistics
from sigmascope.symmetry.wiring.heads import HeadElement
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.symmetry.wiring.ties import MAGNITUDE
from sigmascope.symmetry.wiring.turns import Assignment, Values

SILENT = 1e-6  # of the largest standard deviation of a layer


def leveled(network: nn.Module, wiring: Wiring, own: Statistics, target: Statistics) -> nn.Module:
    """Return a network of the same function whose channels vary as much as those of another.

    Only scales that the activations leave free are changed. Where several layers share one, as on a
    residual stream, it gets the geometric mean of what they ask for. Silent channels keep theirs.

    Args:
        network: is not changed.
        wiring: of its architecture.
        own: path of a layer -> mean and standard deviation of its channels.
        target: the same of the other network.
    """
    values = _scales(wiring, own, target)
    if bool((values == 1).all()):
        return network
    places = np.arange(wiring.ties.places.lost.shape[1], dtype=np.int64)
    heads = tuple(HeadElement.identity(one) for one in wiring.heads)
    return Element(wiring, Assignment(wiring.ties, places, values), heads).move(network)


def _scales(wiring: Wiring, own: Statistics, target: Statistics) -> Values:
    """Return the value of every scale."""
    scales = wiring.ties.scales
    logs, counts = np.zeros((2, scales.lost.shape[1]))
    for (path, call), channels in wiring.calls.items():
        if call or path not in own:
            continue
        before, after = (one[path][1].cpu().numpy() for one in (own, target))
        roots = scales.roots(channels.scale)
        live = (before > SILENT * before.max()) & (after > SILENT * after.max())
        free = np.flatnonzero(live & (scales.lost[MAGNITUDE, roots] == 0))
        steps = np.log(after[free] / before[free]) / channels.exponent[free]
        np.add.at(logs, roots[free], steps)
        np.add.at(counts, roots[free], 1)
    found: Values = np.exp(logs / np.maximum(counts, 1))
    return found
