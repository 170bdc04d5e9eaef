"""A network of the catalog, with what is known about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from sigmascope.catalog.network_depth import activation_depth
from sigmascope.catalog.transforms import Transform
from sigmascope.checks import suggestion
from sigmascope.errors import InputError, OptionError


@dataclass(frozen=True)
class Model:
    """A network with what is known about it.

    Attributes:
        name: its name in the catalog.
        network: in evaluation mode.
        weights: where its weights come from.
        inputs: an example of its inputs: a tensor, a list of images, or a mapping of arguments by
            name.
        transform: samples as data sets hold them -> inputs of the network; None if unknown.
        accuracy: top-1 accuracy of these weights on their own test data in percent, if known.

    >>> from sigmascope import catalog
    >>> found = catalog.model("sigmascope/resnet20")
    >>> found.parameters, found.flops, found.accuracy
    (269722, 81102080, 92.06)
    """

    name: str
    network: nn.Module = field(repr=False)
    weights: str
    inputs: Any = field(repr=False)
    transform: Transform | None = field(default=None, repr=False)
    accuracy: float | None = None

    @cached_property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of the example; a multiplication with an addition is two.

        Raises:
            InputError: the network does not run on the example.
        """
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter, _unfused_attention():
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
        """Return accuracy, parameters, flops, depth and weights by name; None where unknown.

        Flops and depth are unknown where the network does not run on its example; reading `flops`
        raises the reason.
        """
        facts: dict[str, Any] = {"accuracy": self.accuracy, "parameters": self.parameters}
        facts |= {"flops": None, "depth": None}
        with suppress(InputError):
            facts |= {"flops": self.flops, "depth": self.depth}
        return facts | {"weights": self.weights}

    def _run(self) -> object:
        try:
            with torch.no_grad():
                if isinstance(self.inputs, dict):
                    return self.network(**self.inputs)
                return self.network(self.inputs)
        except Exception as error:  # whatever the code of a network raises
            raise InputError(f"{self.name} does not run on its example inputs: {error}") from error


def check_known(name: str, known: Iterable[str], source: str) -> None:
    """Raise unless a library has a network."""
    names = list(known)
    if name not in names:
        near = suggestion(name, names, most=3, before=f"{source}/")
        raise OptionError(
            f"{source}/{name} is not in the catalog.{near} "
            "Run `sigmascope list models` for all names."
        )


@contextmanager
def _unfused_attention() -> Iterator[None]:
    """Run attention as separate products, because fused kernels are not all counted."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
