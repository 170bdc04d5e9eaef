"""Triton kernels that average a tensor, and a function of it, from one reading.

Both write two matrices (samples, channels) of float32, one behind the other: the averages over the
positions, and those of what the formula makes of the values, rounded as torch rounds it. NaN stays
NaN. Values beyond the end are read as 0, of which every formula makes 0.
"""
# mypy: ignore-errors
# Triton compiles these functions; their arguments have no types of Python.

from __future__ import annotations

try:
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
except ImportError:  # as on Windows and with torch for the CPU; torch takes the averages then
    triton = None

has_triton = triton is not None

if has_triton:

    @triton.jit
    def _outputs(values, FORMULA: tl.constexpr):
        if FORMULA == "silu":
            inside = values.to(tl.float32)
            outputs = libdevice.fast_dividef(inside, 1.0 + tl.exp(-inside))
            return outputs.to(values.dtype).to(tl.float32)
        raised = tl.maximum(values.to(tl.float32), 0.0, propagate_nan=tl.PropagateNan.ALL)
        if FORMULA == "relu6":
            raised = tl.minimum(raised, 6.0, propagate_nan=tl.PropagateNan.ALL)
        return raised

    @triton.jit(do_not_specialize=["rows"])
    def average_rows(
        x, out, rows, positions, FORMULA: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
    ):
        """Average a tensor (samples, channels, positions); a row is a sample's channel."""
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        known = row < rows
        start = row.to(tl.int64) * positions
        sums = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        output_sums = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        for first in range(0, positions, BLOCK):
            position = first + tl.arange(0, BLOCK)
            inside = known[:, None] & (position < positions)[None, :]
            place = start[:, None] + position[None, :]
            values = tl.load(x + place, mask=inside, other=0.0)
            sums += values.to(tl.float32)
            output_sums += _outputs(values, FORMULA)
        tl.store(out + row, tl.sum(sums, axis=1) / positions, mask=known)
        tl.store(out + rows + row, tl.sum(output_sums, axis=1) / positions, mask=known)

    @triton.jit
    def average_columns(
        x,
        out,
        channels,
        positions,
        FORMULA: tl.constexpr,
        CHANNELS: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        """Average a tensor (samples, positions, channels)."""
        sample = tl.program_id(0)
        channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
        known = channel < channels
        start = sample.to(tl.int64) * positions * channels
        sums = tl.zeros((BLOCK, CHANNELS), dtype=tl.float32)
        output_sums = tl.zeros((BLOCK, CHANNELS), dtype=tl.float32)
        for first in range(0, positions, BLOCK):
            position = first + tl.arange(0, BLOCK)
            inside = (position < positions)[:, None] & known[None, :]
            place = start + position[:, None] * channels + channel[None, :]
            values = tl.load(x + place, mask=inside, other=0.0)
            sums += values.to(tl.float32)
            output_sums += _outputs(values, FORMULA)
        target = out + sample * channels + channel
        tl.store(target, tl.sum(sums, axis=0) / positions, mask=known)
        target += tl.num_programs(0) * channels
        tl.store(target, tl.sum(output_sums, axis=0) / positions, mask=known)
