"""Potentials of many assignment problems: a proof of the identity, a start for the solver."""

from __future__ import annotations

import torch
from torch import Tensor

# Rounds of shortest paths before a pair goes to the host.
ROUNDS = 32
# Temperatures of the guess, relative to the distance of this many neighbors, and the sweeps at
# each. With more rows than GUESSED the host guesses better.
TEMPERATURES, NEIGHBORS, SWEEPS = (0.5, 0.05), 32, 16
GUESSED = 1024


def near_potentials(cost: Tensor) -> Tensor:
    """Return a guess of column potentials (b, n): Sinkhorn's iteration at falling temperature."""
    shift, scale = cost.amin(dim=1), cost.new_ones(())
    for step, temperature in enumerate(TEMPERATURES):
        reduced = cost - shift[:, None, :]
        reduced = reduced - reduced.amin(dim=2, keepdim=True)
        rest = reduced.amin(dim=1)
        reduced, shift = reduced - rest[:, None, :], shift + rest
        if step == 0:  # the size of the entries that compete
            count = min(NEIGHBORS, cost.shape[1])
            nearest = torch.topk(reduced, count, dim=2, largest=False).values
            scale = nearest[:, :, -1].mean(dim=1)[:, None, None]
            scale = scale.clamp_min(torch.finfo(cost.dtype).tiny)
        kernel = (reduced / (-temperature * scale)).exp()
        left = torch.ones_like(kernel[:, :, :1])
        for _ in range(SWEEPS):
            right = torch.bmm(kernel.mT, left).reciprocal_()
            left = torch.bmm(kernel, right).reciprocal_()
        shift = shift + (temperature * scale * right.log())[:, :, 0]
    return shift


def identity_is_optimal(cost: Tensor, tolerance: Tensor) -> Tensor:
    """Return for which costs (b, n, n) shortest paths from the identity settle, see `prove`."""
    exchange = cost - cost.diagonal(dim1=1, dim2=2)[:, :, None]
    value = torch.zeros_like(exchange[:, 0])
    for _ in range(ROUNDS):
        # never above the value before: the diagonal of exchange is 0
        value = (exchange + value[:, :, None]).amin(dim=1)
    lower = (exchange + value[:, :, None]).amin(dim=1)
    return (lower >= value - tolerance[:, None]).all(dim=1)
