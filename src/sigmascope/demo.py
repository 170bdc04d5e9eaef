"""What `sigmascope demo` measures: a residual network and its plain twin, embedded with real images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
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
        found.append(signature(entry.network, data("embedded", transform=entry.transform), name=name, progress=progress))
    return found


def groups_of(signature: Signature) -> list[str]:
    """Say of every site where in a block it is: the last one follows the addition, in the network that has one."""
    places = {"act1": INSIDE, "act2": AFTER}
    return [places[site.path.rpartition(".")[2]] if "." in site.path else STEM for site in signature.sites]


@dataclass(frozen=True)
class Finding:
    """How far the activations at the end of a block lie from those inside it.

    Attributes:
        inside: mean score inside the blocks.
        after: mean score at their ends.
        separation: the share of pairs, one of each, in which the one at the end scores higher; one half where there is no
            difference, 1 where all do.
    """

    inside: float
    after: float
    separation: float


def finding(signature: Signature) -> Finding:
    """Compare the two places of a block."""
    groups = np.array(groups_of(signature))
    inside, after = signature.scores[groups == INSIDE], signature.scores[groups == AFTER]
    return Finding(float(inside.mean()), float(after.mean()), float((after[:, None] > inside).mean()))


def draw_demo(signatures: Sequence[Signature], folder: str | Path) -> list[Path]:
    """Draw signatures over depth and densities side by side; write the figure as PNG and SVG, the signatures as JSON."""
    from sigmascope.figures.signature import draw_density, draw_signature
    from sigmascope.figures.style import new_figure, save, styled

    with styled():
        figure = new_figure(9, 5.5)
        rows = figure.subplots(len(signatures), 2, sharex="col", sharey="col", width_ratios=(2, 1), squeeze=False)
        for (left, right), one in zip(rows, signatures, strict=True):
            groups = np.array(groups_of(one))
            draw_signature(left, one, list(groups), (INSIDE, AFTER, STEM))
            draw_density(right, {name: one.scores[groups == name] for name in (INSIDE, AFTER)})
        figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        paths = [save(figure, Path(folder) / f"demo.{ending}") for ending in ("png", "svg")]
    return paths + [one.save(Path(folder) / f"{one.name.rpartition('/')[2]}.json") for one in signatures]
