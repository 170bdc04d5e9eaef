"""Folding as a step of a linearization: the network, and what happened in words and numbers."""

from __future__ import annotations

import math

from torch import nn

from sigmascope.linearize.folding.folding import fold
from sigmascope.linearize.folding.result import Folded
from sigmascope.linearize.linearization import Folding


def folded(network: nn.Module) -> tuple[nn.Module, Folding]:
    """Return a network in which what became linear is merged, and what was merged and why not."""
    found = fold(network)
    return found.network, summary_of(found)


def summary_of(found: Folded) -> Folding:
    """Return what was folded, without the network."""
    return Folding(found.steps, found.refused, found.merges, found.before, found.after)


def folded_again(network: nn.Module, merges: tuple[str, ...]) -> nn.Module:
    """Return a network with given merges, without measuring anything.

    Raises:
        OptionError: merges that are not possible in it.
    """
    return fold(network, merges=merges, timer=lambda calls: [math.nan] * len(calls)).network
