"""Folding as a step of a linearization: the network, and what happened in words and numbers."""

from __future__ import annotations

import math

from torch import nn

from sigmascope.errors import InputError, OptionError
from sigmascope.linearize.data import Data
from sigmascope.linearize.folding.folding import FoldOptions, fold
from sigmascope.linearize.folding.result import Cost, Folded
from sigmascope.linearize.linearization import Folding


def folded(
    network: nn.Module, data: Data, *, is_saved: bool, progress: bool = True
) -> tuple[nn.Module, Folding]:
    """Return a network in which what became linear is merged, and what was merged and why not.

    Args:
        network: in evaluation mode, from `apply`.
        data: whose first batch is the example.
        is_saved: whether it is written to a file, from which it must be folded without a batch.
        progress: whether to show a progress bar, on a terminal.
    """
    try:
        batch = data.first(network).content
        found = fold(network, batch, forward=data.forward, progress=progress)
    except InputError as error:  # the tuning is not lost for it
        parameters = sum(one.numel() for one in network.parameters())
        unknown = Cost(0, 0, parameters, 0, math.nan)
        return network, Folding((), (f"the network: {error}",), (), unknown, unknown)
    if is_saved and found.merges:
        try:
            folded_again(network, found.merges)
        except (InputError, OptionError) as error:
            reason = f"the network: it could not be folded again when it is loaded: {error}"
            refused = (reason, *found.refused)
            return network, Folding((), refused, (), found.before, found.before)
    return found.network, summary_of(found)


def summary_of(found: Folded) -> Folding:
    """Return what was folded, without the network."""
    return Folding(found.steps, found.refused, found.merges, found.before, found.after)


def folded_again(network: nn.Module, merges: tuple[str, ...]) -> nn.Module:
    """Return a network with given merges, without measuring anything.

    Raises:
        OptionError: merges that are not possible in it.
        InputError: it does not run on random inputs of the shapes that it knows.
    """
    options: FoldOptions = {
        "merges": merges,
        "timer": lambda calls: [math.nan] * len(calls),
        "progress": False,
    }
    return fold(network, **options).network
