"""How the scores of a network are spread: Gaussian kernel densities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.compare.networks import checked_networks, is_constant
from sigmascope.compare.table import as_frame, as_lines
from sigmascope.errors import InputError
from sigmascope.maths.warping import Curve
from sigmascope.measure.signature import Signature

if TYPE_CHECKING:
    import pandas

__all__ = ["Densities", "Density", "densities"]

# Bandwidths drawn beyond the least and the largest score.
CUT = 3


@dataclass(frozen=True, eq=False)
class Density:
    """The density of one network's scores.

    Attributes:
        name: of the network.
        grid: (points,), where.
        values: (points,), how dense.
        bandwidth: the standard deviation of the kernel.
    """

    name: str
    grid: Curve
    values: Curve
    bandwidth: float


@dataclass(frozen=True, repr=False, eq=False)
class Densities:
    """The densities of several networks.

    Attributes:
        names: of all networks.
        curves: of those that have a density, in the same order.
        reasons: of the others, why they have none.
    """

    names: tuple[str, ...]
    curves: tuple[Density, ...]
    reasons: dict[str, str]

    def __repr__(self) -> str:
        by_name = {curve.name: _described(curve) for curve in self.curves}
        rows = [by_name.get(name, [np.nan] * 3) for name in self.names]
        columns: dict[str, Sequence[Any]] = {"network": self.names}
        columns |= {
            title: [row[place] for row in rows]
            for place, title in enumerate(("bandwidth", "highest at", "height"))
        }
        missing = [f"{name} has no density: {reason}." for name, reason in self.reasons.items()]
        return "\n".join([*as_lines(columns), *([""] if missing else []), *missing])

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per network and point: network, score, density.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(
            {
                "network": [curve.name for curve in self.curves for _ in curve.grid],
                "score": [score for curve in self.curves for score in curve.grid.tolist()],
                "density": [value for curve in self.curves for value in curve.values.tolist()],
            }
        )


def densities(signatures: Sequence[Signature], *, points: int = 200) -> Densities:
    r"""Estimate the density of each network's scores.

    $\frac{1}{k} \sum_i \mathcal{N}(s; s_i, h^2)$ over the k scores, with Scott's bandwidth $h =
    k^{-1/5}$ times their standard deviation (divisor k - 1), from 3 h below the least score to 3 h
    above the largest. Nothing is cut off at 0 or 1.

    Args:
        signatures: of one network or more.
        points: of each grid.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores, or fewer than two points.

    >>> import torch
    >>> from sigmascope.measure.survey import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid())
    >>> densities([signature(network, [torch.eye(4)], name="small")]).reasons["small"].split(",")[0]
    'it has a single score'
    """
    if type(points) is not int or points < 2:
        raise InputError(f"points={points!r} is not a whole number of at least 2.")
    networks = checked_networks(signatures)
    curves, reasons = [], {}
    for name, scores in zip(networks.names, networks.curves, strict=True):
        if is_constant(scores):
            alike = (
                f"all {len(scores)} scores are equal"
                if len(scores) > 1
                else "it has a single score"
            )
            reasons[name] = f"{alike}, {scores[0]:.4f}"
        else:
            curves.append(_estimated(name, scores, points))
    return Densities(networks.names, tuple(curves), reasons)


def _estimated(name: str, scores: Curve, points: int) -> Density:
    from scipy.stats import gaussian_kde  # here, as it takes half a second to import

    estimate = gaussian_kde(scores, bw_method="scott")
    bandwidth = float(np.sqrt(estimate.covariance[0, 0]))
    grid = np.linspace(scores.min() - CUT * bandwidth, scores.max() + CUT * bandwidth, points)
    return Density(name, grid, estimate(grid), bandwidth)


def _described(curve: Density) -> list[float]:
    peak = int(curve.values.argmax())
    return [curve.bandwidth, float(curve.grid[peak]), float(curve.values[peak])]
