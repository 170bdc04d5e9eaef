"""Outputs for fixed random inputs, which tell whether a network computes what another did.

A digest of the layers does not see what a `forward` does between them: a residual network and the
same one without its connections have the same layers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state, randomness_kept
from sigmascope.linearize.tuner import seed_all
from sigmascope.measure.batches import run_forward, tensors_in, to_model

SAMPLES, VALUES = 2, 32
SEED = 20_230_817  # of the second run; any other than that of the first
TOLERANCE = 1e-2  # of the largest value: far above rounding, far below another network

Shapes = tuple[tuple[tuple[int, ...], str], ...]


def probed(network: nn.Module, shapes: Shapes) -> tuple[float, ...]:
    """Return some outputs of a network in evaluation mode; nothing where it does not run so.

    Args:
        network: any network.
        shapes: the shape and dtype of each tensor in a batch.
    """
    try:
        batch = to_model(_random(shapes), network, batch_axis=0).content
        with preserve_state(network, mode="eval"):
            outputs = [
                one.detach().double().cpu() for one in tensors_in(run_forward(network, batch))
            ]
    except Exception:  # the batches may have had another form
        return ()
    flat = torch.cat([one.flatten() for one in outputs]) if outputs else torch.zeros(0)
    chosen = flat[torch.linspace(0, max(0, len(flat) - 1), min(VALUES, len(flat))).long()]
    return tuple(chosen.tolist()) if bool(chosen.isfinite().all()) else ()


def probed_twice(network: nn.Module, shapes: Shapes) -> tuple[float, ...]:
    """Return the same, but nothing for a network that returns something else the second time.

    What it returns with other random numbers would be taken for what another network computes.
    """
    with randomness_kept():
        found = probed(network, shapes)
        seed_all(SEED)
        again = probed(network, shapes)
    return found if again and are_close(found, again) else ()


def are_close(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether outputs agree up to rounding; True where one of them is not known.

    >>> are_close((1.0, 2.0), (1.0, 2.001)), are_close((1.0, 2.0), (1.0, 1.5))
    (True, False)
    """
    if not one or not other:
        return True
    largest = max(map(abs, (*one, *other)))
    apart = max((abs(a - b) for a, b in zip(one, other, strict=False)), default=0.0)
    return len(one) == len(other) and apart <= TOLERANCE * largest and math.isfinite(apart)


def _random(shapes: Shapes) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for shape, name in shapes:
        size = (min(SAMPLES, shape[0]), *shape[1:]) if shape else shape
        dtype = getattr(torch, name)
        if dtype.is_floating_point:
            found.append(torch.randn(size, generator=generator).to(dtype))
        else:
            found.append(torch.zeros(size, dtype=dtype))
    return tuple(found)
