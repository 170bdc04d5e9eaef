"""Items whose networks the zoo does not have: their claims are listed, and why they cannot be tried."""

from __future__ import annotations

from collections.abc import Mapping

from sigmascope.figures import Drawn
from sigmascope.reproduce.item import Check, untried
from sigmascope.reproduce.setting import Setting

__all__ = ["CONSTANT_WIDTH", "RESNET18", "all_untried", "measure_nothing", "no_figure"]

RESNET18 = "the zoo has no ResNet-18"
CONSTANT_WIDTH = "the zoo has no Myrtle CNN of constant width 512"


def measure_nothing(setting: Setting) -> None:
    """Measure nothing, since there is nothing to measure."""


def all_untried(claims: Mapping[str, str], reason: str) -> list[Check]:
    """Say of each claim, by what is expected of it, that it cannot be tried."""
    return [untried(claim, expected, reason) for claim, expected in claims.items()]


def no_figure(nothing: None) -> dict[str, Drawn]:
    """Draw nothing."""
    return {}
