"""What `sigmascope demo` measures: a residual network and its plain twin, embedded with real
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
from sigmascope.compare.density import densities
from sigmascope.measure.signature import Signature
from sigmascope.measure.survey import signature

__all__ = ["Finding", "demo_signatures", "draw_demo", "finding", "groups_of"]

PAIR = ("sigmascope/resnet20", "sigmascope/plain20")
INSIDE, AFTER, STEM = "inside a block", "at the end of a block", "before the blocks"


def demo_signatures(*, progress: bool = True) -> list[Signature]:
    """Measure both embedded networks on the embedded images."""
    found = []
    for name in PAIR:
        entry = model(name)
        found.append(
            signature(
                entry.network,
                data("embedded", transform=entry.transform),
                name=name,
                progress=progress,
            )
        )
    return found


def groups_of(signature: Signature) -> list[str]:
    """Say of every site where in a block it is: the last one follows the addition, in the network
    that has one.
    """
    places = {"act1": INSIDE, "act2": AFTER}
    return [
        places[site.path.rpartition(".")[2]] if "." in site.path else STEM
        for site in signature.sites
    ]


@dataclass(frozen=True)
class Finding:
    """How far the activations at the end of a block lie from those inside it.

    Attributes:
        inside: mean score inside the blocks.
        after: mean score at their ends.
        modes: where the densities of the two are highest.
        separation: the share of pairs, one of each, in which the one at the end scores higher; one
            half where there is no difference, 1 where all do.
    """

    inside: float
    after: float
    modes: tuple[float, float]
    separation: float


def finding(signature: Signature) -> Finding:
    """Compare the two places of a block."""
    groups = np.array(groups_of(signature))
    inside, after = signature.scores[groups == INSIDE], signature.scores[groups == AFTER]
    modes = _mode(signature, groups == INSIDE), _mode(signature, groups == AFTER)
    return Finding(
        float(inside.mean()), float(after.mean()), modes, float((after[:, None] > inside).mean())
    )


def _mode(signature: Signature, chosen: np.ndarray[Any, Any]) -> float:
    """Return where the density of the scores of some sites is highest."""
    part = replace(
        signature,
        sites=tuple(site for site, taken in zip(signature.sites, chosen, strict=True) if taken),
    )
    curve = densities([part]).curves[0]
    return float(curve.grid[curve.values.argmax()])


def draw_demo(signatures: Sequence[Signature], folder: str | Path) -> list[Path]:
    """Draw signatures over depth and densities side by side.

    Writes the figure as PNG and SVG, its data as CSV, and the signatures as JSON.
    """
    from sigmascope.figures import (
        draw_densities,
        draw_signature,
        new_figure,
        parts_of,
        save,
        styled,
    )

    order = (INSIDE, AFTER, STEM)
    table: list[dict[str, Any]] = []
    with styled():
        figure = new_figure(7, 4.3)
        rows = figure.subplots(
            len(signatures), 2, sharex="col", sharey="col", width_ratios=(2, 1), squeeze=False
        )
        for (left, right), one in zip(rows, signatures, strict=True):
            groups = groups_of(one)
            panels = {
                "signature": draw_signature(one, left, groups=groups, order=order),
                "densities": draw_densities(parts_of(one, groups, (INSIDE, AFTER)), right),
            }
            table += [
                {"panel": f"{one.name}, {name}", **row}
                for name, drawn in panels.items()
                for row in drawn.table
            ]
        figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    paths = [save(figure, Path(folder) / f"demo.{ending}", table) for ending in ("png", "svg")]
    paths.append(paths[0].with_suffix(".csv"))
    return paths + [
        one.save(Path(folder) / f"{one.name.rpartition('/')[2]}.json") for one in signatures
    ]
