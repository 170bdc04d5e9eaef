"""The options of `compare`: how networks are run, and what belongs to each measure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, OptionError
from sigmascope.measure.batches import Forward
from sigmascope.symmetry.features import kernel_dtype
from sigmascope.symmetry.similarity import KERNELS
from sigmascope.symmetry.streaming import NORMALISE, NORMALISERS

__all__ = [
    "MEASURES",
    "AlignmentSettings",
    "CompareOptions",
    "KernelSettings",
    "Watching",
    "sorted_out",
]


class CompareOptions(TypedDict, total=False):
    """Further keywords of `compare`, which explains them; not all belong to both measures."""

    normaliser: str
    kernel: str
    normalise: str
    centered: bool
    dtype: str
    memory: float
    folder: str | Path | None
    activations: str | Collection[str]
    channel_axis: Mapping[str, int]
    batch_axis: int
    forward: Forward | None
    max_batches: int | None
    seed: int


@dataclass(frozen=True)
class Watching:
    """How networks are run and what is looked at; see `compare`."""

    activations: str | Collection[str] = "pointwise"
    channel_axis: Mapping[str, int] = field(default_factory=dict)
    batch_axis: int = 0
    forward: Forward | None = None
    max_batches: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class AlignmentSettings:
    """What belongs to Procrustes; see `compare`."""

    normaliser: str = "authors"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_choice("normaliser", self.normaliser, NORMALISERS)
        kernel_dtype(self.dtype)

    def shown(self, group: str) -> dict[str, str]:
        """Return by name what the result depends on."""
        return {"normaliser": self.normaliser, "dtype": self.dtype}


@dataclass(frozen=True)
class KernelSettings:
    """What belongs to CKA; see `compare`."""

    kernel: str = "max"
    normalise: str = "channels"
    centered: bool = True
    dtype: str = "float32"
    memory: float = 2e9
    folder: str | Path | None = None

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        check_choice("normalise", self.normalise, NORMALISE)
        kernel_dtype(self.dtype)
        if not self.memory > 0:
            raise InputError(f"memory={self.memory!r} is not a positive number of bytes.")

    def reduction(self, group: str) -> str:
        """Return how channels become one kernel."""
        return "sum" if group == "orthogonal" else self.kernel

    def shown(self, group: str) -> dict[str, str]:
        """Return by name what the result depends on."""
        centered = str(bool(self.centered))
        return {
            "kernel": self.reduction(group),
            "normalise": self.normalise,
            "centered": centered,
            "dtype": self.dtype,
        }


MEASURES: dict[str, type[AlignmentSettings] | type[KernelSettings]] = {
    "procrustes": AlignmentSettings,
    "cka": KernelSettings,
}


def sorted_out(
    measure: str, options: CompareOptions
) -> tuple[Watching, AlignmentSettings | KernelSettings]:
    """Tell apart how networks are run and how they are compared.

    Raises:
        OptionError: an unknown measure or value, or an option that the measure does not have.

    >>> sorted_out("procrustes", {"seed": 3, "normaliser": "live"})[1]
    AlignmentSettings(normaliser='live', dtype='float32')
    """
    check_choice("measure", measure, MEASURES)
    given: dict[str, Any] = {
        name: value
        for name, value in options.items()
        if name != "channel_axis" or value is not None
    }
    running = {one.name for one in fields(Watching)}
    own = {one.name for one in fields(MEASURES[measure])}
    for name in given.keys() - running - own:
        if name in CompareOptions.__annotations__:
            other = next(one for one in MEASURES if one != measure)
            raise OptionError(
                f"{name} belongs to measure={other!r}, not to {measure!r}. Leave it out."
            )
        check_choice("option", name, sorted(running | own))
    watching = Watching(**{name: given[name] for name in given.keys() & running})
    return watching, MEASURES[measure](**{name: given[name] for name in given.keys() & own})
