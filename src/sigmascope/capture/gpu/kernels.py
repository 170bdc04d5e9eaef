"""Triton kernels that average a tensor, and what is left of it when it is clamped, in one reading.

Every kernel writes two matrices (samples, channels) of float32, one behind the other: the averages
over the positions, and those of the values clamped to [low, high], which must contain 0. A `high`
that is not `BOUNDED` is infinity. NaN stays NaN.
"""

# mypy: ignore-errors
# Triton compiles these functions; their arguments have no types of Python.

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:  # as on Windows and with torch for the CPU; averages are then taken by torch
    triton = None

has_triton = triton is not None

if has_triton:

    @triton.jit
    def _clamped(values, low, high, BOUNDED: tl.constexpr):
        raised = tl.maximum(values, low, propagate_nan=tl.PropagateNan.ALL)
        if BOUNDED:
            raised = tl.minimum(raised, high, propagate_nan=tl.PropagateNan.ALL)
        return raised

    @triton.jit(do_not_specialize=["rows"])
    def average_rows(
        x, out, rows, channels, positions, sample_step, channel_step, low, high,
        BOUNDED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """Average where the positions of a channel lie side by side; a row is such a channel."""
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        known = row < rows
        start = (row // channels).to(tl.int64) * sample_step + (row % channels) * channel_step
        sums = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        clamped_sums = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        for first in range(0, positions, BLOCK):
            position = first + tl.arange(0, BLOCK)
            inside = known[:, None] & (position < positions)[None, :]
            place = start[:, None] + position[None, :]
            values = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            sums += values
            clamped_sums += _clamped(values, low, high, BOUNDED)
        tl.store(out + row, tl.sum(sums, axis=1) / positions, mask=known)
        tl.store(out + rows + row, tl.sum(clamped_sums, axis=1) / positions, mask=known)

    @triton.jit(do_not_specialize=["samples"])
    def average_columns(
        x, out, samples, channels, positions, sample_step, position_step, low, high,
        BOUNDED: tl.constexpr, BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
    ):  # fmt: skip
        """Average where the channels of a position lie side by side."""
        sample = tl.program_id(0)
        channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
        known = channel < channels
        start = sample.to(tl.int64) * sample_step
        sums = tl.zeros((BLOCK, CHANNELS), dtype=tl.float32)
        clamped_sums = tl.zeros((BLOCK, CHANNELS), dtype=tl.float32)
        for first in range(0, positions, BLOCK):
            position = first + tl.arange(0, BLOCK)
            inside = (position < positions)[:, None] & known[None, :]
            place = start + position[:, None] * position_step + channel[None, :]
            values = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            sums += values
            clamped_sums += _clamped(values, low, high, BOUNDED)
        target = out + sample * channels + channel
        tl.store(target, tl.sum(sums, axis=0) / positions, mask=known)
        target += samples * channels
        tl.store(target, tl.sum(clamped_sums, axis=0) / positions, mask=known)
