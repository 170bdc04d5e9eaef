"""How units are dissected, and how a network is trained again behind a rotated layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, OptionError

__all__ = ["DissectOptions", "Dissecting", "FineTuning"]

SELECTIONS = ("validation", "test")


class DissectOptions(TypedDict, total=False):
    """Further keywords of `dissect`, which explains them."""

    quantile: float
    least_iou: float
    memory: float
    progress: bool


@dataclass(frozen=True)
class Dissecting:
    """The options of `dissect`."""

    quantile: float = 0.995
    least_iou: float = 0.04
    memory: float = 1e9
    progress: bool = True

    def __post_init__(self) -> None:
        for name, bound in (("quantile", 1.0), ("least_iou", 1.0), ("memory", math.inf)):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 < value < bound
            ):
                raise InputError(f"{name}={value!r} is not a number between 0 and {bound:g}.")


@dataclass(frozen=True)
class FineTuning:
    """How the rest of the network is trained: the published recipe by default, but for the choice
    of the epoch.

    Attributes:
        epochs: all of them.
        rate: of Adam, at first.
        drops: how often the rate is halved, at even distances.
        batch: images seen together; a rest is dropped.
        decay: L2 of parameters whose name contains "weight"; others have none.
        select_on: "validation": the best epoch is that on training data held out for this, which
            the network may have seen when it was first trained; "test": as published.
        validation: the share that is held out.
        least_epoch: the first one that may be chosen; 0 is the beginning, before any training,
            which nothing beats where the matrix changes little and the held-out samples were
            trained on before.
    """

    epochs: int = 50
    rate: float = 1e-3
    drops: int = 4
    batch: int = 32
    decay: float = 1e-4
    select_on: str = "validation"
    validation: float = 0.1
    least_epoch: int = 0

    def __post_init__(self) -> None:
        check_choice("select_on", self.select_on, SELECTIONS)
        for name, least in (
            ("epochs", 1),
            ("drops", 0),
            ("batch", 1),
            ("rate", 0.0),
            ("decay", 0.0),
            ("least_epoch", 0),
        ):
            value = getattr(self, name)
            whole = isinstance(least, int)
            if (
                isinstance(value, bool)
                or not isinstance(value, int if whole else (int, float))
                or not value >= least
            ):
                raise OptionError(
                    f"{name}={value!r} cannot be. Pass a {'whole ' * whole}number that is at "
                    f"least {least}."
                )
        if self.least_epoch > self.epochs:
            raise OptionError(
                f"least_epoch={self.least_epoch} is after the last of {self.epochs} epochs. "
                "Pass a smaller one."
            )
        if not isinstance(self.validation, (int, float)) or not 0 < self.validation < 1:
            raise OptionError(
                f"validation={self.validation!r} is no share of the data. Pass a number "
                "between 0 and 1."
            )

    def rate_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, from 0: halved every ⌊epochs / drops⌋ of them, 12
        of 50 as published.
        """
        step = max(1, math.floor(self.epochs / self.drops)) if self.drops else self.epochs
        return self.rate * 0.5 ** min(epoch // step, self.drops)
