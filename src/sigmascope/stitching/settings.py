"""How a stitch is trained: its settings, and the presets they start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_origin, get_type_hints

from sigmascope.checks import check_choice, check_number, check_whole, options_from, with_old_names
from sigmascope.choices import (
    Averaging,
    FrontMode,
    Optimizer,
    Projection,
    Regularizer,
    Rounding,
    Selection,
    Shrinkage,
    Start,
    Weighing,
)
from sigmascope.errors import OptionError
from sigmascope.training.evaluation import check_training


class StitchOptions(TypedDict, total=False):
    """Keywords that change the settings of a preset; `Settings` explains them.

    >>> import torch
    >>> import sigmascope as sg
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> options: sg.stitching.StitchOptions = {"epochs": 2, "rate": 0.01}
    >>> sg.stitch(net, net, (samples, samples), site="1", **options).settings.epochs
    2
    """

    optimizer: Optimizer
    rate: float
    scale_rate: float | None
    momentum: float
    decay: float
    batch: int
    epochs: int
    head_start: int
    alpha: float
    regularizer: Regularizer
    projection: Projection
    beta: float
    rounding: Rounding
    rank: int
    strength: float
    shrinkage: Shrinkage
    temperature: float
    weighing: Weighing
    front_mode: FrontMode
    batch_norm_pass: bool | None
    final_pass: bool
    pass_batches: int | None
    averaging: Averaging
    select_on: Selection
    validation: float
    start: Start


CHOICES = {
    name: hint
    for name, hint in get_type_hints(StitchOptions).items()
    if get_origin(hint) is Literal
}


@dataclass(frozen=True)
class Settings:
    """How one stitch is trained and evaluated.

    Attributes:
        optimizer: "sgd" or "adam".
        rate: the learning rate, constant.
        scale_rate: the learning rate of the scales of a group element; None: `rate`.
        momentum: of SGD, below 1.
        decay: the weight decay of the parameters that the family lets decay; permutations never do.
        batch: the batch size.
        epochs: the number of epochs, with the head start.
        head_start: the number of epochs at the start without the scales of a group element. The
            epochs with scales start from the best of them, with a new optimizer. Families without
            scales have no head start.
        alpha: the weight of the norm that pulls a relu-group stitch toward permutations.
        regularizer: how that norm is scaled, a row of `permutations.REGULARIZERS`.
        projection: "step" projects onto the polytope after every step; "gradient" projects the
            gradient as well; "none" only keeps entries >= 0, with a penalty on row and column sums.
        beta: the weight of that penalty.
        rounding: how a relu-group stitch is rounded to a permutation, see
            `permutations.round_permutation`; the weights of "monotone" are drawn once per stitch.
        rank: of a low-rank stitch.
        strength: λ of a lasso stitch.
        shrinkage: "gradient" adds λ Σ|w| to the loss of a lasso stitch, as published; "proximal"
            moves entries toward 0 by rate · λ / (1 - momentum) after each step and stops there.
            Both have the same solutions, but only the second reaches zeros. It needs SGD.
        temperature: of SoftSort, times the number of channels.
        weighing: the weights of the distances of SoftSort, see `permutations.softsort`.
        front_mode: "train" runs the front in training mode, as published, so that its batch norms
            use batch statistics; or "eval".
        batch_norm_pass: whether batch norms get new statistics from a pass over the training data
            before each evaluation; None leaves the decision to the family.
        final_pass: whether a stitch whose batch norms are adapted gets its statistics for the test
            from one more pass, over all training data: the samples it was trained on, then the
            held-out ones, each without their last incomplete batch, augmented as in training.
        pass_batches: the number of batches of the pass before each evaluation; None: all. The final
            pass always uses all.
        averaging: the statistics of a pass: "exponential", with the momentum of the network, or
            "cumulative", the mean over the pass.
        select_on: "validation" selects the best epoch on held-out training data; "test" on the test
            data, as published.
        validation: the share of the training data that is held out.
        start: where a group element starts: "random", or "matched", at the permutation that best
            matches normalized channels of the two networks on the training data, with ratios of
            norms as scales, or "given", at an element such as `symmetry.align` finds. These two
            have no head start, and are themselves candidates for the best epoch, as number 0.

    >>> import torch
    >>> import sigmascope as sg
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> mine = sg.stitching.Settings(optimizer="adam", epochs=2, head_start=0)
    >>> found = sg.stitch(net, net, (samples, samples), site="1", family="full", preset=mine)
    >>> found.settings.optimizer, len(found.history)
    ('adam', 2)
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
    regularizer: str = "norm"
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
    start: str = field(default="random", metadata={"later": True})

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        scale_rate = () if self.scale_rate is None else ("scale_rate",)
        pass_batches = () if self.pass_batches is None else ("pass_batches",)
        rates = ("alpha", "beta", "strength", *scale_rate)
        check_training(self, rates=rates, counts=("rank", *pass_batches))
        check_number("momentum", self.momentum, below=1)
        check_number("temperature", self.temperature, strict=True)
        head_start = check_whole("head_start", self.head_start, 0, self.epochs)
        object.__setattr__(self, "head_start", head_start)
        for name, flags in (
            ("batch_norm_pass", (True, False, None)),
            ("final_pass", (True, False)),
        ):
            value = getattr(self, name)
            if not any(value is flag for flag in flags):
                allowed = " or ".join(map(str, flags))
                raise OptionError(f"{name} must be {allowed}, got {value!r}.")
        if self.shrinkage == "proximal" and self.optimizer != "sgd":
            raise OptionError(
                f"shrinkage='proximal' needs the step size of SGD, got optimizer="
                f"{self.optimizer!r}. Pass optimizer='sgd' or shrinkage='gradient'."
            )


