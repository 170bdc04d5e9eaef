"""The result of folding: the network, what was merged, and what it saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from sigmascope.tables import Table, Tabular

LISTED = 12


@dataclass(frozen=True)
class Cost:
    """What one pass of a network takes.

    Attributes:
        layers: convolutions and linear layers that are called.
        maps: batch norms and affine maps that are called.
        parameters: of the network.
        multiply_adds: of convolutions and products of matrices, for one sample.
        seconds: of latency, for one sample on one thread of the CPU, or on the network's device;
            the lower decile of calls in turns.

    >>> import torch
    >>> from sigmascope import linearize
    >>> layers = torch.nn.Linear(4, 32), torch.nn.Identity(), torch.nn.Linear(32, 4)
    >>> folded = linearize.fold(torch.nn.Sequential(*layers).eval(), torch.randn(2, 4))
    >>> [(cost.layers, cost.parameters) for cost in (folded.before, folded.after)]
    [(2, 292), (1, 20)]
    """

    layers: int
    maps: int
    parameters: int
    multiply_adds: int
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Folded(Tabular):
    """A network whose linear layers are merged, and what that saves. It prints itself as a table.

    Attributes:
        network: the new network, in evaluation mode, in the dtype of the original.
        steps: what was merged, in words.
        refused: what was not, with the reasons.
        before, after: what a pass takes.
        merges: names of the merges, for `fold(..., merges=...)`, which makes the same again.
        keep: which merges were made: "faster", "fewer" or "all".
        error: the largest difference of the outputs in float64, relative to the largest output.
        name: of the class of the original.
        batch: the number of samples that the latency is measured with.

    >>> import torch
    >>> from sigmascope import linearize
    >>> layers = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
    >>> folded = linearize.fold(torch.nn.Sequential(*layers).eval(), torch.randn(2, 3, 8, 8))
    >>> folded.steps, folded.error < 1e-9
    (('0 + 1 → one convolution of 3 × 3, 8 channels',), True)
    """

    network: nn.Module
    steps: tuple[str, ...]
    refused: tuple[str, ...]
    before: Cost
    after: Cost
    merges: tuple[str, ...] = ()
    keep: str = "faster"
    error: float = 0.0
    batch: int = 1
    name: str = ""

    @property
    def speedup(self) -> float:
        """The latency before over that after."""
        return self.before.seconds / self.after.seconds

    def _columns(self) -> dict[str, Sequence[object]]:
        rows = [
            ("layers", self.before.layers, self.after.layers),
            ("norms and maps", self.before.maps, self.after.maps),
            ("parameters", self.before.parameters, self.after.parameters),
            ("multiply-adds", self.before.multiply_adds, self.after.multiply_adds),
            ("latency in ms", 1e3 * self.before.seconds, 1e3 * self.after.seconds),
        ]
        return {
            "": [name for name, _, _ in rows],
            "before": [before for _, before, _ in rows],
            "after": [after for _, _, after in rows],
            "after / before": [
                after / before if before else float("nan") for _, before, after in rows
            ],
        }

    def _tables(self) -> list[Table]:
        count = len(self.steps)
        done = f"{count} merge{'s' * (count != 1)}" if count else "nothing to fold"
        title = f"{self.name or type(self.network).__name__}: {done}"
        return [Table(self._columns(), title, self._notes())]

    def _notes(self) -> list[str]:
        samples = "one sample" if self.batch == 1 else f"{self.batch} samples"
        notes = [
            f"multiply-adds and latency of {samples}; outputs equal within {self.error:.1e} of the "
            "largest, in float64"
        ]
        notes += _listed([f"merged: {step}" for step in self.steps])
        return notes + _listed([f"not merged: {reason}" for reason in self.refused])


def _listed(lines: list[str]) -> list[str]:
    more = len(lines) - LISTED
    return lines if more <= 0 else [*lines[:LISTED], f"and {more} more"]
