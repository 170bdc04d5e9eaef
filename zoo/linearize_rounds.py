"""Activations removed in rounds: after each the network is tuned, and the rest is measured again on
the tuned network, which uses its activations otherwise than the original did.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from linearize_networks import Recipe
from linearize_selection import BATCH, maps_in
from linearize_training import Maps, Training
from torch import Tensor, nn

from sigmascope import linearize

SHARE = 0.75  # of what is still to be removed goes in a round; all in the last

# Number of the round, network, recipe, sites, maps -> the network without these, tuned.
Tune = Callable[[int, nn.Module, Recipe, list[str], Maps], tuple[nn.Module, Training]]


def counts(removed: int, rounds: int) -> list[int]:
    """Return how many activations go in each round."""
    found = list[int]()
    for _ in range(rounds - 1):
        found.append(math.ceil(SHARE * (removed - sum(found))))
    return [*found, removed - sum(found)]


def in_rounds(
    model: nn.Module,
    removed: int,
    recipe: Recipe,
    data: tuple[Tensor, Tensor],
    criterion: str,
    tune: Tune,
) -> tuple[nn.Module, list[str], Training]:
    """Return a network without some activations, their sites, and its trainings as one.

    Args:
        model: the original.
        removed: how many.
        recipe: of all rounds together.
        data: images and labels to rank and to fit maps.
        criterion: its name.
        tune: trains for one round.
    """
    part = replace(recipe, epochs=recipe.epochs / recipe.rounds, rounds=1)
    sites, losses, seconds = list[str](), list[float](), 0.0
    for number, count in enumerate(counts(removed, recipe.rounds)):
        ranking, maps = measured(model, data, criterion)
        model, training = tune(number, model, part, ranking[:count], maps)
        sites += ranking[:count]
        losses += training.losses
        seconds += training.seconds
    training.recipe, training.losses, training.seconds = recipe, losses, seconds
    return model, sites, training


def measured(
    model: nn.Module, data: tuple[Tensor, Tensor], criterion: str
) -> tuple[list[str], Maps]:
    """Return the activations that a network still has, the first to go first, and their maps."""
    batches = list(zip(*(one.split(BATCH) for one in data), strict=True))
    plan = linearize.plan(model.eval(), batches, budget=1.0, by=criterion, scores=False)
    return [site.path for site in plan.ranking], maps_in(plan)
