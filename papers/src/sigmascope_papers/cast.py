"""The networks that stand in a figure: those of the paper, and the ones of our zoo that stand in
for them.

An item asks its setting for the cast and takes members by group, so that the same file draws the
paper's networks where their weights can be had, and ours elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sigmascope.checks import check_choice

__all__ = ["FAMILIES", "PAPER", "ZOO", "Cast", "Member"]

FAMILIES: dict[str, str] = {
    "AlexNets": "pre-residual",
    "VGGs": "pre-residual",
    "Inceptions": "pre-residual",
    "ResNets": "residual",
    "DenseNets": "residual",
    "MNASNets": "NAS",
    "EffNets": "NAS",
    "ViTs": "ViTs",
    "Swins": "post-ViT",
    "ConvNeXts": "post-ViT",
}
"""Group of Table 1 -> family of Figure 6."""


@dataclass(frozen=True)
class Member:
    """One network.

    Attributes:
        name: as the catalog has it.
        group: one of `FAMILIES`.
        year: in which its architecture was published.
    """

    name: str
    group: str
    year: int

    @property
    def family(self) -> str:
        """The family of Figure 6."""
        return FAMILIES[self.group]


@dataclass(frozen=True)
class Cast:
    """Networks, in order of their years.

    Attributes:
        members: all of them.
        leads: the names of those that stand for their group where a figure shows one of each.
    """

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
        """Return the name of the network that stands for a group, or None where the group is not there."""
        return next((name for name in self.leads if self.groups()[name] == group), None)

    def only(self, names: Sequence[str]) -> Cast:
        """Return a cast of some of the members; where the lead of a group is not among them, the
        last one that is takes over.

        Raises:
            OptionError: a name that is not in the cast; its names are listed.
        """
        for name in names:
            check_choice("network", name, self.names())
        members = tuple(member for member in self.members if member.name in names)
        last = {member.group: member.name for member in members}
        kept = {
            group: lead if (lead := self.lead(group)) in names else name
            for group, name in last.items()
        }
        wanted = [self.groups()[name] for name in self.leads]
        return Cast(members, tuple(str(kept[group]) for group in wanted if group in kept))


def _members(prefix: str, rows: Iterable[tuple[str, int, Sequence[str]]]) -> tuple[Member, ...]:
    return tuple(
        Member(f"{prefix}/{name}", group, year) for group, year, names in rows for name in names
    )


def _cast(
    prefix: str, rows: Iterable[tuple[str, int, Sequence[str]]], leads: Mapping[str, str]
) -> Cast:
    members = _members(prefix, rows)
    groups = dict.fromkeys(member.group for member in members)
    return Cast(members, tuple(f"{prefix}/{leads[group]}" for group in groups if group in leads))


PAPER = _cast(
    "torchvision",
    [
        ("AlexNets", 2012, ["alexnet"]),
        ("VGGs", 2014, ["vgg11", "vgg13", "vgg16", "vgg19"]),
        ("Inceptions", 2014, ["googlenet"]),
        ("Inceptions", 2015, ["inception_v3"]),
        ("ResNets", 2015, ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]),
        ("DenseNets", 2016, ["densenet121", "densenet161", "densenet169", "densenet201"]),
        ("MNASNets", 2018, ["mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3"]),
        (
            "EffNets",
            2019,
            ["efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4"],
        ),
        ("ViTs", 2020, ["vit_b_32", "vit_l_32", "vit_b_16", "vit_l_16", "vit_h_14"]),
        ("Swins", 2021, ["swin_t", "swin_s", "swin_b"]),
        ("ConvNeXts", 2022, ["convnext_tiny", "convnext_small", "convnext_base", "convnext_large"]),
    ],
    {
        "AlexNets": "alexnet",
        "VGGs": "vgg16",
        "Inceptions": "googlenet",
        "ResNets": "resnet152",
        "DenseNets": "densenet201",
        "EffNets": "efficientnet_b4",
        "ViTs": "vit_l_16",
        "Swins": "swin_b",
        "ConvNeXts": "convnext_large",
    },
)
"""The networks of the paper, as torchvision has them. Its text lists these 36, Appendix F counts
33, and Table 2 has 32.
"""

ZOO = _cast(
    "sigmascope",
    [
        ("AlexNets", 2012, ["myrtle-nobn:0", "myrtle:0"]),
        ("VGGs", 2014, ["vgg11:1", "vgg13:1", "vgg16:1", "vgg19:1"]),
        ("Inceptions", 2014, ["googlenet:0"]),
        ("ResNets", 2015, ["resnet20:0", "resnet32:0", "resnet56:0"]),
        ("DenseNets", 2016, ["densenet:0"]),
        ("MNASNets", 2018, ["mobilenetv2-small:0", "mobilenetv2:0"]),
        ("EffNets", 2019, ["efficientnet-small:0", "efficientnet:0"]),
        ("ViTs", 2020, ["vit-patch8:0", "vit-patch4:0", "vit-patch2:0", "vit:0"]),
        ("Swins", 2021, ["swin-small:0", "swin:0"]),
        ("ConvNeXts", 2022, ["convnext-small:0", "convnext:0"]),
    ],
    {
        "AlexNets": "myrtle-nobn:0",
        "VGGs": "vgg16:1",
        "Inceptions": "googlenet:0",
        "ResNets": "resnet56:0",
        "DenseNets": "densenet:0",
        "EffNets": "efficientnet:0",
        "ViTs": "vit-patch4:0",
        "Swins": "swin:0",
        "ConvNeXts": "convnext:0",
    },
)
"""Our networks on CIFAR-10, each in the group of the architecture that it is a small version of.
Two stand in more loosely: the Myrtle CNNs for AlexNet, as the plainest convolutional networks, and
MobileNetV2 for the MNASNets, whose blocks are its own."""
