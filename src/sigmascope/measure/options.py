"""The options of `signature` and `rescore`: checked once and stored with the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from torch import Tensor

from sigmascope.capture.activations import activation_names
from sigmascope.checks import check_choice, check_whole
from sigmascope.choices import (
    Covariance,
    Degenerate,
    Estimator,
    Gates,
    Metric,
    MetricChoice,
    Mode,
    Pool,
    Samples,
)
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.randomness import FixedSeed, as_number
from sigmascope.measure.affinity import Scoring
from sigmascope.measure.companions import check_metrics

FUNCTION = "function "  # in front of the name of a function that was given for an option


class RescoreOptions(TypedDict, total=False):
    """The options that need no forward pass: those of `rescore`, and part of `signature`'s.

    Attributes:
        estimator: "published", the mean over the batches of the score of each batch, by exact
            transport; "population", one score of all samples with an interval, see `Moments`; or
            "both", the default unless samples="positions", where it is "population".
        covariance: the estimator of both covariances of the published score, see `affinity`.
        eps: added to their diagonals; None for a share of the mean variance, see `affinity`.
        degenerate: the published score of a constant output, see `affinity`.
        metrics: companion metrics beside the score: "all", or some of "cka", "norm", "sparsity",
            "entropy", "r2"; see `sigmascope.measure.companions`.
        compat: whether these follow the published formulas to the letter.
    """

    estimator: Estimator | None
    covariance: Covariance
    eps: float | None
    degenerate: Degenerate
    metrics: MetricChoice | Sequence[Metric]
    compat: bool


class SignatureOptions(RescoreOptions, total=False):
    """The options of `signature`, besides those of `RescoreOptions`.

    Attributes:
        pool: "channels" averages all axes but samples and channels; "sum"; "flatten"; "published"
            averages the axes that the published code averages; or a function from a tensor to a
            matrix (n, d).
        samples: "batch"; "tokens" to count every token or pixel as a sample, up to a number per
            batch; or "positions" to do so up to a number per image, which does not depend on the
            size of the batches. Tokens that the batch's `attention_mask` hides are left out, of
            averages too. A function from the name of a site and its input to the axis of the
            samples, or None where it was recognized, is "batch" with `sample_axis` as a function;
            it is asked once for a site and shape.
        activations: "pointwise"; "all" includes softmax; or names of kinds or families, see
            `known_activations`.
        channel_axis: pattern of a path -> the axis of the channels, where it was not recognized.
        sample_axis: pattern of a path -> the axis of the samples, where it was not recognized;
            every entry of the axis is then a sample.
        batch_axis: the axis of the samples in the inputs.
        max_batches: the number of batches to stop after.
        max_tokens: with samples="tokens", the largest number of rows to draw from a batch; with
            "positions", the largest number that the published score takes of a batch.
        max_positions: with samples="positions", the largest number of rows to draw from an image.
        fuse: whether an activation that is written as a formula, such as `x * torch.sigmoid(x)`, is
            one site; otherwise its parts are.
        sites: which sites to measure, by patterns of their names or by kinds, such as "layer1.*"
            or "gelu"; all by default. The others cost the forward pass only.
        gates: what to do where an activation multiplies another tensor of the samples, as in GLU
            and squeeze-excitation: "alone" scores the activation, and tags its site; "unit" scores
            the gated unit in its place, as a function of what the gate multiplies; "out" scores the
            activation and leaves it out of statistics and comparisons.
        mode: "eval", or "as-is" to leave training mode on where it is on.
        seed: for the order of the loader, random networks and the tokens or positions drawn; a
            whole number or a torch.Generator.
    """

    pool: Pool | Callable[[Tensor], Tensor]
    samples: Samples | Callable[[str, Tensor], int | None]
    activations: str | Collection[str]
    channel_axis: Mapping[str, int] | None
    sample_axis: Mapping[str, int] | None
    batch_axis: int
    max_batches: int | None
    max_tokens: int
    max_positions: int
    fuse: bool
    sites: str | Collection[str]
    gates: Gates
    mode: Mode
    seed: FixedSeed


class MeasuringOptions(SignatureOptions, total=False):
    """The keywords of `signature` beyond those that it names.

    Attributes:
        distributed: whether the processes of the default process group of `torch.distributed`
            measure together, each on its own batches. All of them return the signature of all
            batches. It says nothing about the result, so that it is no part of `Options`.
    """

    distributed: bool


@dataclass(frozen=True)
class Options:
    """How a network was measured; see `SignatureOptions` for the meaning of each option.

    Values are checked and brought to one form. A function given as `pool` or `samples` is kept by
    its name; the names in `activations` are checked when a network runs, since users can register
    their own.
    """

    covariance: str = "ledoit-wolf"
    eps: float | None = None
    degenerate: str = "nan"
    pool: str = "channels"
    samples: str = "batch"
    metrics: tuple[str, ...] = ()
    compat: bool = False
    activations: tuple[str, ...] = ("pointwise",)
    channel_axis: dict[str, int] = field(default_factory=dict)
    batch_axis: int = 0
    max_batches: int | None = None
    max_tokens: int = 2048
    mode: str = "eval"
    seed: int = 0
    estimator: str | None = field(default=None, metadata={"later": "published"})
    max_positions: int = field(default=64, metadata={"later": True})
    fuse: bool = field(default=True, metadata={"later": False})
    sample_axis: dict[str, int] = field(default_factory=dict, metadata={"later": True})
    sites: tuple[str, ...] = field(default=(), metadata={"later": True})
    gates: str = field(default="alone", metadata={"later": True})

    def __post_init__(self) -> None:
        scoring = self.scoring()
        checked = {
            "eps": scoring.eps,
            "degenerate": scoring.degenerate,
            "pool": _name_or_choice("pool", self.pool, Pool),
            "samples": _name_or_choice("samples", self.samples, Samples),
            "metrics": check_metrics(self.metrics),
            "compat": bool(self.compat),
            "activations": activation_names(self.activations),
            "channel_axis": checked_axes(self.channel_axis),
            "sample_axis": checked_axes(self.sample_axis, "sample_axis"),
            "batch_axis": check_whole("batch_axis", self.batch_axis, 0, 7),
            "max_batches": checked_limit(self.max_batches),
            "max_tokens": check_whole("max_tokens", self.max_tokens, 2),
            "max_positions": check_whole("max_positions", self.max_positions, 1),
            "mode": check_choice("mode", self.mode, Mode),
            "seed": as_number(self.seed),
            "sites": checked_patterns(self.sites),
            "gates": check_choice("gates", self.gates, Gates),
            "fuse": checked_flag("fuse", self.fuse),
            "estimator": _checked_estimator(self.estimator, self.samples),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not self.averages and self.pool != "channels":
            raise InputError(
                f"samples={self.samples!r} keeps every token as it is, so pool={self.pool!r} has "
                "nothing to do. Leave pool out."
            )

    @property
    def averages(self) -> bool:
        """Whether a row is a sample, not one of its positions."""
        return self.samples not in ("tokens", "positions")

    @property
    def published(self) -> bool:
        """Whether the published score is measured."""
        return self.estimator != "population"

    @property
    def population(self) -> bool:
        """Whether the population score is measured."""
        return self.estimator != "published"

    def scoring(self) -> Scoring:
        """Return the options of the affinity score alone."""
        return Scoring(self.covariance, self.eps, self.degenerate)


def _checked_estimator(estimator: object, samples: str) -> str:
    """Return the estimator, by default the one that suits the samples."""
    if estimator is None:
        return "population" if samples == "positions" else "both"
    return check_choice("estimator", estimator, Estimator)


def checked_flag(name: str, value: object) -> bool:
    """Return a flag; a text such as "no" would count as true."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, got {value!r:.80}.")
    return value


