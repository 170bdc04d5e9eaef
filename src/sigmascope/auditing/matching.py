"""Which operators each site explains, and what is left on either side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sigmascope.auditing.operators import OPERATORS, SOFTMAX, Operator
from sigmascope.auditing.result import Finding

# Kinds that are one operator; all others are composed and may contain any.
SINGLE = {kind for kinds in (OPERATORS | SOFTMAX).values() for kind in kinds}
# Operator -> kinds that may be composed of it and of arithmetic that was not noted.
PART_OF = {
    "hardtanh": ("hardsigmoid", "hardswish"),
    "sigmoid": ("logsigmoid", "silu"),
    "softplus": ("logsigmoid", "mish"),
    "tanh": ("gelu", "mish"),
}


@dataclass
class SeenSite:
    """A site as an observer met it.

    Attributes:
        name, path, kind: of the site.
        start, stop: the operators that were noted before its input and before its output came.
        channels: axis and number of the channels of its input, where a layer returned it.
    """

    name: str
    path: str
    kind: str
    start: int
    stop: int
    channels: tuple[int, int] | None = None


def unmatched(
    sites: Sequence[SeenSite], operators: Sequence[Operator]
) -> tuple[list[Operator], list[Finding]]:
    """Return the activation operators that no site explains, and the sites without an operator.

    An operator belongs to the site during which it was computed. A site that computed nothing
    itself was recognized afterwards, as a formula is: to it belong the operators of its module that
    were computed since the site before it.
    """
    owner: dict[int, int] = {}
    for number, site in enumerate(sites):
        owner |= dict.fromkeys(range(site.start, site.stop), number)
    false = []
    for number, site in enumerate(sites):
        own = [one for one in operators[site.start : site.stop] if owner[one.step] == number]
        if not own:
            own = _before(site, operators, owner)
            owner |= dict.fromkeys((one.step for one in own), number)
        reason = _mismatch(site, own)
        if reason:
            false.append(Finding("false", site.name, reason))
    return [one for one in operators if one.activation and one.step not in owner], false


def _before(site: SeenSite, operators: Sequence[Operator], owner: dict[int, int]) -> list[Operator]:
    """Return the operators of a site's module just before it that belong to no other site."""
    found: list[Operator] = []
    for one in reversed(operators[: site.start]):
        if one.step in owner:
            break
        if one.path == site.path or one.path.startswith(f"{site.path}." * bool(site.path)):
            found.append(one)
    return found


def _mismatch(site: SeenSite, own: Sequence[Operator]) -> str:
    """Return why a site does not agree with the operators that belong to it; empty if it does."""
    if not own:
        return f"a site of kind {site.kind} where no such operator was computed"
    activations = [one.name for one in own if one.activation]
    if site.kind in SINGLE and len(own) == len(activations) == 1:
        kinds = (OPERATORS | SOFTMAX)[activations[0]] + PART_OF.get(activations[0], ())
        if site.kind not in kinds:
            return f"named {site.kind}, but {activations[0]} was computed"
    return ""
