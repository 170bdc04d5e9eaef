"""Beyond the paper: which claims survive the right axes and a capture without side effects?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.stats import skew
from torch import Tensor, nn

from sigmascope.catalog import data, model
from sigmascope.compare.distances import Distances, distances
from sigmascope.compare.statistics import statistics
from sigmascope.figures import Drawn, draw_curves, draw_distances, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import add_legend, add_panel_legend, look
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope_papers.cast import Cast
from sigmascope_papers.figures.years import draw_years
from sigmascope_papers.item import Check, Finding, Item, conclude
from sigmascope_papers.nonlinearity.fig5a import EARLY, corner_of
from sigmascope_papers.nonlinearity.lineup import Lineup, known, level
from sigmascope_papers.setting import BATCH, DATA, EPS, IMAGES, PUBLISHED as POOL, Setting

CLEAN, AXES, PUBLISHED = PROCEDURES = ("corrected", "published axes", "published axes and capture")
CHANNELS_LAST, OVERWRITING = ("ViTs", "Swins", "ConvNeXts"), "EffNets"
LATER = ("Inceptions", "ResNets", "DenseNets", "EffNets")
BEFORE = (*EARLY, "Inceptions", "ResNets", "DenseNets", "MNASNets")
COUNTS, SKEWED = 0.01, 0.3
TOLD = {(True, True): "survives", (False, True): "is lost", (True, False): "appears"}
# Activations that may overwrite their input, and act differently on what they have acted on.
SMOOTH = (nn.SiLU, nn.Hardswish, nn.Mish, nn.ELU, nn.CELU, nn.SELU)
NOT_IDEMPOTENT = (*SMOOTH, nn.LeakyReLU, nn.RReLU, nn.Hardsigmoid)
ENDING = ".once"
NOTE = "activations that overwrite their input act twice, as under the published capture; "
NOTE += "first calls only"


class Twice(nn.Module):
    """An activation that is applied to its own output.

    The published hook runs before an activation and calls it. If the activation overwrites its
    input, the network then continues with what is already activated; this is harmless for ReLU,
    but not for SiLU.
    """

    def __init__(self, once: nn.Module) -> None:
        super().__init__()
        self.once = once

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the activation of `x`."""
        out: Tensor = self.once(self.once(x))
        return out


def acting_twice(network: nn.Module) -> nn.Module:
    """Return a copy in which what overwrites its input, and is not idempotent, acts twice."""
    changed = copy.deepcopy(network)
    for parent in list(changed.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, NOT_IDEMPOTENT) and getattr(child, "inplace", False):
                setattr(parent, name, Twice(child))
    return changed


