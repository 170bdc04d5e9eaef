"""Statistics of the scores, one row per network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sigmascope.choices import ScoreKind
from sigmascope.compare.jackknife import statistic_half_widths
from sigmascope.compare.networks import checked_networks
from sigmascope.measure.result import STATISTICS, Signature
from sigmascope.tables import Columns, Table, Tabular, number

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

# With intervals more than these do not fit on a line.
PRINTED = ("min", "median", "max", "mean", "spread")
TITLE = "Population scores, ± half the width of the 95 % interval"


@dataclass(frozen=True, repr=False)
class Statistics(Tabular):
    """Statistics of several networks.

    Attributes:
        names: names of the networks.
        table: statistic -> one value per network: sites (how many have a score), min, median, max,
            mean, std (divisor k), spread (max - min), iqr.
        by: whose scores they are of, "published" or "population".
        half_width: statistic -> half the width of its 95 % interval, one value per network; of
            population scores only.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Tanh())
    >>> found = sg.statistics([sg.signature(network, torch.randn(256, 4), name="small")])
    >>> found.names, list(found.table)
    (('small',), ['sites', 'min', 'median', 'max', 'mean', 'std', 'spread', 'iqr'])
    """

    names: tuple[str, ...]
    table: dict[str, tuple[float, ...]]
    by: ScoreKind = "published"
    half_width: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def plot(self) -> Drawn:
        """Draw range, median and mean of each network; see `sigmascope.figures.draw_statistics`."""
        from sigmascope.figures.statistics import draw_statistics

        return draw_statistics(self)

    def _columns(self) -> Columns:
        halves = {f"{name}_half_width": values for name, values in self.half_width.items()}
        return {"network": self.names, **self.table, **halves}

    def _tables(self) -> list[Table]:
        if not self.half_width:
            return [Table(self._columns())]
        columns: dict[str, Sequence[object]] = {"network": self.names, "sites": self.table["sites"]}
        for name in PRINTED:
            pairs = zip(self.table[name], self.half_width[name], strict=True)
            columns[name] = [f"{number(value)} ± {number(half)}" for value, half in pairs]
        return [Table(columns, TITLE)]


def statistics(signatures: Sequence[Signature], *, by: ScoreKind | None = None) -> Statistics:
    """Return statistics of each network over the sites that have a score.

    Args:
        signatures: one per network, at least one.
        by: "published", or "population", whose statistics have intervals: the jackknife over groups
            of samples; by default published scores if all have them.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: another `by`, or one that was not measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid(), torch.nn.Tanh())
    >>> statistics([signature(network, [torch.eye(4)], name="small")]).table["sites"]
    (2,)
    """
    networks = checked_networks(signatures, by)
    table = {
        name: tuple(float(statistic(curve)) for curve in networks.curves)
        for name, statistic in STATISTICS.items()
    }
    widths = [statistic_half_widths(one) for one in networks.signatures]
    halves = {name: tuple(width[name] for width in widths) for name in STATISTICS}
    return Statistics(
        networks.names,
        {"sites": tuple(map(len, networks.curves)), **table},
        networks.by,
        halves if networks.by == "population" else {},
    )
