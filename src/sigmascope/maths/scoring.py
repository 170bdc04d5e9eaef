"""The population scores of several accumulators, those of one width computed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch

from sigmascope.maths.memory import LITTLE, free_memory
from sigmascope.maths.population import (
    SHARED,
    PopulationScore,
    bytes_needed,
    population_scores,
    samples_needed,
    without_score,
)

if TYPE_CHECKING:
    from sigmascope.maths.moments import Moments

# Bytes of one score, or of many small ones, on an accelerator.
CHUNK_BYTES = 2**31


def score_all(moments: Sequence[Moments]) -> list[PopulationScore]:
    """Return the scores of several accumulators, those of one width computed together."""
    results: dict[int, PopulationScore] = {}
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, one in enumerate(moments):
        reason = _obstacle(one)
        if reason:
            results[number] = without_score(one.n, one.dim, reason)
        else:
            whole = one._sums is not None or one.dim <= SHARED
            alike.setdefault((one.dim, one.eps, one._device(), whole), []).append(number)
    for (dim, eps, device, _), numbers in alike.items():
        device = cast(torch.device, device)
        for some in _chunks(numbers, cast(int, dim), device):
            sums = [moments[number]._folded() for number in some]
            room = None if device.type == "cpu" else _room(device) // 4
            scores = population_scores(sums, cast("float | None", eps), room=room)
            results |= zip(some, scores, strict=True)
    return [results[number] for number in range(len(moments))]


def _chunks(numbers: list[int], dim: int, device: torch.device) -> list[list[int]]:
    """Return the sites to be computed at once: on the CPU one, elsewhere as many as are small."""
    most = 1 if device.type == "cpu" else max(1, _room(device) // bytes_needed(dim))
    return [numbers[start : start + most] for start in range(0, len(numbers), most)]


def _room(device: torch.device) -> int:
    """Return the bytes to use at once: if they do, no more than have been used before."""
    if device.type != "cuda":
        return CHUNK_BYTES
    used: int = torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)
    return min(CHUNK_BYTES, max(used, LITTLE))


def _obstacle(moments: Moments) -> str:
    """Return why there is no score, seen without the sums themselves, or an empty text."""
    n, dim, enough = moments.n, moments.dim, samples_needed(moments.dim)
    if moments._reason:
        return moments._reason
    if not n:
        return "no samples yet"
    if n < enough:
        samples = "1 sample is" if n == 1 else f"{n} samples are"
        return f"{samples} too few for {dim} channel{'' if dim == 1 else 's'}: {enough} would do"
    needed = bytes_needed(dim)
    free = free_memory(moments._device()) if needed > LITTLE else None
    if free is not None and needed > free:
        return (
            f"{dim} channels need about {needed / 2**30:.1f} GiB for their covariances, and "
            f"{free / 2**30:.1f} GiB are free: pool to fewer channels, or score where there is more"
        )
    return ""
