"""The averages of a tensor and of its clamped values on an accelerator, from one reading.

The output of a ReLU need not be read at all: it is its input, clamped. Reading each input once
takes half of what reading input and output takes.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor

# Up to this many bytes the two readings of torch take no longer than one of ours.
LARGE = 2**24
FEW = 64
TYPES = (torch.float32, torch.bfloat16, torch.float16)


class _Plan(NamedTuple):
    """The sizes of a tensor and its steps in memory."""

    samples: int
    channels: int
    positions: int
    sample_step: int
    channel_step: int
    position_step: int


def means(
    tensor: Tensor, *, samples: int, channels: int, bounds: tuple[float, float]
) -> tuple[Tensor, Tensor] | None:
    """Return the averages (n, d) over all axes but two, of a tensor and of it clamped to bounds.

    In float32. None where two readings by torch do as well or must do: a small tensor, another
    type, memory in another order, no Triton.

    Args:
        tensor: any.
        samples: the axis that becomes the rows.
        channels: the axis that becomes the columns.
        bounds: (low, high), with 0 between them.
    """
    if tensor.dtype not in TYPES or tensor.numel() * tensor.itemsize <= LARGE:
        return None
    plan = _plan(tensor.shape, tensor.stride(), samples, channels)
    if plan is None or not _works(tensor.device):
        return None
    with torch.cuda.device(tensor.device):
        return _launched(tensor, plan, bounds)


@functools.lru_cache(maxsize=1024)
def _plan(
    shape: tuple[int, ...], strides: tuple[int, ...], samples: int, channels: int
) -> _Plan | None:
    """Return how a kernel may read a tensor; None where positions are not at even distances."""
    pooled = [axis for axis in range(len(shape)) if axis not in (samples, channels)]
    pairs = sorted((strides[axis], shape[axis]) for axis in pooled if shape[axis] != 1)
    even = all(outer == step * size for (step, size), (outer, _) in itertools.pairwise(pairs))
    positions, position_step = math.prod(size for _, size in pairs), pairs[0][0] if pairs else 1
    plan = _Plan(
        shape[samples],
        shape[channels],
        positions,
        strides[samples],
        strides[channels],
        position_step,
    )
    # Of few positions with channels side by side, torch takes the averages faster.
    adjacent = position_step == 1 or (plan.channel_step == 1 and positions >= FEW)
    # Inside a sample a kernel counts in 32 bits.
    span = plan.channels * plan.channel_step + plan.positions * plan.position_step
    short = max(span, plan.samples * plan.channels) < 2**31
    return plan if even and adjacent and short else None


def _launched(tensor: Tensor, plan: _Plan, bounds: tuple[float, float]) -> tuple[Tensor, Tensor]:
    from sigmascope.capture.gpu.kernels import average_columns, average_rows

    n, d, positions, sample_step, channel_step, position_step = plan
    out = torch.empty(2, n, d, dtype=torch.float32, device=tensor.device)
    low, high = bounds
    bounded = math.isfinite(high)
    many = positions >= 1024
    # The tiles are those that were fastest on an H200.
    if channel_step == 1:
        numbers, warps = (4096, 8) if many else (2048, 4)
        width = 32 if d <= 32 else 128 if many and (d - 1) % 128 >= 64 else 64
        average_columns[(n, -(-d // width))](
            tensor, out, n, d, positions, sample_step, position_step, low, high,
            BOUNDED=bounded, BLOCK=numbers // width, CHANNELS=width, num_warps=warps,
        )  # fmt: skip
    else:
        rows, block, warps = (4, 256, 4) if many else (8, 64, 2)
        average_rows[(-(-n * d // rows),)](
            tensor, out, n * d, d, positions, sample_step, channel_step, low, high,
            BOUNDED=bounded, ROWS=rows, BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return out[0], out[1]


@functools.cache
def _works(device: torch.device) -> bool:
    """Return whether Triton is there and computes on a device what torch computes."""
    from sigmascope.capture.gpu.kernels import has_triton

    if not has_triton or torch.version.cuda is None:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    x = torch.arange(-60.0, 60.0, device=device).reshape(2, 3, 20)
    try:
        found = _launched(x, _Plan(2, 3, 20, 60, 20, 1), (0.0, 6.0))
    except Exception:  # whatever a compiler that is missing or broken raises
        return False
    expected = x.mean(2), x.clamp(0, 6).mean(2)
    return all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))