Settings.__init__ = with_old_names(regulariser="regularizer")(  # type: ignore[method-assign]
    Settings.__init__
)

SHARED = ("batch", "epochs", "front_mode", "pass_batches", "averaging", "select_on", "validation")
"""Settings that stitches trained together must have in common."""


@dataclass(frozen=True)
class _Preset:
    """Settings of all families, and those that differ: family -> name -> value."""

    settings: Settings
    different: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


PRESETS = {
    # The appendix of Godfrey et al., NeurIPS 2022, arXiv:2205.14258: plain SGD, although one
    # passage mentions momentum; but epochs are selected on held-out data.
    "paper": _Preset(Settings()),
    # The published scripts: they never pass --stitch_lr on, so two families run at ten times the
    # rate.
    "as-run": _Preset(
        Settings(decay=1e-4, select_on="test"),
        {"relu-group": {"rate": 1e-2}, "softsort": {"rate": 1e-2, "optimizer": "adam"}},
    ),
    # Ours: about a fifteenth of the steps. A group element needs large ones: among rates from 0.03
    # to 3, 3 was best at four of five sites of two networks; its scales need smaller ones. With the
    # l1 term of a lasso in the loss, weights that should vanish would oscillate around 0.
    "fast": _Preset(
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
"""Name -> how stitches are trained; the names are `choices.Preset`.

>>> from sigmascope import stitching
>>> {name: preset.settings.epochs for name, preset in stitching.PRESETS.items()}
{'paper': 20, 'as-run': 20, 'fast': 10}
"""


def settings_for(preset: str | Settings, family: str, changes: Mapping[str, Any]) -> Settings:
    """Return the settings of a preset for a family, with changes.

    Unless it is given, the head start is at most half of the epochs.

    Raises:
        OptionError: an unknown preset or setting, or an invalid value.

    >>> settings_for("as-run", "relu-group", {"epochs": 4}).rate
    0.01
    """
    chosen = dict(changes)
    if isinstance(preset, Settings):
        base = preset
    else:
        row = PRESETS[check_choice("preset", preset, PRESETS)]
        base, chosen = row.settings, {**row.different.get(family, {}), **chosen}
    epochs = check_whole("epochs", chosen.get("epochs", base.epochs), 1)
    chosen.setdefault("head_start", min(base.head_start, epochs // 2))
    return options_from(Settings, chosen, base)
