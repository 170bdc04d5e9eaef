"""One forward pass under watch, on an input that is given or made up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.errors import InputError
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.symmetry.wiring.rules import RULES
from sigmascope.symmetry.wiring.watch import watching

__all__ = ["run", "trace"]

SIDES = (32, 64, 224, 28, 96, 128, 256, 299, 384)
"""Sizes that are tried for images, and lengths of sequences."""
# What a network raises when a size does not fit it.
UNFIT = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)


def trace(model: nn.Module, example_input: Any = None, *, exact_eval: bool = False) -> Wiring:
    """Watch one forward pass in evaluation mode and return how the channels hang together.

    Args:
        model: the network; it is left as it was.
        example_input: a tensor, a tuple of arguments or a mapping of them. By default inputs of
            usual sizes are made up for the first layer, until the network takes one: the size does
            not change which channels hang together.
        exact_eval: see `move`.

    Raises:
        InputError: the network does not take the input, or none could be made up.
        UnmovableError: a function that no rule follows.
    """
    problem: Exception | None = None
    for example in _made_up(model) if example_input is None else [example_input]:
        wiring = Wiring(model, exact_eval=exact_eval)
        wiring.know(example)
        try:
            with preserve_state(model, mode="eval"), watching(model, wiring, RULES):
                output = run(model, example)
        except UNFIT as error:
            if wiring.refusal is not None:
                raise wiring.refusal from None
            problem = error
            continue
        if wiring.refusal is not None:
            raise wiring.refusal
        wiring.finish(output)
        return wiring
    if example_input is None:
        last = f" The last one that was tried failed: {problem}" if problem else ""
        raise InputError(
            "no input could be made up for this network. Pass example_input, a batch that "
            f"it takes.{last}"
        )
    raise InputError(f"the network does not take example_input: {problem}") from problem


def run(model: nn.Module, example: Any) -> Any:
    """Call a network with a tensor, a tuple of arguments or a mapping of them."""
    if isinstance(example, Mapping):
        return model(**example)
    return model(*example) if isinstance(example, (tuple, list)) else model(example)


def _made_up(model: nn.Module) -> Iterator[Tensor]:
    """Yield inputs for the first layer that has a width."""
    source = torch.Generator().manual_seed(0)
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, nn.Linear):
            yield torch.randn(2, module.in_features, generator=source).to(weight)
        elif isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            for side in SIDES:
                shape = (2, module.in_channels, *[side] * len(module.kernel_size))
                yield torch.randn(shape, generator=source).to(weight)
        elif isinstance(module, nn.Embedding):
            yield torch.zeros(2, 8, dtype=torch.long, device=module.weight.device)
        else:
            continue
        return