def _name_or_choice(option: str, value: object, choices: object) -> str:
    """Return the name of a function, or one of the choices that an option has otherwise."""
    if isinstance(value, str) and value.startswith(FUNCTION):
        return value
    if callable(value):
        return FUNCTION + str(getattr(value, "__qualname__", type(value).__name__))
    return check_choice(option, value, choices)


def checked_patterns(patterns: object) -> tuple[str, ...]:
    """Return patterns of sites as a tuple; one alone may be a text."""
    several = (patterns,) if isinstance(patterns, str) else patterns
    if not isinstance(several, Collection) or not all(
        isinstance(one, str) and one for one in several
    ):
        raise InputTypeError(
            f"sites must be a pattern or several, such as 'layer1.*' or 'gelu', got "
            f"{patterns!r:.80}."
        )
    return tuple(several)


def checked_limit(count: int | None) -> int | None:
    """Return a number of batches, at least 1, or None."""
    return None if count is None else check_whole("max_batches", count, 1)


def checked_axes(axes: object, option: str = "channel_axis") -> dict[str, int]:
    """Return the axes of the channels, or those that another option names, by pattern."""
    if axes is None:
        return {}
    if not isinstance(axes, Mapping) or not all(
        isinstance(pattern, str) and type(axis) is int for pattern, axis in axes.items()
    ):
        raise InputTypeError(
            f"{option} must map patterns of paths to axes, e.g. {{'blocks.*': -1}}, got "
            f"{axes!r:.80}."
        )
    return dict(axes)
