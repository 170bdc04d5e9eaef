"""Linear layers as pieces that can be composed: convolutions, matrices, maps of the channels.

A piece is a convolution over as many spatial axes as stand behind the channels: none for
`nn.Linear`, so that all kinds compose by one formula. Its numbers are in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from sigmascope.linearize.folding.layers import CONVOLUTIONS, MergedConv
from sigmascope.linearize.maps import Affine
from sigmascope.linearize.rerouting import step_aside, step_back

Whole = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]

IDENTITIES = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
OWN_HOOKS = (step_aside, step_back)  # of networks with rerouted functions


@dataclass(frozen=True, eq=False)
class Piece:
    """A linear layer: y = weight * padded(x) + ones * padded(1) + bias.

    Attributes:
        weight: (out, in / groups, *kernel).
        bias: (out,).
        stride, dilation: one for each spatial axis.
        padding: before and after, for each spatial axis.
        groups: of channels.
        mode: of the padding, as of `nn.Conv2d`.
        is_map: whether it is an affine map of the channels or a norm rather than a layer.
        ones: (out, 1, *kernel), the kernel of a channel of ones, padded by zeros: a shift before
            the padding, which the border does not see.
        parts: of a merged piece, the pieces that it was merged of.
        bordered: whether the formula is wrong at the border, where the parts have to run.
    """

    weight: Tensor
    bias: Tensor
    stride: Whole = ()
    dilation: Whole = ()
    padding: Padding = ()
    groups: int = 1
    mode: str = "zeros"
    is_map: bool = False
    ones: Tensor | None = None
    parts: tuple[Piece, ...] = ()
    bordered: bool = False

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.stride)

    @property
    def kernel(self) -> Whole:
        """The number of taps along each spatial axis."""
        return tuple(self.weight.shape[2:])

    @property
    def inputs(self) -> int:
        """The number of input channels."""
        return self.weight.shape[1] * self.groups

    @property
    def outputs(self) -> int:
        """The number of output channels."""
        return self.weight.shape[0]

    @property
    def is_padded(self) -> bool:
        """Whether anything is padded."""
        return any(sum(pair) for pair in self.padding)

    @property
    def is_pointwise(self) -> bool:
        """Whether a position of the output is a function of one position of the input."""
        plain = self.ones is None and not self.bordered and not self.is_padded
        return plain and all(taps == 1 for taps in self.kernel)

    @property
    def is_diagonal(self) -> bool:
        """Whether it multiplies each channel by a number, at every position."""
        return (
            self.is_pointwise
            and self.groups == self.inputs == self.outputs
            and all(step == 1 for step in self.stride)
        )


def piece_of(module: nn.Module, ndim: int) -> Piece | None:
    """Return a module as a piece; None for one that is not linear.

    Args:
        module: any module.
        ndim: of its input.
    """
    for kind, read in READERS.items():
        if isinstance(module, kind) and type(module).forward is kind.forward:
            return read(module, ndim)
    return None


def is_layer(module: nn.Module) -> bool:
    """Return whether a module is a layer or a norm, perhaps of a class derived from those of torch.

    Others may derive from it and only set its options, or compute its weight in `forward`.
    """
    readable = any(
        isinstance(module, kind) and type(module).forward is kind.forward for kind in READERS
    )
    return readable or isinstance(module, nn.Linear | _ConvNd)


def is_identity(module: nn.Module) -> bool:
    """Return whether a module in evaluation mode returns its input, or a copy."""
    return isinstance(module, IDENTITIES)


def has_hooks(module: nn.Module) -> bool:
    """Return whether a user's hooks run with a module."""
    hooks = [hook for name in HOOKS for hook in getattr(module, name).values()]
    return any(hook not in OWN_HOOKS for hook in hooks)


def obstacle(module: nn.Module) -> str:
    """Return why a linear module must stay what it is; empty where it need not."""
    if has_hooks(module):
        return "it has a hook, which a merged layer would not call"
    if module.training:
        return "it is in training mode"
    if isinstance(module, _BatchNorm) and module.running_mean is None:
        return "it has no running statistics, and normalizes by those of the batch"
    if isinstance(module, Affine) and module.axis is None:
        return "it has no axis of channels"
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and not weight.is_floating_point():
        return f"its weight is of dtype {str(weight.dtype).removeprefix('torch.')}"
    return ""


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float64)


def _linear(module: nn.Module, ndim: int) -> Piece:
    assert isinstance(module, nn.Linear)
    weight = _exact(module.weight)
    bias = weight.new_zeros(len(weight)) if module.bias is None else _exact(module.bias)
    return Piece(weight, bias)


