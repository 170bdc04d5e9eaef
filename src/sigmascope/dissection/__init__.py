"""Units and bases: what the units of a layer detect, and what it costs a network to work in another
basis.

>>> import torch
>>> import sigmascope as sg
>>> from sigmascope.dissection import pixel_masks
>>> maps = torch.rand(50, 2, 8, 8, generator=torch.Generator().manual_seed(0))
>>> masks = pixel_masks(maps > 0.99, [("spots", "texture"), ("dots", "texture")])
>>> sg.dissect(maps, masks).unit(1)[0]
Concept(name='dots', category='texture')

`masks` says what concepts are, `pictures` computes some from images, and `broden` reads annotated
ones. `features` watches a network, `run` dissects it, `experiment` rotates it, and `result` is what
comes out. `penalty` trains behind a rotated layer.

The names below are looked up when they are first used, so that importing the package does not
import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sigmascope.dissection.broden import Broden as Broden, read_broden as read_broden
    from sigmascope.dissection.experiment import rotation_experiment as rotation_experiment
    from sigmascope.dissection.features import (
        Features as Features,
        network_features as network_features,
    )
    from sigmascope.dissection.masks import (
        Concept as Concept,
        LabelMap as LabelMap,
        Masks as Masks,
        image_masks as image_masks,
        join_masks as join_masks,
        pixel_masks as pixel_masks,
    )
    from sigmascope.dissection.penalty import (
        RotationPenalty as RotationPenalty,
        rotate_layer as rotate_layer,
        rotation_penalty as rotation_penalty,
    )
    from sigmascope.dissection.pictures import (
        color_masks as color_masks,
        edge_masks as edge_masks,
        silhouette_masks as silhouette_masks,
    )
    from sigmascope.dissection.result import Dissection as Dissection
    from sigmascope.dissection.settings import FineTuning as FineTuning

_HOME = {
    "Broden": "broden",
    "Concept": "masks",
    "Dissection": "result",
    "Features": "features",
    "FineTuning": "settings",
    "LabelMap": "masks",
    "Masks": "masks",
    "RotationPenalty": "penalty",
    "color_masks": "pictures",
    "edge_masks": "pictures",
    "image_masks": "masks",
    "join_masks": "masks",
    "network_features": "features",
    "pixel_masks": "masks",
    "read_broden": "broden",
    "rotate_layer": "penalty",
    "rotation_experiment": "experiment",
    "rotation_penalty": "penalty",
    "silhouette_masks": "pictures",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(
            f"module 'sigmascope.dissection' has no attribute {name!r}. It offers: "
            f"{', '.join(_HOME)}."
        )
    value: object = getattr(importlib.import_module(f"sigmascope.dissection.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