def first_calls(found: Signature) -> Signature:
    """Return a signature of `acting_twice` without the second calls, by the network's own paths."""
    sites = [
        replace(site, path=site.path.removesuffix(ENDING), call=site.call // 2)
        if site.path.endswith(ENDING)
        else site
        for site in found.sites
        if not (site.path.endswith(ENDING) and site.call % 2)
    ]
    seen, notes = len(sites) + len(found.coverage.skipped), (*found.coverage.notes, NOTE)
    scored = sum(bool(np.isfinite(site.score)) for site in sites)
    coverage = replace(found.coverage, seen=seen, scored=scored, notes=notes)
    coverage = replace(coverage, failed=len(sites) - scored)
    return replace(found, sites=tuple(sites), coverage=coverage)


@dataclass(frozen=True, eq=False)
class Axes:
    """The signatures of a cast by each procedure: procedure -> network -> signature."""

    cast: Cast
    signatures: dict[str, dict[str, Signature]]

    def lineup(self, procedure: str) -> Lineup:
        """Return the signatures of one procedure."""
        return Lineup(self.cast, self.signatures[procedure])

    def leads(self, procedure: str) -> Distances:
        """Return the distances of the representatives, per step of the path."""
        return distances(self.lineup(procedure).leads(), normalize="path")


def measure(setting: Setting) -> Axes:
    """Read or measure the cast, and what is concerned once more by the published procedures."""
    cast = setting.cast
    clean = {run.signature.name: run.signature for run in setting.runs(cast.names())}
    again = setting.runs(cast.names(*CHANNELS_LAST), pool=POOL, metrics=())
    axes = clean | {run.signature.name: run.signature for run in again}
    # The directory is named after all that the signatures depend on.
    manner = f" images {setting.limit or 'all'} weights {setting.weights}" * (not setting.ours)
    kind = f"{setting.data or DATA}{manner} published capture"
    captured = {
        name: setting.signature(name, kind, partial(_published, name, setting))
        for name in cast.names(OVERWRITING)
    }
    return Axes(cast, {CLEAN: clean, AXES: axes, PUBLISHED: axes | captured})


def _published(name: str, setting: Setting) -> Signature:
    entry = model(name, weights=None if setting.weights == "none" else "default")
    limit = IMAGES if setting.ours else setting.limit
    chosen: Any = {"root": setting.data_root, "batch_size": BATCH, "limit": limit}
    images = data(setting.data or DATA, transform=entry.transform, **chosen)
    network = acting_twice(entry.network).to("cuda" if torch.cuda.is_available() else "cpu")
    return first_calls(
        signature(network, images, pool=POOL, eps=EPS, progress=setting.progress, name=name)
    )


Margin = Callable[[Axes, str], float]


def _survives(found: Axes, margin: Margin) -> Finding:
    counts = SKEWED if margin is _skewed else COUNTS
    margins = {procedure: margin(found, procedure) for procedure in PROCEDURES}
    if not all(np.isfinite(value) for value in margins.values()):
        return "the cast has no networks of the groups that are compared"
    right, published = (margins[procedure] >= counts for procedure in (CLEAN, PUBLISHED))
    told = TOLD.get((right, published), "is nowhere")
    if margins[CLEAN] * margins[PUBLISHED] < 0 and right != published:
        told = "changes sign"
    numbers = ", ".join(f"{procedure} {value:+.3f}" for procedure, value in margins.items())
    return f"{told}: {numbers}", right, published


def _median(found: Axes, procedure: str, *groups: str) -> float:
    own = found.lineup(procedure).of(*groups)
    return level(own, "median") if own else np.nan


def _vits_lowest(found: Axes, procedure: str) -> float:
    groups = [group for group in dict.fromkeys(found.cast.groups().values()) if group != "ViTs"]
    others = [_median(found, procedure, group) for group in groups]
    return min(others, default=np.nan) - _median(found, procedure, "ViTs")


def _vit_apart(found: Axes, procedure: str) -> float:
    """Return how much farther the ViT is from all others, in the mean, than the next network."""
    lead, leads = found.cast.lead("ViTs"), found.cast.leads
    if lead is None or len(leads) < 3:
        return np.nan
    far = found.leads(procedure).matrix.sum(axis=1) / (len(leads) - 1)
    place = leads.index(lead)
    return float(far[place] - np.delete(far, place).max())


def _like_early(found: Axes, procedure: str, group: str) -> float:
    """Return how much nearer a representative is to the early networks than to the later ones."""
    lead, cast = found.cast.lead(group), found.cast
    names = [[cast.lead(one) for one in side] for side in (EARLY, LATER)]
    sides = [[cast.leads.index(name) for name in side if name] for side in names]
    if lead is None or not all(sides):
        return np.nan
    row = found.leads(procedure).matrix[cast.leads.index(lead)]
    early, later = (float(row[side].mean()) for side in sides)
    return later - early


def _returning(found: Axes, procedure: str) -> float:
    """Return how much nearer Swins and ConvNeXts are to the early networks than ViTs, as in 5A."""
    lineup = found.lineup(procedure)
    if lineup.lacks(*EARLY, *CHANNELS_LAST):
        return np.nan
    home = corner_of(lineup, *EARLY)
    vits, *others = (np.linalg.norm(corner_of(lineup, group) - home) for group in CHANNELS_LAST)
    return float(vits - max(others))


def _skewed(found: Axes, procedure: str) -> float:
    """Return minus the mean skewness of the EffNets."""
    curves = [known(one) for one in found.lineup(procedure).of("EffNets")]
    return -float(np.mean([skew(curve) for curve in curves])) if curves else np.nan


def _linear(found: Axes, procedure: str) -> float:
    return _median(found, procedure, "EffNets") - _median(found, procedure, *BEFORE)


LIKE = [partial(_like_early, group=group) for group in ("Swins", "ConvNeXts")]
CLAIMS: tuple[tuple[str, str, Margin], ...] = (
    ("ViTs are the most non-linear", "median lowest by 0.01", _vits_lowest),
    ("ViT is the most unlike all others", "mean DTW largest by 0.01", _vit_apart),
    ("Swin is like the early convnets", "nearer to them by 0.01", LIKE[0]),
    ("ConvNeXt is like the early convnets", "nearer to them by 0.01", LIKE[1]),
    ("Swin and ConvNeXt return to the early range (5A)", "nearer than ViTs by 0.01", _returning),
    ("EffNets are skewed toward linearity", "minus the skewness 0.3 or more", _skewed),
    ("EffNets are more linear than what came before", "median higher by 0.01", _linear),
)
"""Claim, expected, and the margin, positive if the claim is true."""


def judge(found: Axes) -> list[Check]:
    """A claim survives if its margin counts with the corrected and with the published procedure.

    With the corrected one alone it weakly holds; otherwise it does not hold.
    """
    return [conclude(claim, expected, _survives(found, rule)) for claim, expected, rule in CLAIMS]


@styled()
def draw(found: Axes) -> dict[str, Drawn]:
    """Draw Figure 5A by each procedure, the signatures that differ, and Figure 5B."""
    figure, cast = new_figure(7, 6.2), found.cast
    panels = figure.subplots(len(PROCEDURES), 1, sharex=True, sharey=True)
    table = []
    for panel, (procedure, own) in zip(panels, found.signatures.items(), strict=True):
        summary = statistics(list(own.values()))
        drawn = draw_years(summary, cast.years(), panel, families=cast.families())
        panel.set_ylabel(procedure)
        table += [{"procedure": procedure, **row} for row in drawn.table]
    # shared, and set by the first panel until now
    panels[0].set_ylim(min(row["min"] for row in table) - 0.03, 1.03)
    figure.supylabel("affinity score: min, median, max", fontsize=8)
    add_panel_legend(figure, panels[:1])
    parts = {"": finished(panels, table)}
    concerned = cast.names(*CHANNELS_LAST, OVERWRITING)
    if leads := [name for name in cast.leads if name in concerned]:
        parts["signatures"] = _draw_signatures(found, leads)
    for procedure in (CLEAN, PUBLISHED):
        parts[f"distances-{procedure.partition(' ')[0]}"] = draw_distances(found.leads(procedure))
    return parts


def _draw_signatures(found: Axes, names: Sequence[str]) -> Drawn:
    rows, columns = (len(names) + 1) // 2, min(2, len(names))
    figure = new_figure(7, 1.75 * rows + 0.3)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    table, handles = [], {}
    for panel, name in zip(panels, names, strict=False):
        # a procedure is left out where its signature is that of one before
        first = {id(own[name]): one for one, own in reversed(found.signatures.items())}
        different = sorted(first.values(), key=PROCEDURES.index)
        curves = {one: found.signatures[one][name].scores for one in different}
        calls = range(1, 1 + len(curves[CLEAN]))
        drawn = draw_curves(calls, curves, panel, over="activation call, in order")
        # one look for each, in all panels
        for line, procedure in zip(panel.lines, curves, strict=True):
            color, marker, dashes = look(PROCEDURES.index(procedure))
            line.set(color=color, marker=marker, linestyle=dashes, markersize=2.5)
            handles[procedure] = line
        panel.set_title(name.rpartition("/")[2])
        table += [{"network": name, **row} for row in drawn.table]
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    shown = [procedure for procedure in PROCEDURES if procedure in handles]
    add_legend(figure, [handles[procedure] for procedure in shown], shown)
    return finished(panels[: len(names)], table)


ITEM = Item(measure, judge, draw)
