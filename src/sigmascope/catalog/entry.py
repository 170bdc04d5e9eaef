"""A network of the catalog, with what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from sigmascope.capture.depth import activation_depth
from sigmascope.catalog.transforms import Transform
from sigmascope.errors import InputError

__all__ = ["Model"]


@dataclass(frozen=True)
class Model:
    """A network with what is known of it.

    Attributes:
        name: under which it was asked for.
        network: in evaluation mode.
        weights: where its weights come from.
        inputs: an example of what it takes: a tensor, or a mapping of arguments by name.
        transform: samples as data sets hold them -> what the network takes; None where that is
            unknown.
        accuracy: top-1 of these weights on their own test data in percent, where it is known.
    """

    name: str
    network: nn.Module = field(repr=False)
    weights: str
    inputs: Any = field(repr=False)
    transform: Transform | None = field(default=None, repr=False)
    accuracy: float | None = None

    @cached_property
    def parameters(self) -> int:
        """How many numbers it has learned."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of the example, a multiplication and an addition counted as two.

        Raises:
            InputError: the network does not run on the example.
        """
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter, _attention_in_steps():
            self._run()
        return int(counter.get_total_flops())

    @cached_property
    def depth(self) -> int:
        """Activation calls on the longest path from input to output.

        Raises:
            InputError: the network does not run on the example.
        """
        return activation_depth(self._run)

    def facts(self) -> dict[str, Any]:
        """Return accuracy, parameters, flops, depth and weights by name.

        What is not known is None: the accuracy, or flops and depth of a network that does not run
        on its example; reading `flops` then says why.
        """
        facts: dict[str, Any] = {
            "accuracy": self.accuracy,
            "parameters": self.parameters,
            "flops": None,
            "depth": None,
        }
        with suppress(InputError):
            facts |= {"flops": self.flops, "depth": self.depth}
        return facts | {"weights": self.weights}

    def _run(self) -> object:
        try:
            with torch.no_grad():
                return (
                    self.network(**self.inputs)
                    if isinstance(self.inputs, dict)
                    else self.network(self.inputs)
                )
        except Exception as error:  # whatever the code of a network raises
            raise InputError(f"{self.name} does not run on its example inputs: {error}") from error


@contextmanager
def _attention_in_steps() -> Iterator[None]:
    """Run attention as separate products: the fused kernels are not, or not all, counted."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
