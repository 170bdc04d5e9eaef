"""Which activation call it is: the record that every later one extends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any


def site_name(path: str, call: int, kind: str) -> str:
    """Return the name of an activation call.

    >>> site_name("layer1.0.relu", 1, "relu"), site_name("", 0, "gelu")
    ('layer1.0.relu#1', 'forward.gelu')
    """
    return (path or f"forward.{kind}") + (f"#{call}" if call else "")


def is_chosen(name: str, kind: str, patterns: Collection[str]) -> bool:
    """Return whether a pattern is the kind of a site, or fits its name.

    >>> [is_chosen("layer1.0.relu#1", "relu", [one]) for one in ("relu", "layer1.*", "layer2.*")]
    [True, True, False]
    """
    return any(one == kind or fnmatchcase(name, one) for one in patterns)


@dataclass(frozen=True)
class CallSite:
    """Where a network calls an activation.

    Attributes:
        path: the module that is the activation, or that calls the function; empty for the network
            itself.
        call: which call of that module it is in a forward pass, from 0.
        kind: the name of the activation.
    """

    path: str
    call: int
    kind: str

    @property
    def name(self) -> str:
        """The path and, from the second call on, its number, such as `layer1.0.relu#1`.

        A function that the network itself calls is named after what it is, such as `forward.gelu`.
        """
        return site_name(self.path, self.call, self.kind)

    @property
    def former_name(self) -> str:
        """The name in earlier versions, which differs for the calls of the network itself."""
        return site_name(self.path or "(network)", self.call, self.kind)


@dataclass(frozen=True)
class CallInput(CallSite):
    """An activation call and the tensor that enters it.

    Attributes:
        shape, dtype: of the input, before pooling.
        channel_axis: the axis of its channels; None where it has no other axis.
        axis_reason: how that is known.
        formula: what is computed of x, where the activation is written as a formula.
    """

    shape: tuple[int, ...]
    dtype: str
    channel_axis: int | None
    axis_reason: str
    formula: str = field(default="", kw_only=True, metadata={"later": True})

    def fields(self) -> dict[str, Any]:
        """Return the fields of `CallInput` alone, for another record that extends it."""
        return {one.name: getattr(self, one.name) for one in fields(CallInput)}