def _convolution(module: nn.Module, ndim: int) -> Piece | None:
    assert isinstance(module, _ConvNd)
    if ndim != len(module.stride) + 2:  # one sample without an axis for the batch
        return None
    weight = _exact(module.weight)
    bias = weight.new_zeros(len(weight)) if module.bias is None else _exact(module.bias)
    flat = module._reversed_padding_repeated_twice
    pairs = zip(flat[::2], flat[1::2], strict=True)
    padding = tuple((int(before), int(after)) for before, after in pairs)[::-1]
    mode = module.padding_mode if any(flat) else "zeros"
    return Piece(
        weight, bias, module.stride, module.dilation, padding, module.groups, mode, is_map=False
    )


def _norm(module: nn.Module, ndim: int) -> Piece:
    assert isinstance(module, _BatchNorm)
    assert module.running_mean is not None
    assert module.running_var is not None
    scale = 1 / (_exact(module.running_var) + module.eps).sqrt()
    if module.weight is not None:
        scale = scale * _exact(module.weight)
    shift = -_exact(module.running_mean) * scale
    if module.bias is not None:
        shift = shift + _exact(module.bias)
    return channel_map(scale, shift, ndim - 2)


def _affine(module: nn.Module, ndim: int) -> Piece:
    assert isinstance(module, Affine)
    assert module.axis is not None
    factor = module.weight if module.weight is not None else module.scale
    assert factor is not None
    return channel_map(_exact(factor), _exact(module.shift), ndim - 1 - module.axis % ndim)


def channel_map(factor: Tensor, shift: Tensor, rank: int) -> Piece:
    """Return a map of the channels with so many axes behind them.

    Args:
        factor: (c,) or (c, c).
        shift: (c,).
        rank: the number of spatial axes.
    """
    one = (1,) * rank
    is_full = factor.ndim == 2
    weight = factor.reshape(len(shift), -1, *one)
    groups = 1 if is_full else len(shift)
    return Piece(weight, shift, one, one, ((0, 0),) * rank, groups, is_map=True)


READERS: dict[type[nn.Module], Callable[[nn.Module, int], Piece | None]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.BatchNorm1d: _norm,
    nn.BatchNorm2d: _norm,
    nn.BatchNorm3d: _norm,
    nn.SyncBatchNorm: _norm,  # in evaluation mode nothing is synchronized
    Affine: _affine,
}
"""Class -> function that reads a module of it as a piece."""


def module_of(piece: Piece) -> nn.Module:
    """Return a piece as a module in evaluation mode, in float64."""
    if piece.is_map:
        made: nn.Module = _affine_module(piece)
    elif piece.rank == 0:
        made = nn.Linear(
            *(piece.inputs, piece.outputs), device=piece.weight.device, dtype=torch.float64
        )
        _fill(made, piece)
    elif piece.ones is None and not piece.bordered and _is_symmetric(piece.padding):
        made = _plain(piece)
    else:
        made = MergedConv(
            *(piece.weight, piece.bias, piece.ones),
            stride=piece.stride,
            dilation=piece.dilation,
            padding=piece.padding,
            mode=piece.mode,
            parts=[_plain(part) for part in piece.parts] if piece.bordered else (),
        )
    return made.eval()


def is_written_as_module(piece: Piece) -> bool:
    """Return whether a part can run by itself as `nn.Conv2d`, or the like."""
    return piece.ones is None and not piece.bordered and _is_symmetric(piece.padding)


def _is_symmetric(padding: Padding) -> bool:
    return all(before == after for before, after in padding)


def _affine_module(piece: Piece) -> Affine:
    axis = -1 - piece.rank
    factor = piece.weight.flatten(1)
    if piece.groups == 1 and len(factor) > 1:
        return Affine.full(factor, piece.bias, axis)
    return Affine(factor[:, 0], piece.bias, axis)


def _plain(piece: Piece) -> _ConvNd:
    made = CONVOLUTIONS[piece.rank](
        *(piece.inputs, piece.outputs, piece.kernel, piece.stride),
        padding=tuple(before for before, _ in piece.padding),
        dilation=piece.dilation,
        groups=piece.groups,
        padding_mode=piece.mode,
        device=piece.weight.device,
        dtype=torch.float64,
    )
    _fill(made, piece)
    return made


def _fill(module: nn.Linear | _ConvNd | nn.Module, piece: Piece) -> None:
    assert isinstance(module, nn.Linear | _ConvNd)
    assert module.bias is not None
    with torch.no_grad():
        module.weight.copy_(piece.weight)
        module.bias.copy_(piece.bias)
