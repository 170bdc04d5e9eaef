"""What `sigmascope demo` measures: an embedded residual network and its plain twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature

PAIR = ("sigmascope/resnet20", "sigmascope/plain20")
INSIDE, AFTER, STEM = "inside a block", "at the end of a block", "before the blocks"


def demo_signatures(*, progress: bool = True) -> list[Signature]:
    """Return the signatures of both embedded networks on the embedded images."""
    signatures = []
    for name in PAIR:
        entry = model(name)
        images = data("embedded", transform=entry.transform)
        signatures.append(signature(entry.network, images, name=name, progress=progress))
    return signatures


def groups_of(signature: Signature) -> list[str]:
    """Return the place of every site: inside a block, at its end, or before the blocks.

    The end of a block follows the addition, in the network that has one.
    """
    places = {"act1": INSIDE, "act2": AFTER}
    return [
        places[site.path.rpartition(".")[2]] if "." in site.path else STEM
        for site in signature.sites
    ]


@dataclass(frozen=True)
class Finding:
    """How the activations at the end of a block differ from those inside it.

    Attributes:
        inside: mean score inside the blocks.
        after: mean score at their ends.
        separation: the share of pairs, one of each, in which the one at the end scores higher; one
            half without a difference, 1 where all do.
    """

    inside: float
    after: float
    separation: float


def finding(signature: Signature) -> Finding:
    """Return the comparison of the two places of a block."""
    groups = np.array(groups_of(signature))
    inside, after = signature.scores[groups == INSIDE], signature.scores[groups == AFTER]
    separation = float((after[:, None] > inside).mean())
    return Finding(float(inside.mean()), float(after.mean()), separation)


def draw_demo(signatures: Sequence[Signature], folder: str | Path) -> list[Path]:
    """Draw signatures over depth beside their densities, and return the files written.

    The figure is written as PNG and SVG, its data as CSV, and the signatures as JSON.
    """
    import sigmascope.figures as figures

    order = (INSIDE, AFTER, STEM)
    table: list[dict[str, Any]] = []
    with figures.styled():
        figure = figures.new_figure(7, 4.3)
        share: dict[str, Any] = {"sharex": "col", "sharey": "col", "squeeze": False}
        rows = figure.subplots(len(signatures), 2, width_ratios=(2, 1), **share)
        for (left, right), one in zip(rows, signatures, strict=True):
            groups = groups_of(one)
            parts = figures.parts_of(one, groups, (INSIDE, AFTER))
            panels = {
                "signature": figures.draw_signature(one, left, groups=groups, order=order),
                "densities": figures.draw_densities(parts, right),
            }
            table += [
                {"panel": f"{one.name}, {name}", **row}
                for name, drawn in panels.items()
                for row in drawn.table
            ]
        figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    target = Path(folder)
    paths = [figures.save(figure, target / f"demo.{kind}", table) for kind in ("png", "svg")]
    paths.append(target / "demo.csv")
    return paths + [one.save(target / f"{one.name.rpartition('/')[2]}.json") for one in signatures]
