"""What an audit found, printed as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sigmascope.tables import Columns, Table, Tabular

# What may be wrong with a site, or with the network that was watched.
PROBLEMS = ("missed", "false", "wrong axis", "changed")
MOST = 20  # findings that are printed


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        problem: "missed": an activation was computed, and is neither a site nor has a reason.
            "false": a site where no such activation was computed. "wrong axis": samples or channels
            of a site are not where the network has them. "changed": outputs or state of the network
            are not the same where it is watched.
        where: the site, or the part of the network.
        detail: what was expected and found.

    >>> finding = Finding("missed", "block.act", "relu was computed and is no site")
    >>> finding.problem, finding.where
    ('missed', 'block.act')
    """

    problem: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.where}: {self.detail}"


@dataclass(frozen=True, repr=False)
class Audit(Tabular):
    """Whether sigmascope sees a network as it is; prints as a table.

    Attributes:
        name: of the network.
        operators: activation operators that torch computed, counted apart from sites.
        sites: activation calls that were seen.
        skipped: those of them for which no score is defined; each has a reason.
        explained: operators that no site contains, and which the coverage names as not seen.
        samples, channels: sites whose axes of samples and of channels could be checked.
        findings: what is wrong.
        refused: the message of sigmascope's own error, if it raised one.
        error: any other error that the network raises only where it is watched.
        notes: what could not be checked, and why.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Tanh())
    >>> found = sg.audit(network, torch.randn(8, 3))
    >>> found.operators, found.sites, found.findings
    (2, 2, ())
    """

    name: str
    operators: int = 0
    sites: int = 0
    skipped: int = 0
    explained: int = 0
    samples: int = 0
    channels: int = 0
    findings: tuple[Finding, ...] = ()
    refused: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the network was measured, and nothing is wrong."""
        return not self.findings and not self.refused and not self.error

    def count(self, problem: str) -> int:
        """Return the number of findings of a kind, such as "missed"."""
        return sum(finding.problem == problem for finding in self.findings)

    def row(self) -> dict[str, str | int]:
        """Return the line of the table."""
        return {
            "network": self.name,
            "tried": 1,
            "complete": int(self.complete),
            "refused": int(bool(self.refused)),
            "raw error": int(bool(self.error)),
            **{problem: self.count(problem) for problem in PROBLEMS},
        }

    def _columns(self) -> Columns:
        return {name: [value] for name, value in self.row().items()}

    def _tables(self) -> Sequence[Table]:
        seen = (
            f"{self.operators} activation operators computed; {self.sites} sites, {self.skipped} "
            f"of them without a score for a reason; {self.explained} operators not seen for a "
            f"reason. Axes checked: samples of {self.samples} sites, channels of {self.channels}."
        )
        below = [seen, *map(str, self.findings[:MOST])]
        hidden = len(self.findings) - MOST
        below += [f"and {hidden} more"] if hidden > 0 else []
        below += [f"refused: {self.refused}"] if self.refused else []
        below += [f"raw error: {self.error}"] if self.error else []
        return [Table(self._columns(), notes=[*below, *(f"note: {note}" for note in self.notes)])]
