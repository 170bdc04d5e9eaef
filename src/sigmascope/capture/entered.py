"""The modules that are running, from the outermost to the innermost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

# Layers that call neither an activation nor another layer, of which a network has many.
LEAVES = {nn.Linear, nn.Embedding, nn.LayerNorm, nn.GroupNorm, nn.Dropout, nn.Identity, nn.Flatten}
LEAVES |= {nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d}
LEAVES |= {nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d}


@dataclass(slots=True)
class Entered:
    """A module that is running; `sequence_first` also where one around it is."""

    module: nn.Module
    path: str
    sequence_first: bool
    finish: Callable[[Tensor], None] | None = None
    quiet: bool = False
    unwatched: bool = False
    below: int = 0
    args: tuple[Any, ...] = ()
    kind: str = ""  # of an activation
    first: int = 0  # step of it


def by_position(args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return arguments whose first tensor has no name."""
    if args:
        return args, kwargs
    named = dict(kwargs)
    first = tuple(named.pop(key) for key in ("input", "self", "tensors") if key in named)
    return first, named


def input_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return the first tensor among arguments."""
    candidates = (*args, kwargs.get("input"), *kwargs.values())
    return next((value for value in candidates if isinstance(value, Tensor)), None)


def is_entered(module: nn.Module, entered: list[Entered]) -> bool:
    """Return whether a module is among those that are running."""
    innermost = bool(entered) and entered[-1].module is module
    return innermost or any(here.module is module for here in entered)


def attends(module: nn.Module) -> bool:
    """Return whether a module is torch's own attention, whose only activation is a softmax.

    Where it is watched it takes another, slightly different path.
    """
    own = isinstance(module, nn.MultiheadAttention)
    return own and type(module).forward is nn.MultiheadAttention.forward


def expects_sequence_first(module: nn.Module) -> bool:
    """Return whether a layer expects (time, batch, channels)."""
    layer = isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer))
    return layer and not getattr(getattr(module, "self_attn", None), "batch_first", True)
