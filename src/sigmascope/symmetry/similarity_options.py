"""Options of the similarity measures: typed keywords, and dataclasses that check them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict

import torch

from sigmascope import choices
from sigmascope.checks import OLD_NAMES, check_choice, check_number, check_whole, options_from
from sigmascope.errors import OptionError
from sigmascope.maths.randomness import as_number
from sigmascope.measure.batches import Forward
from sigmascope.measure.options import checked_axes, checked_limit

CHECKS: dict[str, Callable[[Any], object]] = {
    "batch_axis": lambda value: check_whole("batch_axis", value, 0, 7),
    "centered": bool,
    "channel_axis": checked_axes,
    "dtype": lambda value: check_choice("dtype", value, choices.Precision),
    "kernel": lambda value: check_choice("kernel", value, choices.Kernel),
    "max_batches": checked_limit,
    "memory": lambda value: check_number("memory", value, strict=True),
    "normalize": lambda value: check_choice("normalize", value, choices.ChannelNorm),
    "normalizer": lambda value: check_choice("normalizer", value, choices.Normalizer),
    "seed": as_number,
}
"""Name of an option -> the function that returns its checked value."""


@dataclass(frozen=True)
class _Checked:
    """Options that are checked when they are made."""

    def __post_init__(self) -> None:
        for name in CHECKS.keys() & {one.name for one in fields(self)}:
            object.__setattr__(self, name, CHECKS[name](getattr(self, name)))


class AlignmentKeywords(TypedDict, total=False):
    """Keywords of `procrustes`; `normaliser` is an older name of `normalizer`."""

    normalizer: choices.Normalizer
    dtype: choices.Precision
    normaliser: choices.Normalizer


@dataclass(frozen=True)
class AlignmentOptions(_Checked):
    """Options of `procrustes`, which explains them."""

    normalizer: choices.Normalizer = "authors"
    dtype: choices.Precision = "float64"


class KernelKeywords(TypedDict, total=False):
    """Keywords of `cka`; `normalise` is an older name of `normalize`."""

    normalize: choices.ChannelNorm
    centered: bool
    dtype: choices.Precision
    normalise: choices.ChannelNorm


@dataclass(frozen=True)
class KernelOptions(_Checked):
    """Options of `cka`, which explains them."""

    normalize: choices.ChannelNorm = "channels"
    centered: bool = True
    dtype: choices.Precision = "float64"


class CompareKeywords(AlignmentKeywords, KernelKeywords, total=False):
    """Further keywords of `compare`, which explains them; some belong to one measure only."""

    names: tuple[str, str] | None
    progress: bool
    activations: str | Collection[str]
    channel_axis: Mapping[str, int] | None
    batch_axis: int
    forward: Forward | None
    max_batches: int | None
    seed: int | torch.Generator
    kernel: choices.Kernel
    memory: float
    folder: str | Path | None


@dataclass(frozen=True)
class RunOptions(_Checked):
    """How `compare` runs networks and what it records; see there."""

    names: tuple[str, str] | None = None
    progress: bool = True
    activations: str | Collection[str] = "pointwise"
    channel_axis: Mapping[str, int] = field(default_factory=dict)
    batch_axis: int = 0
    forward: Forward | None = None
    max_batches: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class ProcrustesOptions(AlignmentOptions, RunOptions):
    """All options of `compare` with measure="procrustes".

    >>> import torch
    >>> from sigmascope import symmetry
    >>> a = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> found = symmetry.compare(a, a, torch.randn(64, 4), normalizer="live")
    >>> found.settings["normalizer"], ProcrustesOptions().normalizer
    ('live', 'authors')
    """

    dtype: choices.Precision = "float32"

    def shown(self, group: str) -> dict[str, str]:
        """Return, by name, the options that the result depends on."""
        return {"normalizer": self.normalizer, "dtype": self.dtype}


@dataclass(frozen=True)
class CkaOptions(KernelOptions, RunOptions):
    """All options of `compare` with measure="cka".

    >>> import torch
    >>> from sigmascope import symmetry
    >>> a = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> found = symmetry.compare(a, a, torch.randn(64, 4), measure="cka", kernel="median")
    >>> found.settings["kernel"], CkaOptions().kernel
    ('median', 'max')
    """

    kernel: choices.Kernel = "max"
    dtype: choices.Precision = "float32"
    memory: float = 2e9
    folder: str | Path | None = None

    def reduction(self, group: str) -> str:
        """Return how the products of all channels become one kernel."""
        return "sum" if group == "orthogonal" else self.kernel

    def shown(self, group: str) -> dict[str, str]:
        """Return, by name, the options that the result depends on."""
        own = {name: str(getattr(self, name)) for name in ("normalize", "centered", "dtype")}
        return {"kernel": self.reduction(group), **own}


MEASURES: dict[str, type[ProcrustesOptions] | type[CkaOptions]] = {
    "procrustes": ProcrustesOptions,
    "cka": CkaOptions,
}


def compare_options(
    measure: str, given: Mapping[str, Any], base: RunOptions | None = None
) -> ProcrustesOptions | CkaOptions:
    """Return the options of a comparison: keywords on top of `base`, or of the defaults.

    >>> compare_options("procrustes", {"seed": 3, "normalizer": "live"}).normalizer
    'live'
    """
    kind = MEASURES[check_choice("measure", measure, choices.Measure)]
    own = {one.name for one in fields(kind)}
    for name in given:
        if OLD_NAMES.get(name, name) not in own and name in CompareKeywords.__annotations__:
            other = next(one for one in MEASURES if one != measure)
            raise OptionError(
                f"{name} belongs to measure={other!r}, not to {measure!r}. Leave it out."
            )
    return options_from(kind, given, base)  # type: ignore[return-value]
