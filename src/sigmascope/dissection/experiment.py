"""The rotation experiment: how many units stay interpretable when the basis is rotated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from torch import nn

from sigmascope.dissection.dissecting import POWERS, dissect
from sigmascope.dissection.masks import Masks
from sigmascope.dissection.network_maps import network_features
from sigmascope.dissection.result import Dissection
from sigmascope.dissection.settings import DissectOptions
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
    **options: Unpack[DissectOptions],
) -> dict[str, Dissection]:
    """Return dissections of sites of a network, in its own basis and in rotated ones.

    The experiment is that of Godfrey et al., NeurIPS 2022, arXiv:2205.14258. All sites of one width
    share their rotations. The input of an activation is not a control without activation: the
    network was trained with the activation after it. The control, as published, is a network that
    was trained without it.

    Args:
        model: a network with feature maps (n, c, h, w) at the sites.
        sites: names as in `network_features`, or pairs (name, "input" or "output").
        batches: of the images of the masks, in the same order.
        masks: of concepts.
        seeds: of the rotations.
        powers: of each rotation.
        **options: see `DissectSettings`.

    Returns:
        Name of the features -> dissection, in the order of the sites; see `Dissection.fraction`.

    Raises:
        InputError: no sites; otherwise as `dissect`.
    """
    if not sites or isinstance(sites, str):
        raise InputError(f"sites must be a list of names such as ['blocks.2.act2'], got {sites!r}.")
    results = {}
    for site in sites:
        name, side = (site, "output") if isinstance(site, str) else site
        features = network_features(model, name, batches, side=side)
        results[features.name] = dissect(
            features, masks, seeds=list(seeds), powers=powers, **options
        )
    return results
