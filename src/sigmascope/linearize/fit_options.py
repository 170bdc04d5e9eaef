"""The keywords of `sigmascope.linearize.fit`."""

from __future__ import annotations

from typing import Any

from sigmascope.choices import LinearizeMaps
from sigmascope.linearize.tuning import TuneOptions


class FitOptions(TuneOptions, total=False):
    """Further options of `fit`: those of `tune`, and these.

    Attributes:
        maps, iterative, step, sites: see `plan`.
        points: how many numbers of replaced activations are tuned, evenly spaced up to the budget,
            each from the original on; 1 by default.
        baseline: whether to tune the original equally long, for comparison; False by default.
        fold: whether to merge what became linear; True by default.
        name: of the network, and `data_name` of the data, for tables and pages.
        seed: of all random numbers.

    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(256, 2), torch.arange(256) % 2
    >>> options: linearize.FitOptions = {"maps": "full", "fold": False}
    >>> data = linearize.Split(samples, samples, samples)
    >>> linearize.fit(network, data, budget=1, epochs=0, **options).network[1]
    Affine(8, axis=-1, full)
    """

    maps: LinearizeMaps
    iterative: bool
    step: int
    sites: Any
    points: int
    baseline: bool
    fold: bool
    name: str
    data_name: str
    seed: int
