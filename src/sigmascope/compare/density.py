"""Gaussian kernel densities of the scores of each network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sigmascope.checks import check_choice, check_whole
from sigmascope.choices import Boundary, Layout, ScoreKind
from sigmascope.compare.networks import checked_networks, is_constant
from sigmascope.maths.warping import Curve
from sigmascope.measure.result import Signature
from sigmascope.tables import Columns, Table, Tabular, as_frame

if TYPE_CHECKING:
    import pandas

    from sigmascope.figures.drawn import Drawn

CUT = 3  # bandwidths that a grid extends beyond the least and the largest score


@dataclass(frozen=True, eq=False)
class Density:
    """The density of one network's scores.

    Attributes:
        name: name of the network.
        grid: (points,), the scores at which the density is evaluated.
        values: (points,), the density at these scores.
        bandwidth: standard deviation of the kernel.
    """

    name: str
    grid: Curve
    values: Curve
    bandwidth: float


@dataclass(frozen=True, repr=False, eq=False)
class Densities(Tabular):
    """The densities of several networks.

    Attributes:
        names: names of all networks.
        curves: the densities, in the order of the names, of the networks that have one.
        reasons: network -> why it has no density.
        scores: the scores of each network.
        by: whose scores these are, "published" or "population".

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Tanh())
    >>> measured = sg.signature(network, torch.randn(64, 4), name="small")
    >>> [curve] = sg.densities([measured], points=50).curves
    >>> curve.name, curve.values.shape
    ('small', (50,))
    """

    names: tuple[str, ...]
    curves: tuple[Density, ...]
    reasons: dict[str, str]
    scores: tuple[Curve, ...] = ()
    by: ScoreKind = "published"

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per network and point: network, score, density.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        names = [curve.name for curve in self.curves for _ in curve.grid]
        scores = [score for curve in self.curves for score in curve.grid.tolist()]
        values = [value for curve in self.curves for value in curve.values.tolist()]
        return as_frame({"network": names, "score": scores, "density": values})

    def plot(self, *, layout: Layout | None = None) -> Drawn:
        """Draw the densities; see `sigmascope.figures.draw_densities`."""
        from sigmascope.figures.density import draw_densities

        return draw_densities(self, layout=layout)

    def _columns(self) -> Columns:
        described = {curve.name: _described(curve) for curve in self.curves}
        rows = [described.get(name, [np.nan] * 3) for name in self.names]
        titles = ("bandwidth", "highest at", "height")
        columns = {title: [row[place] for row in rows] for place, title in enumerate(titles)}
        return {"network": self.names, **columns}

    def _tables(self) -> list[Table]:
        notes = [f"{name} has no density: {reason}." for name, reason in self.reasons.items()]
        return [Table(self._columns(), f"Densities of {self.by} scores", notes=notes)]


def densities(
    signatures: Sequence[Signature],
    *,
    points: int = 200,
    by: ScoreKind | None = None,
    boundary: Boundary = "reflect",
) -> Densities:
    r"""Return a kernel density estimate of each network's scores.

    $\frac{1}{k} \sum_i \mathcal{N}(s; s_i, h^2)$ over the k scores, with Scott's bandwidth $h =
    k^{-1/5}$ times their standard deviation (divisor k - 1), from 3 h below the least score to 3 h
    above the largest. No score exceeds 1, and no density reaches beyond: what would is reflected
    there. As in Bouniot et al., CVPR 2025, arXiv:2310.11439, where nothing is reflected.

    Args:
        signatures: one per network, at least one.
        points: size of each grid.
        by: "published" or "population" scores; by default published scores if all have them.
        boundary: "reflect", or "unbounded": the densities reach beyond 1.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: fewer than two points; another `boundary`; another `by`, or one that was not
            measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid())
    >>> densities([signature(network, [torch.eye(4)], name="small")]).reasons["small"].split(",")[0]
    'it has a single score'
    """
    check_whole("points", points, 2)
    check_choice("boundary", boundary, Boundary)
    networks = checked_networks(signatures, by)
    curves, reasons = [], {}
    for name, scores in zip(networks.names, networks.curves, strict=True):
        if is_constant(scores):
            count = len(scores)
            alike = f"all {count} scores are equal" if count > 1 else "it has a single score"
            reasons[name] = f"{alike}, {scores[0]:.4f}"
        else:
            curves.append(_estimated(name, scores, points, boundary))
    return Densities(networks.names, tuple(curves), reasons, networks.curves, networks.by)


def _estimated(name: str, scores: Curve, points: int, boundary: Boundary) -> Density:
    from scipy.stats import gaussian_kde  # deferred: it takes half a second to import

    estimate = gaussian_kde(scores, bw_method="scott")
    bandwidth = float(np.sqrt(estimate.covariance[0, 0]))
    low, high = scores.min() - CUT * bandwidth, scores.max() + CUT * bandwidth
    if boundary == "unbounded":
        grid = np.linspace(low, high, points)
        return Density(name, grid, estimate(grid), bandwidth)
    grid = np.linspace(low, min(high, 1.0), points)
    return Density(name, grid, estimate(grid) + estimate(2 - grid), bandwidth)


def _described(curve: Density) -> list[float]:
    peak = int(curve.values.argmax())
    return [curve.bandwidth, float(curve.grid[peak]), float(curve.values[peak])]
