"""Signatures to compare, checked once: unique names, and scores without gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sigmascope.checks import check_mapping
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.warping import Curve
from sigmascope.measure.result import Signature

T = TypeVar("T")

# Relative to the largest: a smaller difference may come from the order of a sum.
SAME = 1e-9


@dataclass(frozen=True)
class Networks:
    """Signatures with unique names.

    Attributes:
        names: the names of the signatures; a second `resnet18` is called `resnet18 (2)`.
        signatures: as given.
        curves: the scores of each, in order of execution, without the sites that have none.
    """

    names: tuple[str, ...]
    signatures: tuple[Signature, ...]
    curves: tuple[Curve, ...]

    def look_up(self, table: Mapping[str, T]) -> list[T | None]:
        """Return the entry of each network, by its unique name or else by its signature's name."""
        return [
            table.get(name, table.get(signature.name))
            for name, signature in zip(self.names, self.signatures, strict=True)
        ]


def checked_networks(signatures: object) -> Networks:
    """Return the signatures with unique names and their scores."""
    if isinstance(signatures, Signature):
        raise InputTypeError(
            "signatures is a single Signature. Pass a list: [signature], or several to compare."
        )
    if not isinstance(signatures, Sequence):
        raise InputTypeError(
            f"signatures is a {type(signatures).__name__}. Pass a list or tuple of Signature."
        )
    for number, signature in enumerate(signatures):
        if not isinstance(signature, Signature):
            raise InputTypeError(
                f"Item {number} of signatures is a {type(signature).__name__}, not a Signature. "
                "Measure it with sigmascope.signature, or read its file with sigmascope.load."
            )
    if not signatures:
        raise InputError("There are no signatures. Pass at least one.")
    names = _unique([signature.name for signature in signatures])
    return Networks(names, tuple(signatures), tuple(map(_curve, names, signatures)))


def families_of(networks: Networks, families: Mapping[str, str] | None) -> list[str]:
    """Return the family of each network: "all" without `families`, empty where it has none."""
    if families is None:
        return ["all"] * len(networks.names)
    check_mapping("families", families, "{'resnet18': 'ResNets'}")
    found = networks.look_up(families)
    if not any(found):
        names = ", ".join(networks.names)
        raise InputError(f"families names none of the networks: {names}. Use their names as keys.")
    return [family or "" for family in found]


def is_constant(values: Curve) -> bool:
    """Return whether all values are equal up to rounding.

    >>> is_constant(np.array([0.3, 0.1 + 0.2])), is_constant(np.array([0.3, 0.3001]))
    (True, False)
    """
    return bool(np.ptp(values) <= SAME * np.abs(values).max())


def _curve(name: str, signature: Signature) -> Curve:
    scores = signature.scores
    curve: Curve = scores[np.isfinite(scores)]
    if not len(curve):
        raise InputError(
            f"The signature of {name} has no score at all. Leave it out; its sites say why."
        )
    return curve


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names with a number after those that repeat.

    >>> _unique(["a", "b", "a", "a"])
    ('a', 'b', 'a (2)', 'a (3)')
    """
    taken = set(names)
    unique: dict[str, None] = {}
    for name in names:
        number, candidate = 1, name
        while candidate in unique or (number > 1 and candidate in taken):
            number += 1
            candidate = f"{name} ({number})"
        unique[candidate] = None
    return tuple(unique)
