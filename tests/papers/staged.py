"""A setting with made-up networks, for items that take theirs from a cast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.runs import Facts, Run
from sigmascope_papers.cast import ZOO, Cast
from sigmascope_papers.item import Check
from tests.compare.made import made


def staged(
    name: str,
    scores: Sequence[float] | np.ndarray,
    *,
    accuracy: float | None = 90.0,
    size: float = 1.0,
    metrics: dict[str, Any] | None = None,
) -> Run:
    """A network with facts; depth, parameters and FLOPs grow with `size`."""
    facts = Facts(
        name, accuracy, int(1000 * size), int(10**6 * size), max(1, int(100 * size)), "made"
    )
    return Run(made(name, scores, metrics, parameters=int(1000 * size)), Path(name), facts)


@dataclass
class Stage:
    """What items ask of a `Setting`."""

    make: Callable[..., Run]
    cast: Cast = ZOO
    weights: str = "zoo"
    networks: tuple[str, ...] = ()
    asked: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)

    @property
    def ours(self) -> bool:
        return self.weights == "zoo"

    def runs(self, names: Sequence[str], **options: Any) -> list[Run]:
        wanted = [name if "/" in name else f"sigmascope/{name}" for name in names]
        self.asked.append((tuple(wanted), options))
        return [self.make(name, **options) for name in wanted]


def verdicts(checks: Sequence[Check]) -> dict[str, str]:
    found = {check.claim: check.verdict for check in checks}
    assert len(found) == len(checks)  # no two claims of one name
    return found
