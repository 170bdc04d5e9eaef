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
"""

from __future__ import annotations

from sigmascope.dissection.broden import Broden, read_broden
from sigmascope.dissection.experiment import rotation_experiment
from sigmascope.dissection.features import Features, network_features
from sigmascope.dissection.masks import (
    Concept,
    LabelMap,
    Masks,
    image_masks,
    join_masks,
    pixel_masks,
)
from sigmascope.dissection.penalty import RotationPenalty, rotate_layer, rotation_penalty
from sigmascope.dissection.pictures import color_masks, edge_masks, silhouette_masks
from sigmascope.dissection.result import Dissection
from sigmascope.dissection.settings import FineTuning

__all__ = [
    "Broden",
    "Concept",
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
    "silhouette_masks",
]
