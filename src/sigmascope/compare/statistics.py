"""Statistics of the scores, one row per network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sigmascope.compare.networks import checked_networks
from sigmascope.measure.result import STATISTICS, Signature
from sigmascope.tables import Columns, Tabular

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn


@dataclass(frozen=True, repr=False)
class Statistics(Tabular):
    """Statistics of several networks.

    Attributes:
        names: names of the networks.
        table: statistic -> one value per network: sites (how many have a score), min, median, max,
            mean, std (divisor k), spread (max - min), iqr.
    """

    names: tuple[str, ...]
    table: dict[str, tuple[float, ...]]

    def plot(self) -> Drawn:
        """Draw range, median and mean of each network; see `sigmascope.figures.draw_statistics`."""
        from sigmascope.figures.statistics import draw_statistics

        return draw_statistics(self)

    def _columns(self) -> Columns:
        return {"network": self.names, **self.table}


def statistics(signatures: Sequence[Signature]) -> Statistics:
    """Return statistics of each network over the sites that have a score.

    Args:
        signatures: one per network, at least one.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid(), torch.nn.Tanh())
    >>> statistics([signature(network, [torch.eye(4)], name="small")]).table["sites"]
    (2,)
    """
    networks = checked_networks(signatures)
    summaries = [signature.summary() for signature in networks.signatures]
    table = {name: tuple(summary[name] for summary in summaries) for name in STATISTICS}
    return Statistics(networks.names, {"sites": tuple(map(len, networks.curves)), **table})
