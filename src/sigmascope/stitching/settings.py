"""How a stitch is trained: the presets, each a table of plain values that any option may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sigmascope.checks import check_choice
from sigmascope.errors import OptionError
from sigmascope.stitching.birkhoff import REGULARISERS, ROUNDINGS
from sigmascope.stitching.sorting import WEIGHINGS

__all__ = ["PRESETS", "SHARED", "Preset", "Settings", "settings_for"]


@dataclass(frozen=True)
class Settings:
    """How one stitch is trained and judged.

    Attributes:
        optimizer: "sgd" or "adam".
        rate: the learning rate; it does not change.
        scale_rate: that of the scales of a group element; None takes `rate`.
        momentum: of SGD.
        decay: the weight decay of the parameters that the family lets decay; a permutation never
            does.
        batch: images that are seen together.
        epochs: all of them.
        head_start: how many of these come first with the scales of a group element left out. The
            epochs with scales begin at the best of them, with a new optimizer. Families without
            scales have none.
        alpha: the weight of the norm that draws a relu-group stitch to permutations.
        regulariser: how that norm is weighed, a row of `birkhoff.REGULARISERS`.
        projection: "step": onto the polytope after every step; "gradient": the gradient is
            projected first; "none": entries are kept ≥ 0, and a term keeps rows and columns near 1.
        beta: the weight of that term.
        rounding: how a relu-group stitch becomes a permutation, a name in `birkhoff.ROUNDINGS`; the
            weights of "monotone" are drawn once for a stitch.
        rank: of a low-rank stitch.
        strength: λ of a lasso stitch.
        shrinkage: "gradient": λ Σ|w| is in the loss of a lasso stitch, as published; "proximal": it
            is not, and after each step entries move toward 0 by rate · λ / (1 - momentum) and stop
            there. Both have the same solutions, but only the second reaches zeros. It needs SGD.
        temperature: of SoftSort, times the number of channels.
        weighing: of the distances of SoftSort, a name in `sorting.WEIGHINGS`.
        front_mode: "train": the front is in training mode too, as published, so that its batch
            norms use each batch; "eval".
        batch_norm_pass: whether batch norm gets new statistics from a pass over the training data,
            without gradients, before each evaluation; None leaves that to the family.
        final_pass: whether a stitch whose batch norm is so adapted gets statistics from one more
            pass, before its chosen epoch is tested, over all of the training data: first those that
            it was trained on, then those that were held out. Of each, a rest smaller than a batch
            is left out; images are augmented as in training.
        pass_batches: batches of the pass before each evaluation; None takes all, as the final pass
            does.
        averaging: statistics of a pass: "exponential", as the network says, or "cumulative", the
            mean over the pass.
        select_on: "validation": the best epoch is that on training data held out for this; "test":
            as published.
        validation: the share of the training data that is held out.
    """

    optimizer: str = "sgd"
    rate: float = 1e-3
    scale_rate: float | None = None
    momentum: float = 0.0
    decay: float = 0.0
    batch: int = 32
    epochs: int = 20
    head_start: int = 10
    alpha: float = 0.1
    regulariser: str = "norm"
    projection: str = "step"
    beta: float = 0.01
    rounding: str = "hungarian"
    rank: int = 1
    strength: float = 1e-2
    shrinkage: str = "gradient"
    temperature: float = 1.0
    weighing: str = "softmax"
    front_mode: str = "train"
    batch_norm_pass: bool | None = None
    final_pass: bool = False
    pass_batches: int | None = None
    averaging: str = "exponential"
    select_on: str = "validation"
    validation: float = 0.1

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
                raise OptionError(
                    f"{name}={value!r} cannot be. Pass a number that is at least {least}."
                )
            if isinstance(least, int) and not isinstance(value, int):
                raise OptionError(
                    f"{name}={value!r} is not whole. Pass a whole number that is at least {least}."
                )
        if not isinstance(self.validation, (int, float)) or not 0 < self.validation < 1:
            raise OptionError(
                f"validation={self.validation!r} is no share of the data. Pass a number "
                "between 0 and 1."
            )
        if self.batch_norm_pass not in (None, True, False):
            raise OptionError(
                f"batch_norm_pass={self.batch_norm_pass!r} is not known. Pass True, False or None."
            )
        if self.final_pass not in (True, False):
            raise OptionError(f"final_pass={self.final_pass!r} is not known. Pass True or False.")
        if self.momentum >= 1:
            raise OptionError(f"momentum={self.momentum!r} never forgets. Pass a number below 1.")
        if self.shrinkage == "proximal" and self.optimizer != "sgd":
            raise OptionError(
                "shrinkage='proximal' needs to know how far a step goes, and "
                f"optimizer={self.optimizer!r} does not tell. Pass "
                "optimizer='sgd', or shrinkage='gradient'."
            )
        if self.head_start > self.epochs:
            raise OptionError(
                f"head_start={self.head_start} is more than epochs={self.epochs}. Pass at "
                "most as many."
            )


CHOICES = {
    "optimizer": ("sgd", "adam"),
    "regulariser": tuple(REGULARISERS),
    "projection": ("step", "gradient", "none"),
    "rounding": ROUNDINGS,
    "shrinkage": ("gradient", "proximal"),
    "weighing": WEIGHINGS,
    "front_mode": ("train", "eval"),
    "averaging": ("exponential", "cumulative"),
    "select_on": ("validation", "test"),
}
# A whole least value stands for a whole number.
LEAST = {
    **dict.fromkeys(("rate", "scale_rate", "momentum", "decay", "alpha", "beta", "strength"), 0.0),
    **{"temperature": 1e-9, "head_start": 0},
    **dict.fromkeys(("batch", "epochs", "rank", "pass_batches"), 1),
}
OPTIONAL = ("pass_batches", "scale_rate")
SHARED = ("batch", "epochs", "front_mode", "pass_batches", "averaging", "select_on", "validation")
"""What stitches that are trained together must have in common."""


@dataclass(frozen=True)
class Preset:
    """Settings of all families, and what is different for some: family -> name -> value."""

    settings: Settings
    different: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


PRESETS = {
    # The appendix: plain SGD, although one place mentions momentum. Selection is on held-out data
    # unless asked otherwise.
    "paper": Preset(Settings()),
    # The published scripts: their --stitch_lr is never passed on, so that these two families run at
    # ten times the rate.
    "as-run": Preset(
        Settings(decay=1e-4, select_on="test"),
        {"relu-group": {"rate": 1e-2}, "softsort": {"rate": 1e-2, "optimizer": "adam"}},
    ),
    # Ours: about a fifteenth of the steps. A group element needs large ones; it was best at a rate
    # of 3 at four of five sites of two networks, among 0.03 to 3. Its scales, which are about 1,
    # need smaller ones. A lasso shrinks its weights after the step: with the l1 term in the loss,
    # those that should vanish would swing about 0.
    "fast": Preset(
        Settings(
            rate=2e-2,
            momentum=0.9,
            batch=256,
            epochs=10,
            head_start=5,
            pass_batches=50,
            averaging="cumulative",
        ),
        {
            "relu-group": {"rate": 3.0, "scale_rate": 0.1},
            "softsort": {"rate": 1e-2, "optimizer": "adam"},
            "lasso": {"shrinkage": "proximal"},
        },
    ),
}
"""Name -> how stitches are trained."""


def settings_for(preset: str | Settings, family: str, changes: Mapping[str, Any]) -> Settings:
    """Return the settings of a preset for a family, with changes.

    A head start that is not asked for is at most half of the epochs.

    Raises:
        OptionError: an unknown preset or setting, or a value that cannot be.

    >>> settings_for("as-run", "relu-group", {"epochs": 4}).rate
    0.01
    """
    known = [field.name for field in dataclasses.fields(Settings)]
    for name in changes:
        check_choice("setting", name, known)
    if isinstance(preset, Settings):
        base, different = preset, dict[str, Any]()
    else:
        check_choice("preset", preset, PRESETS)
        base, different = PRESETS[preset].settings, dict(PRESETS[preset].different.get(family, {}))
    chosen = different | dict(changes)
    epochs = chosen.get("epochs", base.epochs)
    if "head_start" not in chosen and isinstance(epochs, int):
        chosen["head_start"] = min(base.head_start, epochs // 2)
    return dataclasses.replace(base, **chosen)
