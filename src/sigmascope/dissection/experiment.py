"""The rotation experiment: how many units stay interpretable away from the basis in which the
activation works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from sigmascope.dissection.features import network_features
from sigmascope.dissection.masks import Masks
from sigmascope.dissection.result import Dissection
from sigmascope.dissection.run import POWERS, dissect
from sigmascope.errors import InputError

__all__ = ["rotation_experiment"]


def rotation_experiment(
    model: nn.Module,
    sites: Sequence[str | tuple[str, str]],
    batches: Any,
    masks: Masks,
    *,
    seeds: Sequence[int] = range(5),
    powers: Sequence[float] = POWERS,
    progress: bool = True,
) -> dict[str, Dissection]:
    """Dissect sites of a network in its own basis and in rotated ones.

    The same rotations are used at every site of one width. The input of an activation is not the
    control without one: the network was trained with the activation behind it, whose basis those
    features are made for too. The control is a network that was trained without it, as the
    published one was.

    Args:
        model: any network with feature maps (n, c, h, w) at the sites.
        sites: names as `network_features` takes them, or pairs (name, "input" or "output").
        batches: of the images that the masks belong to, in the same order.
        masks: of concepts.
        seeds: of the rotations.
        powers: of each.
        progress: whether to show bars on a terminal.

    Returns:
        By name of the features, in the order of the sites; see `Dissection.fraction`.
    """
    if not sites or isinstance(sites, str):
        raise InputError(
            f"sites={sites!r} is no list of names. Pass at least one, such as ['blocks.2.act2']."
        )
    results = {}
    for site in sites:
        name, side = (site, "output") if isinstance(site, str) else site
        features = network_features(model, name, batches, side=side)
        results[features.name] = dissect(
            features, masks, seeds=list(seeds), powers=powers, progress=progress
        )
    return results
