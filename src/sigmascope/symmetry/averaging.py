"""Several networks of one architecture merged into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from sigmascope import choices
from sigmascope.capture.guard import unwrapped
from sigmascope.checks import check_whole
from sigmascope.errors import InputError, InputTypeError
from sigmascope.symmetry.aligning.align import align
from sigmascope.symmetry.interpolation import (
    has_batch_norm,
    mean_network,
    read_again,
    reset_batch_norm,
)

GAIN = 1e-3  # a round that gains less is the last


def average(
    models: Sequence[nn.Module],
    batches: Any = None,
    *,
    by: choices.Matching = "weights",
    rounds: int = 5,
    progress: bool = True,
) -> nn.Module:
    r"""Return the mean of several networks, aligned: one network of their architecture.

    All are aligned to the first, which stays where it is. By weights, each of the others is then
    aligned to the mean of the rest, in up to `rounds` rounds: this never raises the sum of squared
    distances to the mean, since for n networks

    $$\sum_i \lVert \theta_i - \bar\theta \rVert^2 = \tfrac{n-1}{n} \lVert \theta_j -
    \bar\theta_{-j} \rVert^2 + \sum_{i \ne j} \lVert \theta_i - \bar\theta_{-j} \rVert^2.$$

    By activations it stops after the first alignment: the features of a mean of weights that are
    not yet aligned say little. With batches, statistics of batch norm are taken again on them.

    Ainsworth et al., 2022, arXiv:2209.04836.

    Args:
        models: two networks or more of one architecture; not changed.
        batches: inputs, for `by="activations"` and for batch norm; a loader or a list, read
            several times.
        by: "weights" or "activations"; see `sigmascope.symmetry.align`.
        rounds: the most rounds after the first alignment.
        progress: whether to show a progress bar, on a terminal.

    Raises:
        InputError: fewer than two networks, or of different architectures; no batches, or an
            iterator that can be read once only.
        InputTypeError: models is one network, not several.

    >>> import torch
    >>> from sigmascope import symmetry
    >>> a = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    >>> merged = average([a, symmetry.move(a, 0), symmetry.move(a, 1)])
    >>> torch.allclose(merged[0].weight, a[0].weight)
    True
    """
    if isinstance(models, nn.Module):
        raise InputTypeError("models is one network. Pass a list of networks.")
    check_whole("rounds", rounds, 0)
    networks = [unwrapped(one) for one in models]
    if len(networks) < 2:
        raise InputError(f"average needs two networks or more, got {len(networks)}.")
    if batches is not None:
        batches = read_again(batches)
    first = networks[0]
    aligned = [first]
    for other in networks[1:]:
        aligned.append(align(first, other, batches, by=by, progress=progress).apply(other))
    if by == "weights" and len(networks) > 2:
        _refine(aligned, batches, rounds, progress=progress)
    merged = mean_network(aligned, [1 / len(aligned)] * len(aligned))
    if batches is not None and has_batch_norm(merged):
        training = merged.training
        reset_batch_norm(merged, batches)
        merged.train(training)
    return merged


def _refine(aligned: list[nn.Module], batches: Any, rounds: int, *, progress: bool) -> None:
    """Align each network but the first to the mean of the rest, in place, until it gains little."""
    count = len(aligned) - 1
    for _ in range(rounds):
        before, after = 0.0, 0.0
        for number in range(1, len(aligned)):
            rest = [one for place, one in enumerate(aligned) if place != number]
            mean = mean_network(rest, [1 / count] * count)
            found = align(mean, aligned[number], batches, progress=progress)
            before, after = before + found.before, after + found.objective[-1]
            if found.objective[-1] < found.before:
                aligned[number] = found.apply(aligned[number])
        if before - after <= GAIN * before:
            return
