"""Signatures to compare, checked once: unique names, one estimator, and scores without gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast, get_args

import numpy as np

from sigmascope.checks import check_choice, check_mapping
from sigmascope.choices import ScoreKind
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.warping import Curve
from sigmascope.measure.result import Signature

T = TypeVar("T")

# What a score is called on axes and in messages.
SCORE_NAMES: dict[ScoreKind, str] = {
    "published": "affinity score",
    "population": "population score",
}
# Relative to the largest: a smaller difference may come from the order of a sum.
SAME = 1e-9


@dataclass(frozen=True)
class Networks:
    """Signatures with unique names.

    Attributes:
        names: the names of the signatures; a second `resnet18` is called `resnet18 (2)`.
        signatures: as given.
        curves: the scores of each, in order of execution, without the sites that have none.
        by: whose scores these are, "published" or "population".
    """

    names: tuple[str, ...]
    signatures: tuple[Signature, ...]
    curves: tuple[Curve, ...]
    by: ScoreKind

    def look_up(self, table: Mapping[str, T]) -> list[T | None]:
        """Return the entry of each network, by its unique name or else by its signature's name."""
        return [
            table.get(name, table.get(signature.name))
            for name, signature in zip(self.names, self.signatures, strict=True)
        ]


def checked_networks(signatures: object, by: ScoreKind | None = None) -> Networks:
    """Return the signatures with unique names and their scores by one estimator."""
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
    chosen = estimator_of(signatures, by)
    curves = tuple(_curve(*named, chosen) for named in zip(names, signatures, strict=True))
    return Networks(names, tuple(signatures), curves, chosen)


def estimator_of(signatures: Sequence[Signature], by: ScoreKind | None = None) -> ScoreKind:
    """Return the estimator to compare by: the given one, or else one that all signatures have.

    Raises:
        OptionError: another estimator.
        InputError: some have published scores only, and others population scores only.
    """
    if by is not None:
        for signature in signatures:
            signature.scores_by(by)  # raises where it was not measured
        return cast(ScoreKind, check_choice("by", by, ScoreKind))
    having = [[has_scores(one, name) for name in get_args(ScoreKind)] for one in signatures]
    scored = [pair for pair in having if any(pair)]
    for name, of_all in zip(get_args(ScoreKind), zip(*scored, strict=True), strict=False):
        if all(of_all):
            return cast(ScoreKind, name)
    if not scored:
        return "published"
    lacking = [signatures[having.index(pair)].name for pair in ([True, False], [False, True])]
    raise InputError(
        f"{lacking[0]} has published scores only and {lacking[1]} population scores only, which "
        "differ by a bias. Measure one of them again with estimator='both'."
    )


def has_scores(signature: Signature, by: ScoreKind) -> bool:
    """Return whether any site has a score by this estimator."""
    return bool(np.isfinite(site_scores(signature, by)).any())


def site_scores(signature: Signature, by: ScoreKind) -> Curve:
    """Return the scores of all sites by an estimator; NaN where there is none or does not count."""
    field = "score" if by == "published" else "population"
    scores = [
        getattr(site, field) if signature.counts(site) else np.nan for site in signature.sites
    ]
    return np.array(scores, dtype=np.float64)


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


def _curve(name: str, signature: Signature, by: ScoreKind) -> Curve:
    scores = site_scores(signature, by)
    curve: Curve = scores[np.isfinite(scores)]
    if not len(curve):
        what = "score" if by == "published" else "population score"
        raise InputError(
            f"The signature of {name} has no {what} at all. Leave it out; its sites say why."
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
