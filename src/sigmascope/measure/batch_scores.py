"""The activation calls of one batch, scored together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sigmascope.capture.call_site import CallInput, CallSite
from sigmascope.capture.pooled import PooledCall
from sigmascope.errors import SigmascopeError
from sigmascope.maths.samples import rounding_of
from sigmascope.measure.affinity import Affinity, Rounding, score_pairs
from sigmascope.measure.companions import Companions, companions, without_companions
from sigmascope.measure.options import FUNCTION, Options


@dataclass(frozen=True)
class Reading(CallInput):
    """One activation call of a batch; see `sigmascope.Affinity` and `PooledCall`.

    Without a published score, where only the population score is asked for, the score is NaN and
    there is no reason.
    """

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
    """All calls of one batch, in order of execution.

    Attributes:
        batch: its number.
        size: the number of samples.
        fingerprint: of the data.
        readings: one per call.
        complete: whether it counts for the published score; a smaller last one does not.
        digest: of all of the data, where the run can be resumed.
    """

    batch: int
    size: int
    fingerprint: str
    readings: tuple[Reading, ...]
    complete: bool = True
    digest: str = field(default="", metadata={"later": True})


def call_of(call: CallSite) -> CallSite:
    """Return which call it is, without what is known of it."""
    return CallSite(call.path, call.call, call.kind)


# The remedy for matrices, and those for the calls of a network.
REPAIR = "Drop those rows, or repair them."
NUMBERS = "Find the layer before it that produces them; float32 instead of half precision may help."
MASKED = (
    "A router or an attention that masks by -inf does so on purpose: mask by a large finite number "
    "such as -1e4 instead, or leave this kind of activation out with activations=[...]; if nothing "
    "is masked, float32 instead of half precision may help."
)


def read(
    calls: Sequence[PooledCall], options: Options, *, complete: bool = True
) -> tuple[Reading, ...]:
    """Return the scores of all calls of a batch; one without a score has NaN and a reason.

    A batch that is not complete has neither published scores nor companions.
    """
    pairs = [_pair(call, options) for call in calls]
    pooled = [(call, pair) for call, pair in zip(calls, pairs, strict=True) if pair is not None]
    kind = pooled[0][1][0].device.type if pooled else "cpu"
    with torch.no_grad(), torch.autocast(kind, enabled=False):
        scores: Iterator[Affinity[Any] | str] = iter([""] * len(pooled))
        if complete and options.published:
            rounding = [(rounding_of_call(call, x, options),) * 2 for call, (x, _) in pooled]
            scores = iter(scored([pair for _, pair in pooled], options, rounding))
        return tuple(
            _reading(call, call.reason, (0, 0), Companions({}, {}))
            if pair is None
            else _reading(
                call,
                next(scores),
                pair[0].shape,
                _companions(call, pair, options) if complete else Companions({}, {}),
            )
            for call, pair in zip(calls, pairs, strict=True)
        )


def _pair(call: PooledCall, options: Options) -> tuple[Tensor, Tensor] | None:
    """Return the matrices of a call; of very many positions, evenly spaced ones."""
    x, y, most = call.x, call.y, options.max_tokens
    if x is None or y is None:
        return None
    if options.samples != "positions" or len(x) <= most:
        return x, y
    if not options.published and not options.metrics:
        return x[:most], y[:most]  # views, for nothing looks at them
    rows = torch.arange(most, device=x.device) * len(x) // most
    return x[rows], y[rows]


def rounding_of_call(call: PooledCall, x: Tensor, options: Options) -> float:
    """Return the rounding of pooled values, which have more digits than those they average."""
    averaged = math.prod(call.call.shape) // max(x.numel(), 1) if options.averages else 1
    return rounding_of(getattr(torch, call.call.dtype), max(averaged, 1))


def scored(
    pairs: list[tuple[Tensor, Tensor]], options: Options, rounding: list[Rounding] | None = None
) -> list[Affinity[Any] | str]:
    """Score all pairs at once; where one fails, one by one, with the reason in place of a score."""
    if len(pairs) == 1 and len(pairs[0][0]) == 1 and not options.pool.startswith(FUNCTION):
        return ["a batch of one sample has none: use larger batches"]
    try:
        return list(score_pairs(pairs, options.scoring(), rounding))
    except (SigmascopeError, RuntimeError) as error:
        if len(pairs) == 1:
            return [_advised(str(error).removeprefix("pair 0: "))]
        return [
            score
            for number, pair in enumerate(pairs)
            for score in scored([pair], options, rounding and [rounding[number]])
        ]


def _advised(reason: str) -> str:
    """Return a reason with a remedy that suits a network, of which nobody can drop rows."""
    if REPAIR not in reason or "infinite" not in reason:
        return reason.replace(REPAIR, NUMBERS)
    return reason.replace(REPAIR, MASKED)


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
