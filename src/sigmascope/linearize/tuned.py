"""How a linearized network is tuned, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import nn

from sigmascope.checks import check_choice, check_number, check_whole
from sigmascope.choices import TuningOptimizer
from sigmascope.linearize.judging import Judgment
from sigmascope.tables import Table, Tabular
from sigmascope.training.data import AUGMENTATIONS

if TYPE_CHECKING:
    from sigmascope.figures import Drawn

# optimizer -> its usual rate for batches of `USUAL_BATCH`, and decay
USUAL_BATCH = 128
USUAL = {"sgd": (0.03, 5e-4), "adamw": (5e-4, 0.05)}


@dataclass(frozen=True)
class TuneSettings:
    """The settings of a tuning; see `sigmascope.linearize.TuneOptions`.

    Raises:
        OptionError: a value that is not valid.

    >>> TuneSettings(optimizer="adamw").rate
    0.0005
    """

    epochs: int = 5
    batch: int = USUAL_BATCH
    optimizer: str = "sgd"
    rate: float | None = None
    decay: float | None = None
    momentum: float = 0.9
    warm_up: float = 0.1
    clip: float = 2.0
    distill: float = 0.9
    temperature: float = 4.0
    augment: str = "none"

    def __post_init__(self) -> None:
        check_choice("optimizer", self.optimizer, TuningOptimizer)
        check_choice("augment", self.augment, AUGMENTATIONS)
        for name in ("epochs", "batch"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        rate, decay = USUAL[self.optimizer]
        usual = {"rate": rate * math.sqrt(self.batch / USUAL_BATCH), "decay": decay}
        for name, value in usual.items():
            given = getattr(self, name)
            object.__setattr__(self, name, value if given is None else check_number(name, given))
        check_number("temperature", self.temperature, strict=True)
        check_number("clip", self.clip)
        check_number("momentum", self.momentum, below=1)
        check_number("warm_up", self.warm_up, below=1)
        check_number("distill", self.distill, below=math.nextafter(1, 2))

    def rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, counted from 0, of all steps.

        It rises in a straight line over the first `warm_up · steps` steps, then falls to 0 like the
        cosine from 0 to π.

        >>> settings = TuneSettings(rate=1.0, warm_up=0.5)
        >>> [round(settings.rate_at(step, 8), 3) for step in range(8)]
        [0.25, 0.5, 0.75, 1.0, 1.0, 0.854, 0.5, 0.146]
        """
        assert self.rate is not None
        warm = round(self.warm_up * steps)
        if step < warm:
            return self.rate * (step + 1) / warm
        done = (step - warm) / max(1, steps - warm)
        return self.rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


@dataclass(frozen=True)
class TunedEpoch:
    """One epoch of a tuning.

    Attributes:
        number: from 1.
        loss: the mean loss of its steps.
        held_out: how good the network is after it, where held-out batches were given.

    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> history = linearize.tune(network, samples, held_out=samples, epochs=2).history
    >>> [epoch.number for epoch in history], history[0].held_out.samples
    ([1, 2], 64)
    """

    number: int
    loss: float
    held_out: Judgment


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(Tabular):
    """A tuned network, and how it got there. It prints itself as a table.

    Attributes:
        network: a copy of the one that was given, with trained weights.
        name: of its class.
        before: how good it was on the held-out batches before the first epoch.
        history: the epochs.
        teacher: the class of the network whose outputs it learned from; empty without.
        samples: seen in an epoch.
        settings: those of the training.
        seed: of the order, the augmentation and random layers.

    >>> import torch
    >>> from sigmascope import linearize
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> x = torch.randn(256, 2)
    >>> samples = (x, (x[:, 0] > 0).long())
    >>> found = linearize.tune(network, samples, held_out=samples, epochs=2, teacher=network)
    >>> found.teacher, found.samples, len(found.accuracies)
    ('Sequential', 256, 3)
    """

    network: nn.Module = field(repr=False)
    name: str
    before: Judgment
    history: tuple[TunedEpoch, ...]
    teacher: str
    samples: int
    settings: TuneSettings
    seed: int

    @property
    def losses(self) -> list[float]:
        """The mean training loss of each epoch."""
        return [epoch.loss for epoch in self.history]

    @property
    def accuracies(self) -> list[float]:
        """The held-out accuracy in percent, before and after each epoch; NaN without such data."""
        return [one.accuracy for one in (self.before, *(epoch.held_out for epoch in self.history))]

    @property
    def accuracy(self) -> float:
        """The held-out accuracy in percent after the last epoch; NaN without such data."""
        return self.accuracies[-1]

    def plot(self) -> Drawn:
        """Draw the held-out accuracy by epoch; see `sigmascope.figures.draw_tuned`."""
        from sigmascope.figures.linearization import draw_tuned

        return draw_tuned(self)

    def _columns(self) -> dict[str, Sequence[object]]:
        judged = [self.before, *(epoch.held_out for epoch in self.history)]
        return {
            "epoch": [str(number) for number in range(len(judged))],
            "training loss": [math.nan, *self.losses],
            "held-out loss": [one.loss for one in judged],
            "accuracy": [one.accuracy for one in judged],
        }

    def _tables(self) -> list[Table]:
        how = f"{self.settings.optimizer}, rate {self.settings.rate:g}, seed {self.seed}"
        title = f"{self.name}, tuned on {self.samples:,} samples an epoch ({how})"
        notes = []
        if self.teacher:
            notes.append(
                f"loss: {1 - self.settings.distill:g} of that of the labels, "
                f"{self.settings.distill:g} of the distance to a {self.teacher} at temperature "
                f"{self.settings.temperature:g}"
            )
        if not self.before.samples:
            notes.append("no held-out batches: pass held_out= for the accuracy")
        return [Table(self._columns(), title, notes)]
