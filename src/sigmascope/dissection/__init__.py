"""Units and bases: the concepts that units of a layer detect, and the cost of another basis.

>>> import torch
>>> import sigmascope as sg
>>> from sigmascope.dissection import pixel_masks
>>> maps = torch.rand(50, 2, 8, 8, generator=torch.Generator().manual_seed(0))
>>> masks = pixel_masks(maps > 0.99, [("spots", "texture"), ("dots", "texture")])
>>> sg.dissect(maps, masks).unit(1)[0]
Concept(name='dots', category='texture')

`masks` defines concepts, `pictures` computes some from images, and `broden` reads annotated ones.
`network_maps` captures features, `dissecting` compares them with concepts in any basis, `readings`
counts, and `result` holds the outcome. `penalty` trains behind a rotated layer.
"""

from __future__ import annotations

from sigmascope.dissection.broden import Broden, read_broden
from sigmascope.dissection.dissecting import POWERS, rotation_experiment
from sigmascope.dissection.masks import (
    Concept,
    LabelMap,
    Masks,
    image_masks,
    join_masks,
    pixel_masks,
)
from sigmascope.dissection.network_maps import Features, network_features
from sigmascope.dissection.penalty import RotationPenalty, rotate_layer, rotation_penalty
from sigmascope.dissection.pictures import color_masks, edge_masks
from sigmascope.dissection.result import Dissection
from sigmascope.dissection.settings import DissectSettings, FineTuning

__all__ = [
    "POWERS",
    "Broden",
    "Concept",
    "DissectSettings",
    "Dissection",
    "Features",
    "FineTuning",
    "LabelMap",
    "Masks",
    "RotationPenalty",
    "color_masks",
    "edge_masks",
    "image_masks",
    "join_masks",
    "network_features",
    "pixel_masks",
    "read_broden",
    "rotate_layer",
    "rotation_experiment",
    "rotation_penalty",
]
