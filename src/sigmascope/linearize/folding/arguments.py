"""What a network is called with, and whether two calls return the same."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from sigmascope.errors import NetworkError
from sigmascope.measure.batches import tensors_in

TOLERANCE = 1e-9
"""The largest difference of outputs in float64, relative to the largest output."""
TINY = 1e-100  # where all outputs are zero


@dataclass(frozen=True)
class Arguments:
    """What a module is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def in_order(self, module: nn.Module) -> list[Any]:
        """Return the arguments in the order of the parameters of `forward`, with defaults."""
        bound = inspect.signature(module.forward).bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return list(bound.arguments.values())

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Arguments:
        """Return the arguments with each tensor changed."""

        def changed(value: Any) -> Any:
            return change(value) if isinstance(value, Tensor) else value

        mapped = fx.node.map_aggregate
        kwargs: Any = mapped(self.kwargs, changed)
        args: Any = mapped(self.args, changed)
        return Arguments(tuple(args), dict(kwargs))

    def exact(self) -> Arguments:
        """Return the arguments with floating tensors in float64."""
        return self.mapped(lambda one: one.double() if one.is_floating_point() else one)

    def other(self) -> Arguments:
        """Return other values, so that nothing that was kept of the first ones passes for them."""
        return self.mapped(
            lambda one: (
                0.5 * one + 0.1 * one.flip(-1) if one.is_floating_point() and one.ndim else one
            )
        )


def relative_difference(wanted: Tensor, found: Tensor) -> float:
    """Return the largest difference of two tensors over the largest value, infinite if shapes are.

    Values that are not finite must be equal.
    """
    if wanted.shape != found.shape:
        return float("inf")
    if not wanted.is_floating_point() or not wanted.numel():
        return 0.0 if torch.equal(wanted, found) else float("inf")
    finite = wanted.isfinite()
    if not torch.equal(finite, found.isfinite()) or not torch.equal(
        wanted[~finite].nan_to_num(), found[~finite].nan_to_num()
    ):
        return float("inf")
    if not finite.any():
        return 0.0
    difference = (wanted - found)[finite].abs().max()
    return float(difference / wanted[finite].abs().max().clamp_min(TINY))


def difference_of_outputs(network: nn.Module, other: nn.Module, arguments: Arguments) -> float:
    """Return the largest difference of the outputs in float64, see `relative_difference`.

    Args:
        network: in any dtype.
        other: in float64.
        arguments: in float64; other values of the same shape are tried as well.

    Raises:
        NetworkError: the network returns no tensor.
    """
    exact = copy.deepcopy(network).double()
    return max(_difference(exact, other, one) for one in (arguments, arguments.other()))


def _difference(network: nn.Module, other: nn.Module, arguments: Arguments) -> float:
    found = []
    with torch.no_grad():
        for one in (network, other):
            fresh = arguments.mapped(Tensor.clone)
            found.append([*tensors_in(one(*fresh.args, **fresh.kwargs))])
    if not found[0]:
        raise NetworkError("the network returns no tensor, so that nothing can be compared.")
    if len(found[0]) != len(found[1]):
        return float("inf")
    return max(relative_difference(*pair) for pair in zip(*found, strict=True))
