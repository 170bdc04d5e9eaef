"""Which activations go first: the rankings of all criteria, and the affine maps of all sites."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from linearize_training import Maps
from torch import Tensor, nn

from sigmascope import linearize

DRAWS = 5
RANDOM = tuple(f"random-{draw}" for draw in range(DRAWS))
CRITERIA = (*(name for name in linearize.CRITERIA if name != "random"), *RANDOM)
BATCH = 500


@dataclass(frozen=True)
class Selection:
    """Sites by criterion, the first to go first; values by criterion and site; maps by site."""

    orders: dict[str, list[str]]
    scores: dict[str, dict[str, float]]
    maps: Any

    def maps_of(self, kind: str) -> Maps:
        """Return the `affine` maps or the `identity`."""
        maps: Maps = self.maps
        return maps if kind == "affine" else identities(maps)


def identities(maps: Maps) -> Maps:
    """Return identities of the same widths."""
    return {
        name: (torch.ones_like(scale), torch.zeros_like(shift), axis)
        for name, (scale, shift, axis) in maps.items()
    }


def maps_in(plan: linearize.Plan) -> Maps:
    """Return the maps of a plan by the path of the module that each replaces.

    Raises:
        ValueError: an activation is no module, or is called more than once.
    """
    found: dict[str, tuple[Tensor, Tensor, int]] = {}
    for site in plan.ranking:
        values = plan.values_of(site)
        if values is None or not site.is_module or site.calls != 1 or site.axis is None:
            raise ValueError(f"{site.name}: not one call of a module with channels")
        found[site.path] = values[0].float(), values[1].float(), site.axis
    return found


def fitted(model: nn.Module, images: Tensor, sites: Any = ()) -> Maps:
    """Return the affine maps of some or all activations."""
    return maps_in(
        linearize.plan(
            *(model.eval(), list(images.split(BATCH))),
            **{"budget": 1.0, "by": "depth", "scores": False, "sites": sites},
        )
    )


def ranked(model: nn.Module, images: Tensor, labels: Tensor, *, seed: int) -> Selection:
    """Return the rankings of all criteria, measured on the same images.

    One plan measures all of them: its criterion asks all the others, which share its evidence.
    """
    scores: dict[str, dict[str, float]] = {}

    def ask_all(evidence: linearize.Evidence) -> list[float]:
        paths = [call.path for call in evidence.calls]
        for name in CRITERIA:
            kind, _, draw = name.partition("-")
            asked = replace(evidence, seed=DRAWS * seed + int(draw)) if draw else evidence
            values = linearize.CRITERIA[kind].values(asked)
            scores[name] = dict(zip(paths, map(float, values), strict=True))
        return list(scores["depth"].values())

    criterion = linearize.Criterion(ask_all, needs_labels=True)
    batches = list(zip(images.split(BATCH), labels.split(BATCH), strict=True))
    plan = linearize.plan(model.eval(), batches, budget=1.0, by=criterion, scores=False)
    orders = {name: ordered(name, values) for name, values in scores.items()}
    return Selection(orders, scores, maps_in(plan))


def ordered(criterion: str, values: dict[str, float]) -> list[str]:
    """Return the sites, the first to go first; those without a value last."""
    highest = linearize.CRITERIA[criterion.partition("-")[0]].highest_first

    def place(site: str) -> tuple[bool, float]:
        value = values[site]
        return math.isnan(value), 0.0 if math.isnan(value) else -value if highest else value

    return sorted(values, key=place)
