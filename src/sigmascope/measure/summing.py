"""The population sums of ranks that measure together, added up on the first of them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.capture.call_site import CallSite
from sigmascope.maths.grouped_sums import Sums, added, empty_sums
from sigmascope.maths.kept_rows import is_large
from sigmascope.maths.moments import Moments
from sigmascope.measure.accumulating import OTHER_WIDTH, AccumulatedCall, PopulationSums
from sigmascope.measure.options import Options
from sigmascope.measure.team import Team
from sigmascope.store import decode, encode


@dataclass(frozen=True)
class _Held:
    """What one rank holds of a call.

    Attributes:
        rank: the rank.
        dim: the number of channels.
        kept: bytes of rows.
        rounding: the range of a constant column, see `Moments.take`.
        is_summed: whether it has sums, and not only rows.
        is_double: whether its rows are of float64.
        reason: why it has no score.
        lacking: why nothing more was kept.
    """

    rank: int
    dim: int
    kept: int
    rounding: float
    is_summed: bool
    is_double: bool
    reason: str
    lacking: str


def summed_over(team: Team, own: PopulationSums, options: Options) -> PopulationSums:
    """Return the sums of all ranks, complete on the first of them only."""
    mine = [[encode(call), encode(_held(team, one))] for call, one in own.calls.items()]
    holders: dict[CallSite, list[_Held]] = {}
    for text in team.texts(json.dumps(mine).encode()):
        for call, held in json.loads(text):
            holders.setdefault(decode(CallSite, call), []).append(decode(_Held, held))
    total = PopulationSums(options)
    for call, held in holders.items():
        total.calls[call] = _of_call(team, held, own.calls.pop(call, None), options)
    return total


def _held(team: Team, one: AccumulatedCall) -> _Held:
    rows, kept = one.moments.kept
    return _Held(
        team.me,
        one.moments.dim,
        kept,
        one.moments.rounding,
        one.moments.is_summed,
        any(x.dtype == torch.float64 for x in [*one.x, *(part.x for part in rows)]),
        one.reason,
        one.moments.reason,
    )


def _of_call(
    team: Team, held: list[_Held], own: AccumulatedCall | None, options: Options
) -> AccumulatedCall:
    """Return what all ranks hold of a call; all of them find the same way to add it up."""
    total = AccumulatedCall(Moments(eps=options.eps))
    dims = [one.dim for one in held if one.dim]
    other = next((dim for dim in dims if dim != dims[0]), None)
    told = [one.reason or one.lacking for one in held if one.reason or one.lacking]
    if told or other is not None or not dims:
        total.reason = told[0] if told else OTHER_WIDTH.format(other, dims[0])
        return total
    dim, double = dims[0], any(one.is_double for one in held)
    if any(one.is_summed for one in held) or is_large(sum(one.kept for one in held), dim):
        source = next(one.rank for one in held if one.dim)
        sums = _reduced(team, own, source, dim)
        rounding = max(one.rounding for one in held)
        if team.is_first:
            total.moments.add_sums(sums, rounding=rounding)
    else:
        _gather_rows(team, total.moments, own, held, dim, double)
    _gather_sampled(team, total, own, dim, double)
    return total


def _reduced(team: Team, own: AccumulatedCall | None, source: int, dim: int) -> Sums:
    """Return the sums of all ranks, around the shift that one of them has chosen."""
    mine = None if own is None else own.moments.summed()
    shift = torch.zeros(2 * dim, dtype=torch.float64) if mine is None else mine.shift
    common = team.given_by(source, shift)
    total = empty_sums(common)
    if mine is not None:
        device = mine.first.device
        total = added(empty_sums(common.to(device)), mine)
    count, first, second = (
        team.summed(one).cpu() for one in (total.count, total.first, total.second)
    )
    return Sums(count, first, second, common)


def _gather_rows(
    team: Team,
    total: Moments,
    own: AccumulatedCall | None,
    held: list[_Held],
    dim: int,
    double: bool,
) -> None:
    parts = [] if own is None else own.moments.kept[0]
    packed = [_packed(one.x, one.y, one.groups, double) for one in parts]
    found = team.rows(torch.cat(packed) if packed else _none(2 * dim + 1, double))
    for rows in found if team.is_first else ():
        x, y, groups = _unpacked(rows, dim)
        if len(x):
            total.take(x, y, groups, rounding=max(one.rounding for one in held))


def _gather_sampled(
    team: Team, total: AccumulatedCall, own: AccumulatedCall | None, dim: int, double: bool
) -> None:
    mine = _none(2 * dim + 1, double)
    if own is not None and own.x:
        x, y, at = own.sampled()
        mine = _packed(x, y, at, double)
    for rows in team.rows(mine):
        x, y, at = _unpacked(rows, dim)
        if len(x):
            total.x.append(x)
            total.y.append(y)
            total.at.append(at)


def _packed(x: Tensor, y: Tensor, numbers: Tensor, double: bool) -> Tensor:
    """Return (n, 2d + 1), rows and their numbers, which are small."""
    kind = torch.float64 if double else torch.float32
    rows = [x.to("cpu", kind), y.to("cpu", kind), numbers[:, None].to("cpu", kind)]
    return torch.cat(rows, dim=1)


def _unpacked(rows: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    x, y, numbers = torch.split(rows, [dim, dim, 1], dim=1)
    return x.contiguous(), y.contiguous(), numbers[:, 0].long()


def _none(width: int, double: bool) -> Tensor:
    return torch.zeros(0, width, dtype=torch.float64 if double else torch.float32)
