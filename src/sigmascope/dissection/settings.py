"""Settings of a dissection, and of the training behind a rotated layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

from sigmascope.checks import check_number, check_share, check_whole
from sigmascope.choices import Selection
from sigmascope.training.evaluation import check_training


class DissectOptions(TypedDict, total=False):
    """Further keywords of `dissect`; `DissectSettings` explains them."""

    quantile: float
    least_iou: float
    memory: float
    progress: bool


@dataclass(frozen=True)
class DissectSettings:
    """How units are dissected.

    Attributes:
        quantile: of all values of a unit, above which it is active.
        least_iou: a unit is interpretable if its best IoU is larger.
        memory: bytes for the largest values of all units.
        progress: whether to show a progress bar on a terminal.

    >>> import torch
    >>> import sigmascope as sg
    >>> maps = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> sg.dissect(maps, maps > 0.99, quantile=0.99).quantile, DissectSettings().quantile
    (0.99, 0.995)
    """

    quantile: float = 0.995
    least_iou: float = 0.04
    memory: float = 1e9
    progress: bool = True

    def __post_init__(self) -> None:
        check_share("quantile", self.quantile)
        check_share("least_iou", self.least_iou)
        check_number("memory", self.memory, strict=True)


class FineTuningOptions(TypedDict, total=False):
    """Further keywords of `rotation_penalty`; `FineTuning` explains them."""

    epochs: int
    rate: float
    drops: int
    batch: int
    decay: float
    select_on: Selection
    validation: float
    least_epoch: int


@dataclass(frozen=True)
class FineTuning:
    """How the rest of a network is trained; by default as published, except for `select_on`.

    Attributes:
        epochs: the number of epochs.
        rate: the initial learning rate of Adam.
        drops: how often the rate is halved, at equal distances.
        batch: the batch size; an incomplete batch is dropped.
        decay: the L2 penalty of parameters whose names contain "weight".
        select_on: "validation" selects the best epoch on held-out training data, which the network
            may have seen in its own training; "test" on the test data, as published.
        validation: the share of the training data that is held out.
        least_epoch: the first epoch that may be selected; 0 is the network before training.

    >>> import torch
    >>> from sigmascope import dissection
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> short = dissection.FineTuning(epochs=2, batch=16)
    >>> both = (samples, samples)
    >>> len(dissection.rotation_penalty(net, "0", torch.eye(4), both, settings=short).history)
    3
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
        check_training(self)
        check_whole("drops", self.drops)
        check_whole("least_epoch", self.least_epoch, 0, self.epochs)

    def rate_at(self, epoch: int) -> float:
        """Return the rate of an epoch, from 0; it is halved every ⌊epochs / drops⌋ epochs."""
        step = max(1, math.floor(self.epochs / self.drops)) if self.drops else self.epochs
        return self.rate * 0.5 ** min(epoch // step, self.drops)
