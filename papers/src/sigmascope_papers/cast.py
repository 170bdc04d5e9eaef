"""The networks in the figures: those of the paper, and those of our zoo that stand in for them.

An item asks its setting for the cast and takes members by group, so that the same code draws the
paper's networks if their weights are available, and ours otherwise. `cast.json` lists both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from sigmascope.checks import check_choice

DATA = json.loads((files("sigmascope_papers") / "cast.json").read_text(encoding="utf-8"))
FAMILIES: dict[str, str] = DATA["families"]
"""Group of Table 1 -> family of Figure 6."""


@dataclass(frozen=True)
class Member:
    """A network of the catalog, its group and family, and the year of its architecture."""

    name: str
    group: str
    year: int

    @property
    def family(self) -> str:
        """The family of Figure 6."""
        return FAMILIES[self.group]


@dataclass(frozen=True)
class Cast:
    """Networks in order of their years, and the names of those that represent their group."""

    members: tuple[Member, ...]
    leads: tuple[str, ...]

    def names(self, *groups: str) -> list[str]:
        """Return the names of some groups, or of all."""
        return [member.name for member in self.members if not groups or member.group in groups]

    def groups(self) -> dict[str, str]:
        """Return name -> group."""
        return {member.name: member.group for member in self.members}

    def families(self) -> dict[str, str]:
        """Return name -> family."""
        return {member.name: member.family for member in self.members}

    def years(self) -> dict[str, float]:
        """Return name -> year."""
        return {member.name: member.year for member in self.members}

    def lead(self, group: str) -> str | None:
        """Return the name of the network that represents a group, or None if there is none."""
        return next((name for name in self.leads if self.groups()[name] == group), None)

    def only(self, names: Sequence[str]) -> Cast:
        """Return a cast of some members; if a group loses its lead, its last member takes over."""
        for name in names:
            check_choice("network", name, self.names())
        members = tuple(member for member in self.members if member.name in names)
        last = {member.group: member.name for member in members}
        groups = {lead: self.groups()[lead] for lead in self.leads}
        leads = (lead if lead in names else last.get(group) for lead, group in groups.items())
        return Cast(members, tuple(lead for lead in leads if lead))


def _cast(prefix: str) -> Cast:
    members = [
        Member(f"{prefix}/{name}", row["group"], row["year"])
        for row in DATA[prefix]["members"]
        for name in row["networks"]
    ]
    return Cast(tuple(members), tuple(f"{prefix}/{name}" for name in DATA[prefix]["leads"]))


PAPER = _cast("torchvision")
"""The networks of the paper. Its text lists these 36, Appendix F counts 33, and Table 2 has 32."""
ZOO = _cast("sigmascope")
"""Our networks on CIFAR-10, each in the group of the architecture that it is a small version of.

Two are less close: the Myrtle CNNs, the plainest, to AlexNet, and MobileNetV2 to the MNASNets.
"""
