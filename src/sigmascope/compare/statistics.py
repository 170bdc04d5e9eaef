"""One row of statistics per network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sigmascope.compare.networks import checked_networks
from sigmascope.compare.table import as_frame, as_lines
from sigmascope.measure.signature import STATISTICS, Signature

if TYPE_CHECKING:
    import pandas

__all__ = ["Statistics", "statistics"]


@dataclass(frozen=True, repr=False)
class Statistics:
    """Statistics of several networks.

    Attributes:
        names: of the networks.
        table: statistic -> one value per network: sites (how many have a score), min, median, max,
            mean, std (divisor k), spread (max - min), iqr.
    """

    names: tuple[str, ...]
    table: dict[str, tuple[float, ...]]

    def __repr__(self) -> str:
        return "\n".join(as_lines({"network": self.names, **self.table}))

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per network and one column per statistic.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame({"network": self.names, **self.table})


def statistics(signatures: Sequence[Signature]) -> Statistics:
    """Summarize each network over its sites that have a score.

    Args:
        signatures: of one network or more.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.

    >>> import torch
    >>> from sigmascope.measure.survey import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid(), torch.nn.Tanh())
    >>> statistics([signature(network, [torch.eye(4)], name="small")]).table["sites"]
    (2,)
    """
    networks = checked_networks(signatures)
    summaries = [signature.summary() for signature in networks.signatures]
    table = {name: tuple(summary[name] for summary in summaries) for name in STATISTICS}
    return Statistics(networks.names, {"sites": tuple(map(len, networks.curves)), **table})
