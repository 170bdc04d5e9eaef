"""The plan of a linearization: ranked activation sites, fitted maps, and which sites to replace."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from sigmascope.errors import FileFormatError, OptionError
from sigmascope.linearize.budgets import (
    Budget,
    Elements,
    LossRise,
    budget_text,
    check_budget,
    sites_within,
)
from sigmascope.linearize.collecting import ActivationCall
from sigmascope.linearize.evidence import Values
from sigmascope.store import read_paired, write_paired
from sigmascope.store.codec import LATER
from sigmascope.tables import Table, Tabular, number

KIND, VERSION = "linearization-plan", 1
LISTED = 6
LOCAL = ("affinity", "pooled", "r2", "positive")
"""Criteria of how well a map fits, whatever the rest of the network makes of its error."""
INPUTS = "sigmascope_inputs"
"""The attribute of a linearized network with the shapes and dtypes of its inputs."""


@dataclass(frozen=True)
class PlannedSite(ActivationCall):
    """An activation call in a plan.

    Attributes:
        score: the population affinity score on positions, where it was measured; with its interval
            from `low` to `high`.
        value: of the criterion; NaN where it has none.
        fit: R² of the map: the share of the variance of the output that it explains.
        rank: from 1, the first to be replaced; 0 for a site that is not ranked.
        chosen: whether it is replaced.
        blocks: 1, or where the samples are too few for all channels at once, the number of blocks
            of channels whose mean score `score` is.

    >>> import torch
    >>> from sigmascope import linearize
    >>> layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LeakyReLU(0.9)
    >>> network = torch.nn.Sequential(*layers)
    >>> plan = linearize.plan(network, torch.randn(256, 4), budget=1)
    >>> [(site.name, site.rank, site.chosen, site.elements) for site in plan.sites]
    [('1', 2, False, 8), ('2', 1, True, 8)]
    """

    score: float
    low: float
    high: float
    value: float
    fit: float
    rank: int
    chosen: bool
    blocks: int


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Tabular):
    """Which activations of a network to replace by which affine maps.

    It prints itself as a table. `sigmascope.linearize.apply` makes the network.

    Attributes:
        network: the name of its class.
        structure, weights: digests of its layers and of its parameters and buffers, so that the
            plan is not applied to another network.
        by: the criterion, and `meaning` in words.
        maps: "channel", "full" or "identity".
        budget: in words.
        iterative: whether the rest was measured again after every few replacements.
        inputs: the shape and dtype of each tensor in the first batch.
        samples: in all batches.
        sites: all activation calls, in order of execution.
        tensors: site name + ".factor" and ".shift" -> the fitted maps in float64.
        outputs: of the network for random inputs, see `probe`; empty where it does not run on such.

    >>> import torch
    >>> from sigmascope import linearize
    >>> layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LeakyReLU(0.9)
    >>> network = torch.nn.Sequential(*layers)
    >>> plan = linearize.plan(network, torch.randn(256, 4), budget=1)
    >>> [site.name for site in plan.chosen], plan.by, plan.maps, sorted(plan.tensors)
    (['2'], 'affinity', 'channel', ['1.factor', '1.shift', '2.factor', '2.shift'])
    """

    network: str
    structure: str
    weights: str
    by: str
    meaning: str
    maps: str
    budget: str
    iterative: bool
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    samples: int
    sites: tuple[PlannedSite, ...]
    tensors: dict[str, Tensor]
    outputs: tuple[float, ...] = field(default=(), metadata={LATER: True})

    @property
    def ranking(self) -> list[PlannedSite]:
        """The sites that are ranked, the first to be replaced first."""
        return sorted((site for site in self.sites if site.rank), key=lambda site: site.rank)

    @property
    def chosen(self) -> list[PlannedSite]:
        """The sites to replace, in the order of the ranking."""
        return [site for site in self.ranking if site.chosen]

    @property
    def elements(self) -> int:
        """Activation elements of the network for one sample."""
        return sum(site.elements for site in self.sites)

    @property
    def saved(self) -> int:
        """Activation elements of the chosen sites."""
        return sum(site.elements for site in self.sites if site.chosen)

    def values_of(self, site: PlannedSite) -> Values | None:
        """Return the factor, (c,) or (c, c), and the shift (c,) of a map; None for the identity."""
        if self.maps == "identity":
            return None
        return self.tensors[f"{site.name}.factor"], self.tensors[f"{site.name}.shift"]

    def with_budget(self, budget: Budget) -> Plan:
        """Return the plan with the same ranking and another budget, which needs no data.

        Raises:
            OptionError: a budget of loss, which needs the network and data; or more than were
                ranked, as of an iterative plan, which ranks only what it replaces.

        >>> import torch
        >>> from sigmascope import linearize
        >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
        >>> plan = linearize.plan(network, torch.randn(256, 4), budget=1)
        >>> len(plan.with_budget(2).chosen)
        2
        """
        budget = check_budget(budget)
        if isinstance(budget, LossRise):
            raise OptionError(
                "a budget of loss needs the network and data. Call plan with budget=LossRise(...)."
            )
        ranking = self.ranking
        wanted: int | float | Elements = budget
        if isinstance(budget, float):  # of all that can be replaced, as in `plan`
            wanted = sites_within(budget, [1 for site in self.sites if not site.reason], 0)
        count = sites_within(wanted, [site.elements for site in ranking], self.elements)
        sites = tuple(
            dataclasses.replace(site, chosen=0 < site.rank <= count) for site in self.sites
        )
        return dataclasses.replace(self, sites=sites, budget=budget_text(budget))

    def save(self, path: str | Path) -> Path:
        """Write FILE.json, and FILE.safetensors with the maps, and return the path of the first."""
        about = {"network": self.network, "maps": self.maps}
        return write_paired(path, KIND, VERSION, self, about)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Return a plan that `save` wrote.

        Raises:
            FileNotFoundError: one of the two files is missing.
            FileFormatError: corrupt, not a plan, or newer than this version.
        """
        found = cls(**read_paired(path, KIND, VERSION, cls))
        for site in found.ranking:
            found._check_map(site, str(path))
        return found

    def _check_map(self, site: PlannedSite, source: str) -> None:
        if self.maps == "identity":
            return
        c = site.channels
        shapes = [
            tuple(self.tensors[name].shape) if name in self.tensors else None
            for name in (f"{site.name}.factor", f"{site.name}.shift")
        ]
        if shapes[0] not in ((c,), (c, c)) or shapes[1] != (c,):
            raise FileFormatError(
                f"{source} has no map for {c} channels of {site.name}. Write the plan again."
            )

    def _columns(self) -> dict[str, Sequence[object]]:
        order = sorted(self.sites, key=lambda site: (not site.rank, site.rank))
        total = max(1, self.elements)
        columns: dict[str, Sequence[object]] = {
            "rank": [str(site.rank or "–") for site in order],
            "site": [site.name for site in order],
            "activation": [site.kind for site in order],
            "channels": [site.channels for site in order],
            "elements": [site.elements for site in order],
            "affinity": [_with_interval(site) for site in order],
            self.by if self.by != "affinity" else "criterion": [site.value for site in order],
            "R²": [site.fit for site in order],
            "replaced": ["yes" if site.chosen else "" for site in order],
            "saved": [
                f"{100 * site.elements / total:.1f} %" if site.chosen else "" for site in order
            ],
        }
        return columns

    def _tables(self) -> list[Table]:
        title = (
            f"{self.network}: {len(self.chosen)} of {len(self.sites)} activations become "
            f"{MAPS_IN_WORDS[self.maps]} (budget: {self.budget}; ranked by {self.by})"
        )
        return [Table(self._columns(), title, self._notes())]

    def _notes(self) -> list[str]:
        share = 100 * self.saved / max(1, self.elements)
        notes = [
            f"saved: {len(self.chosen)} of {len(self.sites)} activations, {self.saved:,} of "
            f"{self.elements:,} elements per sample ({share:.1f} %)",
            f"{self.by}: {self.meaning or 'a criterion of your own'}; {self.samples} "
            f"sample{'s' * (self.samples != 1)}",
        ]
        split = [site.name for site in self.sites if site.blocks > 1]
        if split:
            others = f" and {len(split) - 2} more" if len(split) > 2 else ""
            notes.append(
                f"≈ {', '.join(split[:2])}{others}: too few samples for so many channels, which "
                "are scored in blocks"
            )
        last = [site for site in self.ranking if site.axis == -1 and len(site.shape) > 2]
        is_local = self.by in LOCAL and self.maps != "identity"
        if is_local and 2 * len(last) > len(self.ranking):
            notes.append(
                "most sites have their channels last, as in transformers: on Swin-T these criteria "
                "chose no better than chance before tuning; with labels, compare by='gradient'"
            )
        reasons = [f"{site.name} stays: {site.reason}" for site in self.sites if site.reason]
        more = [f"and {len(reasons) - LISTED} more"] if len(reasons) > LISTED else []
        return [*notes, *reasons[:LISTED], *more]


MAPS_IN_WORDS = {
    "channel": "affine maps of each channel",
    "full": "affine maps of all channels",
    "identity": "the identity",
}


def _with_interval(site: PlannedSite) -> str:
    if math.isnan(site.score):
        return "–"
    score = "≈ " * (site.blocks > 1) + number(site.score)
    if math.isnan(site.low):
        return score
    return f"{score} [{number(site.low)}, {number(site.high)}]"
