"""The activation calls of one batch, scored together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.capture.call_site import CallInput
from sigmascope.capture.pooled import PooledCall
from sigmascope.errors import SigmascopeError
from sigmascope.maths.samples import rounding_of
from sigmascope.measure.affinity import Affinity, Rounding, score_pairs
from sigmascope.measure.companions import Companions, companions, without_companions
from sigmascope.measure.options import Options


@dataclass(frozen=True)
class Reading(CallInput):
    """One activation call of a batch, scored; see `sigmascope.Affinity` and `PooledCall`."""

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


def read(calls: Sequence[PooledCall], options: Options) -> tuple[Reading, ...]:
    """Return the scores of all calls of a batch; one without a score has NaN and a reason."""
    pooled = [call for call in calls if call.x is not None and call.y is not None]
    pairs = [(call.x, call.y) for call in calls if call.x is not None and call.y is not None]
    rounding = [_rounding(call, x, options) for call, (x, _) in zip(pooled, pairs, strict=True)]
    kind = pairs[0][0].device.type if pairs else "cpu"
    with torch.no_grad(), torch.autocast(kind, enabled=False):
        scores = iter(_scored(pairs, rounding, options))
        return tuple(
            _reading(call, call.reason, (0, 0), Companions({}, {}))
            if call.x is None or call.y is None
            else _reading(
                call, next(scores), call.x.shape, _companions(call, (call.x, call.y), options)
            )
            for call in calls
        )


def _rounding(call: PooledCall, x: Tensor, options: Options) -> Rounding:
    """Return the rounding of pooled values, which have more digits than those they average."""
    averaged = math.prod(call.call.shape) // max(x.numel(), 1) if options.samples == "batch" else 1
    rounding = rounding_of(getattr(torch, call.call.dtype), max(averaged, 1))
    return rounding, rounding


def _scored(
    pairs: list[tuple[Tensor, Tensor]], rounding: list[Rounding], options: Options
) -> list[Affinity[Any] | str]:
    """Score all pairs at once; where one fails, one by one, with the reason in place of a score."""
    try:
        return list(score_pairs(pairs, options.scoring(), rounding))
    except (SigmascopeError, RuntimeError) as error:
        if len(pairs) == 1:
            return [str(error).removeprefix("pair 0: ")]
        each = zip(pairs, rounding, strict=True)
        return [score for pair, one in each for score in _scored([pair], [one], options)]


def _reading(
    call: PooledCall, score: Affinity[Any] | str, shape: Sequence[int], beside: Companions
) -> Reading:
    return Reading(
        **call.call.fields(),
        n=shape[0],
        dim=shape[1],
        score=math.nan if isinstance(score, str) else float(score),
        certified="none" if isinstance(score, str) else score.certified,
        reason=score if isinstance(score, str) else score.reason,
        skipped=call.skipped,
        metrics=beside.values,
        metric_reasons=beside.reasons,
    )


def _companions(call: PooledCall, pair: tuple[Tensor, Tensor], options: Options) -> Companions:
    """Return the companions; where the matrices are not a pair of samples, the reason for each."""
    if not options.metrics:
        return Companions({}, {})
    shares = [float(share) for share in call.density]
    density = (shares[0], shares[1]) if len(shares) == 2 else None
    try:
        return companions(*pair, metrics=options.metrics, compat=options.compat, density=density)
    except (SigmascopeError, RuntimeError) as error:
        return without_companions(options.metrics, str(error), compat=options.compat)
