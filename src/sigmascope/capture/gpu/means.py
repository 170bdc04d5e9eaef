"""The averages of the input and the output of an activation on an accelerator, from one reading.

The output of a ReLU need not be read at all: it is its input, clamped. Reading each input once
takes half of what reading input and output takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Up to this many bytes the two readings of torch take no longer than one of ours. Of so few
# positions with the channels side by side, torch takes the averages faster.
LARGE, FEW = 2**24, 64
TYPES = (torch.float32, torch.bfloat16, torch.float16)
FORMULAS = ("relu", "relu6", "silu")


class _Plan(NamedTuple):
    """How a tensor lies in memory: (n, d, positions), or (n, positions, d) by `columns`."""

    n: int
    d: int
    positions: int
    columns: bool


def means(
    tensor: Tensor, *, samples: int, channels: int, formula: str
) -> tuple[Tensor, Tensor] | None:
    """Return the averages (n, d) over all axes but two, of a tensor and of a function of it.

    In float32. None where two readings by torch do as well or must do: a small tensor, another
    type, memory in another order, another function, no Triton.

    Args:
        tensor: any.
        samples: the axis that becomes the rows.
        channels: the axis that becomes the columns.
        formula: the function, one of `FORMULAS`.
    """
    if tensor.numel() * tensor.itemsize <= LARGE or formula not in FORMULAS:
        return None
    device = tensor.device
    plan = _plan(tensor.shape, tensor.stride(), samples, channels)
    direct = None if plan is None else _way(tensor.dtype, device)
    if plan is None or direct is None:
        return None
    # Here and there a SiLU is rounded to the neighbor of what torch rounds it to.
    if formula == "silu" and plan.positions < FEW:
        return None
    if device.index == torch.cuda.current_device():
        return _launched(tensor, plan, formula, direct=direct)
    with torch.cuda.device(device):
        return _launched(tensor, plan, formula, direct=direct)


@functools.cache
def _way(dtype: torch.dtype, device: torch.device) -> bool | None:
    """Return whether kernels can be launched directly; None where none works."""
    if dtype not in TYPES:
        return None
    return next((direct for direct in (True, False) if _works(device, direct=direct)), None)


@functools.lru_cache(maxsize=1024)
def _plan(
    shape: tuple[int, ...], strides: tuple[int, ...], samples: int, channels: int
) -> _Plan | None:
    """Return how a kernel may read a tensor; None where it has gaps or another order."""
    others = [axis for axis in range(len(shape)) if axis not in (samples, channels)]
    sizes = shape[samples], shape[channels], math.prod(shape[axis] for axis in others)
    rows, columns = [samples, channels, *others], [samples, *others, channels]
    # Inside a sample a kernel counts in 32 bits.
    if sizes[1] * sizes[2] >= 2**31 or sizes[0] * sizes[1] >= 2**31:
        return None
    if _is_dense([(shape[axis], strides[axis]) for axis in rows]):
        return _Plan(*sizes, columns=False)
    dense = _is_dense([(shape[axis], strides[axis]) for axis in columns])
    return _Plan(*sizes, columns=True) if dense and sizes[2] >= FEW else None


def _is_dense(axes: list[tuple[int, int]]) -> bool:
    """Return whether axes of these sizes and strides lie in memory in this order without gaps."""
    step = 1
    for size, stride in reversed(axes):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _launched(tensor: Tensor, plan: _Plan, formula: str, *, direct: bool) -> tuple[Tensor, Tensor]:
    out = tensor.new_empty((2, plan.n, plan.d), dtype=torch.float32)
    aligned = tensor.data_ptr() % 16 == 0
    _launcher(plan, formula, direct, (tensor.dtype, tensor.device, aligned))(tensor, out)
    x, y = out.unbind()
    return x, y


@functools.lru_cache(maxsize=1024)
def _launcher(
    plan: _Plan, formula: str, direct: bool, _: tuple[object, ...]
) -> Callable[[Tensor, Tensor], object]:
    """Return the function that runs the kernel for one plan.

    Triton takes longer to find a kernel by its arguments than a GPU to run it. A `direct` launch
    does without, from the second time on: the last argument is all else that Triton looks at.
    """
    from sigmascope.capture.gpu.kernels import average_columns, average_rows

    n, d, positions, columns = plan
    if columns:
        width, block, warps = _tile(d, positions, formula)
        kernel, given = average_columns, (d, positions, formula, width, block)
        grid = n, -(-d // width), 1
    else:
        rows, warps = 1 if positions >= 1024 else 4 if positions >= 256 else 16, 4
        kernel, given = average_rows, (n * d, positions, formula, rows, 512 // rows)
        grid = -(-n * d // rows), 1, 1
    found: list[Any] = []

    def launch(x: Tensor, out: Tensor) -> None:
        if found:
            found[0](x, out, *given)
            return
        compiled = kernel[grid](x, out, *given, num_warps=warps)
        if direct:
            found.append(compiled[grid])

    return launch


def _tile(d: int, positions: int, formula: str) -> tuple[int, int, int]:
    """Return how many channels and positions a block of a kernel takes, and its warps.

    These were the fastest on an H200, as are the rows above. A SiLU keeps it busy with numbers, a
    clamp with memory.
    """
    if formula == "silu":
        if d <= 128 and positions >= 1024:
            return 32, 128, 8
        return (32, 32, 4) if d < 192 else (64, 16, 4)
    if d <= 64:
        width = 32 if d <= 32 else 64
        return width, 4096 // width, 8
    if d >= 192:
        return 256, 4, 8
    if positions >= 1024:
        return 128, 32 if d <= 128 else 8, 8
    return 64, 32 if d <= 128 else 16, 4


@functools.cache
def _works(device: torch.device, *, direct: bool) -> bool:
    """Return whether Triton is there and computes on a device what torch computes."""
    from sigmascope.capture.gpu.kernels import has_triton

    if not has_triton or torch.version.cuda is None:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    x = torch.arange(-60.0, 60.0, device=device).reshape(2, 3, 20)
    expected = torch.stack([x.mean(2), x.clamp(0, 6).mean(2)])
    try:
        # Twice, for the second launch may be direct.
        for _ in range(2):
            found = torch.stack(_launched(x, _Plan(2, 3, 20, False), "relu6", direct=direct))
            if not torch.allclose(found, expected):
                return False
    except Exception:  # whatever a compiler raises that is missing, broken or of another version
        return False
    return True
