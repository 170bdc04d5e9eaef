"""The activation calls of one batch: collected as matrices while the network runs, then scored
together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from sigmascope.capture.pooling import Axes, NotSamplesError, Pooling, UnreadableError
from sigmascope.capture.record import Call, Finish
from sigmascope.errors import SigmascopeError
from sigmascope.measure.affinity import Affinity, affinities
from sigmascope.measure.companions import SILENT, Companions, companions, without_companions
from sigmascope.measure.options import Options

__all__ = ["BatchReadings", "Collector", "Described", "Observed", "Reading", "described", "read"]

# Elements whose sizes are compared at once, so that no second feature map is made.
CHUNK = 2**22


@dataclass
class Observed:
    """One activation call of a batch, before it is scored.

    Attributes:
        path, call, kind: which call, see `Call`.
        shape, dtype: of the input, before pooling.
        channel_axis, axis_reason: where its channels are and how that is known.
        x, y: (n, d), the pooled input and output; None where there are none.
        density: the shares of entries that are not zero before pooling, input and output, where
            asked for.
        reason: why there is nothing to score.
        skipped: whether the call is no activation of the samples at all.
    """

    path: str
    call: int
    kind: str
    shape: tuple[int, ...]
    dtype: str
    channel_axis: int | None = None
    axis_reason: str = ""
    x: Tensor | None = None
    y: Tensor | None = None
    density: list[Tensor] = field(default_factory=list)
    reason: str = ""
    skipped: bool = False


@dataclass(frozen=True)
class Described:
    """Which call it is, what went into it, and where the channels are; see `Observed`."""

    path: str
    call: int
    kind: str
    shape: tuple[int, ...]
    dtype: str
    channel_axis: int | None
    axis_reason: str


@dataclass(frozen=True)
class Reading(Described):
    """One activation call of a batch, scored; see `Observed` and `sigmascope.Affinity`."""

    n: int
    dim: int
    score: float
    certified: str
    reason: str
    skipped: bool
    metrics: dict[str, float]
    metric_reasons: dict[str, str]


@dataclass(frozen=True)
class BatchReadings:
    """All calls of one batch, in order of execution."""

    batch: int
    size: int
    fingerprint: str
    readings: tuple[Reading, ...]


class Collector:
    """Pools inputs and outputs of activation calls at once, so that no feature map outlives its call."""

    def __init__(self, pooling: Pooling, *, count_zeros: bool) -> None:
        self.observed: list[Observed] = []
        self._pooling = pooling
        self._count_zeros = count_zeros

    def observe(self, call: Call, x: Tensor) -> Finish | None:
        """Take in the input of a call, and return what takes in its output; see `capture.record.Observer`."""
        one = Observed(
            call.path, call.number, call.kind, tuple(x.shape), str(x.dtype).removeprefix("torch.")
        )
        self.observed.append(one)
        try:
            axes = self._axes(call, x, one)
            one.x = self._matrix(x, axes)
        except UnreadableError as error:
            one.reason, one.skipped = str(error), isinstance(error, NotSamplesError)
            return None
        one.reason = "the call did not return"
        if self._count_zeros:
            one.density.append(_density(x))

        def finish(y: Tensor) -> None:
            if y.shape != one.shape:
                one.reason = (
                    f"input {list(one.shape)} and output {list(y.shape)} differ in shape, so no "
                    "affine map compares them"
                )
                one.x, one.skipped = None, True
                return
            try:
                one.y, one.reason = self._matrix(y, axes), ""
            except UnreadableError as error:
                one.x, one.reason = None, str(error)
                return
            if self._count_zeros:
                one.density.append(_density(y))

        return finish

    def _matrix(self, tensor: Tensor, axes: Axes) -> Tensor:
        # What the network asks for, types and gradients, is not for averages.
        with torch.no_grad(), torch.autocast(tensor.device.type, enabled=False):
            return self._pooling.matrix(tensor.detach(), axes)

    def _axes(self, call: Call, x: Tensor, one: Observed) -> Axes:
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise UnreadableError(
                "inside a transformation of torch.func, where tensors hide their samples; "
                "call the layer plainly"
            )
        if not x.dtype.is_floating_point or x.layout != torch.strided or x.is_nested:
            raise NotSamplesError(
                f"a {one.dtype} tensor of layout {x.layout}, which no score is defined for"
            )
        axes = self._pooling.axes(call, x)
        one.channel_axis, one.axis_reason = axes.channels, axes.reason
        return axes


def _density(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1)
    visible = sum(
        ((part.abs() > SILENT).sum() for part in torch.split(flat, CHUNK)),
        start=flat.new_zeros((), dtype=torch.long),
    )
    return visible.double() / max(flat.numel(), 1)


def read(observed: list[Observed], options: Options) -> tuple[Reading, ...]:
    """Score all calls of a batch; a call that cannot be scored gets NaN and a reason, and costs the
    others nothing.
    """
    pairs = [(one.x, one.y) for one in observed if one.x is not None and one.y is not None]
    kind = pairs[0][0].device.type if pairs else "cpu"
    with torch.no_grad(), torch.autocast(kind, enabled=False):
        found = iter(_scored(pairs, options))
        return tuple(
            _unscored(one)
            if one.x is None or one.y is None
            else _reading(one, one.x, one.y, next(found), options)
            for one in observed
        )


def _scored(pairs: list[tuple[Tensor, Tensor]], options: Options) -> list[Affinity | str]:
    """Score all pairs at once; where one is bad, one by one, with the reason in place of its score."""
    scoring = options.scoring()
    settings = {"covariance": scoring.covariance, "degenerate": scoring.degenerate}
    try:
        return list(affinities(pairs, eps=scoring.eps, **settings))
    except (SigmascopeError, RuntimeError) as error:
        if len(pairs) == 1:
            return [str(error).removeprefix("pair 0: ")]
        return [found for pair in pairs for found in _scored([pair], options)]


def _reading(
    one: Observed, x: Tensor, y: Tensor, found: Affinity | str, options: Options
) -> Reading:
    beside = _beside(one, x, y, options)
    return Reading(
        **described(one),
        n=len(x),
        dim=x.shape[1],
        score=math.nan if isinstance(found, str) else float(found),
        certified="none" if isinstance(found, str) else found.certified,
        reason=found if isinstance(found, str) else found.reason,
        skipped=False,
        metrics=beside.values,
        metric_reasons=beside.reasons,
    )


def described(one: Observed) -> dict[str, Any]:
    """Return what stays the same when a call is scored, or kept: the fields of `Described`."""
    return {field.name: getattr(one, field.name) for field in fields(Described)}


def _beside(one: Observed, x: Tensor, y: Tensor, options: Options) -> Companions:
    """Measure the companions; where the matrices are no pair of samples, the reason stands in place
    of each.
    """
    if not options.metrics:
        return Companions({}, {})
    density = (float(one.density[0]), float(one.density[1])) if len(one.density) == 2 else None
    try:
        return companions(x, y, metrics=options.metrics, compat=options.compat, density=density)
    except (SigmascopeError, RuntimeError) as error:
        return without_companions(options.metrics, str(error), compat=options.compat)


def _unscored(one: Observed) -> Reading:
    return Reading(
        **described(one),
        n=0,
        dim=0,
        score=math.nan,
        certified="none",
        reason=one.reason,
        skipped=one.skipped,
        metrics={},
        metric_reasons={},
    )
