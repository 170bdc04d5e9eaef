"""Merging pieces: one convolution that computes what several compute one after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from sigmascope.linearize.folding.pieces import Piece, is_written_as_module


def merged(pieces: Sequence[Piece]) -> Piece | str:
    """Return pieces as one, or why they cannot be one exactly.

    Args:
        pieces: in order of execution, of the same rank, with channels that fit.
    """
    found: Piece | str = pieces[0]
    for piece in pieces[1:]:
        assert isinstance(found, Piece)
        found = joined(found, piece)
        if isinstance(found, str):
            return found
    return found


def joined(first: Piece, then: Piece) -> Piece | str:
    """Return two pieces as one, or why they cannot be one exactly.

    The taps of both kernels add up: with strides s₁, s₂ and dilations d₁, d₂ the merged kernel has
    taps at i·d₁ + j·d₂·s₁, and the stride s₁·s₂.
    """
    parts = (*(first.parts or (first,)), then)
    weight, dilation = _composed(first.weight, first, then)
    made = Piece(
        weight=weight,
        bias=then.bias + _through(first.bias, then),
        stride=tuple(one * two for one, two in zip(first.stride, then.stride, strict=True)),
        dilation=dilation,
        padding=first.padding,
        groups=math.gcd(first.groups, then.groups),
        mode=first.mode,
        is_map=first.is_map and then.is_map,
        parts=parts,
        bordered=first.bordered,
    )
    if not then.is_padded:
        return replace(made, ones=_ones_of(first, then))
    padding = tuple(
        (low + step * before, high + step * after)
        for (low, high), step, (before, after) in zip(
            first.padding, first.stride, then.padding, strict=True
        )
    )
    made = replace(made, padding=padding, mode=then.mode)
    if not first.is_pointwise:
        return _with_border(made, first, then)
    if then.mode == "zeros":
        if not first.bias.any():
            return made
        return replace(made, bias=then.bias, ones=_seen_by(first.bias, then))
    if any(step != 1 for step in first.stride):
        return f"padding_mode={then.mode!r} comes after a stride, which would skip what it pads"
    return made


def _with_border(made: Piece, first: Piece, then: Piece) -> Piece | str:
    """Return a merged piece that is exact inside only, with the parts for its border."""
    for piece in (first, then):
        if piece.mode != "zeros":
            return (
                f"padding_mode={piece.mode!r} pads between two convolutions what one would compute "
                "beyond the border"
            )
    if not all(is_written_as_module(part) for part in made.parts):
        return "padding that differs between two sides of a map comes between two convolutions"
    if any(_sees_padding_only(part) for part in made.parts):
        return "one of the convolutions has padding wider than its kernel"
    bias = then.bias + _through(_constant(first), then)
    return replace(made, bias=bias, bordered=True, mode="zeros")


def _sees_padding_only(piece: Piece) -> bool:
    """Return whether some outputs are computed from padding alone."""
    return any(
        max(pair) > dilation * (taps - 1)
        for pair, dilation, taps in zip(piece.padding, piece.dilation, piece.kernel, strict=True)
    )


def _constant(piece: Piece) -> Tensor:
    """Return what a piece adds inside, away from the border."""
    return piece.bias if piece.ones is None else piece.bias + piece.ones.flatten(1).sum(1)


def _ones_of(first: Piece, then: Piece) -> Tensor | None:
    if first.ones is None:
        return None
    # one input channel that all groups read
    column = replace(first, weight=first.ones, groups=1)
    return _composed(first.ones, column, then)[0]


def _through(shift: Tensor, then: Piece) -> Tensor:
    """Return what a shift of all positions becomes behind a piece, away from its padding."""
    return _seen_by(shift, then).flatten(1).sum(1)


def _seen_by(shift: Tensor, then: Piece) -> Tensor:
    """Return (out, 1, *kernel), what each tap makes of a shift (in,)."""
    grouped = then.weight.reshape(then.groups, -1, *then.weight.shape[1:])
    seen = torch.einsum("goi...,gi->go...", grouped, shift.view(then.groups, -1))
    return seen.flatten(0, 1)[:, None]


def numbers_of(first: Piece, then: Piece) -> int:
    """Return how many numbers the weight of two pieces in a row has."""
    kernel = _arranged(first, then)[3]
    groups = math.gcd(first.groups, then.groups)
    return then.outputs * first.inputs // groups * math.prod(kernel)


def _arranged(first: Piece, then: Piece) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return, along each axis, how the taps of two kernels lie in the merged one.

    These are the step between taps of the first, that between taps of the second, the dilation, and
    the number of taps.
    """
    steps, strides, dilation, kernel = [], [], [], []
    for axis in range(first.rank):
        inner = first.dilation[axis] * (first.kernel[axis] > 1)
        outer = then.dilation[axis] * first.stride[axis] * (then.kernel[axis] > 1)
        unit = math.gcd(inner, outer) or 1
        steps.append(max(1, inner // unit))
        strides.append(outer // unit)
        dilation.append(unit)
        reach = inner * (first.kernel[axis] - 1) + outer * (then.kernel[axis] - 1)
        kernel.append(reach // unit + 1)
    return steps, strides, dilation, kernel


def _composed(weight: Tensor, first: Piece, then: Piece) -> tuple[Tensor, tuple[int, ...]]:
    """Return the kernel of two pieces in a row, and its dilation."""
    steps, strides, dilation, kernel = _arranged(first, then)
    groups = math.gcd(first.groups, then.groups)
    made = weight.new_zeros(then.outputs, first.inputs // groups, *kernel)
    mixed = _Mixing(weight, first, then)
    for taps in itertools.product(*(range(count) for count in then.kernel)):
        place = tuple(
            slice(tap * stride, tap * stride + (count - 1) * step + 1, step)
            for tap, stride, step, count in zip(taps, strides, steps, first.kernel, strict=True)
        )
        made[(slice(None), slice(None), *place)] += mixed.at(taps)
    return made, tuple(dilation)


class _Mixing:
    """The channels of two pieces in a row, for one tap of the second."""

    def __init__(self, weight: Tensor, first: Piece, then: Piece) -> None:
        self.first, self.then, self.weight = first, then, weight
        self.groups = math.gcd(first.groups, then.groups)
        # each channel by itself: no matrix of all channels is needed
        self.is_depthwise = then.groups == then.inputs == then.outputs
        if not self.is_depthwise:
            self.inner = in_groups(weight, first.groups, self.groups)
            self.outer = in_groups(then.weight, then.groups, self.groups)

    def at(self, taps: tuple[int, ...]) -> Tensor:
        """Return (out, in / groups, *kernel of the first)."""
        if self.is_depthwise:
            factor = _at(self.then.weight[:, 0], taps)
            return self.weight * factor.view(-1, *(1,) * (self.weight.ndim - 1))
        outer = _at(self.outer, taps)
        return torch.einsum("gom,gmi...->goi...", outer, self.inner).flatten(0, 1)


def _at(weight: Tensor, taps: tuple[int, ...]) -> Tensor:
    """Return a weight at some taps, which its last axes count."""
    for axis, tap in zip(range(-len(taps), 0), taps, strict=True):
        weight = weight.narrow(axis, tap, 1)
    return weight.flatten(weight.ndim - len(taps) - 1) if taps else weight


def in_groups(weight: Tensor, groups: int, fewer: int) -> Tensor:
    """Return a weight of many groups as one of fewer: (fewer, out, in, *kernel), each of these.

    Args:
        weight: (out, in / groups, *kernel).
        groups: of the weight.
        fewer: a divisor of it.

    >>> in_groups(torch.tensor([[2.0], [3.0]]), 2, 1).tolist()
    [[[2.0, 0.0], [0.0, 3.0]]]
    """
    out, within, *kernel = weight.shape
    ratio = groups // fewer
    if ratio == 1:
        return weight.reshape(fewer, out // fewer, within, *kernel)
    each = out // groups
    wide = weight.new_zeros(fewer, ratio, each, ratio, within, *kernel)
    places = torch.arange(ratio, device=weight.device)
    wide[:, places, :, places] = weight.reshape(fewer, ratio, each, within, *kernel).movedim(1, 0)
    return wide.view(fewer, ratio * each, ratio * within, *kernel)
