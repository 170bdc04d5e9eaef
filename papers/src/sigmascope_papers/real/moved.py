"""Figure 18 on networks that others have trained: on other images."""

from __future__ import annotations

import numpy as np

from sigmascope_papers.item import Item
from sigmascope_papers.nonlinearity import fig18
from sigmascope_papers.nonlinearity.fig18 import DISTANCES, NOISE, Deviations, between, floor_of
from sigmascope_papers.real.before import LIGHT
from sigmascope_papers.real.measuring import signatures
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.setting import Setting

MISSING = {"cifar100": "CIFAR-100 is in no package that can be had here"}
OF_IMAGENET = tuple(name for name in LIGHT if NETWORKS[name].source == "pictures")


def measure_deviations(setting: Setting) -> Deviations:
    """Compare signatures on pictures with those on enlarged images of CIFAR-10 and on noise."""
    own = signatures(setting, OF_IMAGENET)
    others = {data: signatures(setting, OF_IMAGENET, source=data) for data in ("cifar10", NOISE)}
    found, floor = {}, {}
    for kind, distance in DISTANCES.items():
        found[kind] = {
            data: np.array([between(distance, own[name], some[name]) for name in OF_IMAGENET])
            for data, some in others.items()
        }
        floor[kind] = np.array([floor_of(own[name], distance) for name in OF_IMAGENET])
    titles = tuple(NETWORKS[name].title for name in OF_IMAGENET)
    return Deviations(titles, found, floor, MISSING)


ITEM = Item(measure_deviations, fig18.judge, fig18.draw)
ITEMS = {"real-fig18": ITEM}
