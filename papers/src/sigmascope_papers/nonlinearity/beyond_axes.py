"""Beyond the paper: which of its claims survive the right axes and a capture that leaves the
network alone?

The published code averages the last two axes of a tensor with four, and the last of one with three.
For ViT, Swin and ConvNeXt, whose channels come last, this averages channels and keeps tokens or
rows. Its hook also calls an activation itself before the network does; where the activation
overwrites its input and is not idempotent, as the SiLU of EfficientNet, the network goes on with an
activation that has acted twice. And it counts ReLU6 twice, being a Hardtanh too; no network of the
paper has one, and in our MobileNetV2, where it does not overwrite its input, that doubles every
entry and leaves the median as it is.

Three procedures, on the same images: channels kept and a clean capture; the published axes and a
clean capture; and the published axes and capture. The last is emulated: in a copy of the network
each such activation acts twice, and its first call is scored, which is what the hook sees. Networks
with channels first and other activations are the same in all three. Ledoit–Wolf covariance
throughout. The published capture also misses functional calls, as those of GoogLeNet; they are
kept.

Each claim becomes a margin that is positive where the claim is true: of medians, of DTW distances
per step of the path, or of the skewness. A margin counts from 0.01 on, which is what the size of
the batches alone does to the authors' own numbers; for the skewness from 0.3 on, its standard
deviation for some sixty normal numbers. A claim survives where it counts with the corrected
procedure as well as with the published one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.stats import skew

from sigmascope.catalog import data, model
from sigmascope.compare.distances import Distances, distances
from sigmascope.compare.statistics import statistics
from sigmascope.figures import Drawn, draw_curves, draw_distances, new_figure, styled
from sigmascope.figures.style import add_legend, add_panel_legend, look
from sigmascope.measure.signature import Signature
from sigmascope.measure.survey import signature
from sigmascope_papers.cast import Cast
from sigmascope_papers.figures.years import draw_years
from sigmascope_papers.item import DIRECTION, FAILS, HOLDS, Check, Item, untried
from sigmascope_papers.nonlinearity.fig5a import corner_of
from sigmascope_papers.nonlinearity.lineup import Lineup
from sigmascope_papers.nonlinearity.published_capture import acting_twice, first_calls
from sigmascope_papers.setting import BATCH, DATA, IMAGES, Setting

__all__ = ["ITEM", "PROCEDURES", "Axes"]

CLEAN, AXES, PUBLISHED = PROCEDURES = ("corrected", "published axes", "published axes and capture")
CHANNELS_LAST, OVERWRITING = ("ViTs", "Swins", "ConvNeXts"), ("EffNets",)
EARLY, LATER = ("AlexNets", "VGGs"), ("Inceptions", "ResNets", "DenseNets", "EffNets")
BEFORE = ("AlexNets", "VGGs", "Inceptions", "ResNets", "DenseNets", "MNASNets")
COUNTS, SKEWED = 0.01, 0.3


@dataclass(frozen=True, eq=False)
class Axes:
    """The signatures of a cast by each procedure.

    Attributes:
        cast: the networks.
        signatures: procedure -> name of a network -> its signature.
    """

    cast: Cast
    signatures: dict[str, dict[str, Signature]]

    def median(self, procedure: str, *groups: str) -> float:
        """Return the median over some groups of the networks' medians; NaN where there is no such network."""
        own = [
            self.signatures[procedure][name].summary()["median"]
            for name in self.cast.names(*groups)
        ]
        return float(np.median(own)) if own else np.nan

    def leads(self, procedure: str) -> Distances:
        """Return the distances of the networks that lead their groups, per step of the path."""
        return distances(
            [self.signatures[procedure][name] for name in self.cast.leads], normalize="path"
        )


def measure(setting: Setting) -> Axes:
    """Read or measure the networks of the cast, and those that are concerned once more by the
    published procedures.
    """
    cast = setting.cast
    clean = {run.signature.name: run.signature for run in setting.runs(cast.names())}
    released = setting.runs(
        cast.names(*CHANNELS_LAST) if _has(cast, CHANNELS_LAST) else [], pool="released", metrics=()
    )
    axes = clean | {run.signature.name: run.signature for run in released}
    names = cast.names(*OVERWRITING) if _has(cast, OVERWRITING) else []
    captured = {
        name: setting.signature(name, _kind(setting), partial(_published, name, setting))
        for name in names
    }
    return Axes(cast, {CLEAN: clean, AXES: axes, PUBLISHED: axes | captured})


def _has(cast: Cast, groups: Sequence[str]) -> bool:
    return any(group in groups for group in cast.groups().values())


def _kind(setting: Setting) -> str:
    """Name the folder after all that the signatures depend on."""
    manner = "" if setting.ours else f" images {setting.limit or 'all'} weights {setting.weights}"
    return f"{setting.data or DATA}{manner} published capture"


def _published(name: str, setting: Setting) -> Signature:
    entry = model(name, weights=None if setting.weights == "none" else "default")
    images = data(
        setting.data or DATA,
        root=setting.data_root,
        batch_size=BATCH,
        limit=IMAGES if setting.ours else setting.limit,
        transform=entry.transform,
    )
    network = acting_twice(entry.network).to("cuda" if torch.cuda.is_available() else "cpu")
    return first_calls(
        signature(network, images, pool="published", progress=setting.progress, name=name)
    )


def judge(found: Axes) -> list[Check]:
    """A claim survives (holds) where its margin counts with the corrected and with the published
    procedure.

    With the corrected one alone it holds in direction; otherwise it does not hold.
    """
    return [_check(found, *row) for row in CLAIMS]


def _check(
    found: Axes, claim: str, expected: str, counts: float, margin: Callable[[Axes, str], float]
) -> Check:
    margins = {procedure: margin(found, procedure) for procedure in PROCEDURES}
    if not all(np.isfinite(value) for value in margins.values()):
        return untried(claim, expected, "the cast has no networks of the groups that are compared")
    right, published = (margins[procedure] >= counts for procedure in (CLEAN, PUBLISHED))
    outcome = {
        (True, True): "survives",
        (False, True): "is lost",
        (True, False): "appears",
        (False, False): "is nowhere",
    }
    verdict = (HOLDS if published else DIRECTION) if right else FAILS
    told = (
        "changes sign"
        if margins[CLEAN] * margins[PUBLISHED] < 0 and right != published
        else outcome[right, published]
    )
    numbers = ", ".join(f"{procedure} {value:+.3f}" for procedure, value in margins.items())
    return Check(claim, expected, f"{told}: {numbers}", verdict)


def _vits_lowest(found: Axes, procedure: str) -> float:
    groups = dict.fromkeys(found.cast.groups().values())
    others = [found.median(procedure, group) for group in groups if group != "ViTs"]
    return min(others, default=np.nan) - (
        found.median(procedure, "ViTs") if "ViTs" in groups else np.nan
    )


def _vit_apart(found: Axes, procedure: str) -> float:
    """Return how much farther the ViT is from all others, in the mean, than the next network."""
    lead = found.cast.lead("ViTs")
    if lead is None or len(found.cast.leads) < 3:
        return np.nan
    far = found.leads(procedure).matrix.sum(axis=1) / (len(found.cast.leads) - 1)
    place = found.cast.leads.index(lead)
    return float(far[place] - np.delete(far, place).max())


def _like_early(group: str) -> Callable[[Axes, str], float]:
    def margin(found: Axes, procedure: str) -> float:
        """Return how much nearer a group's lead is to the early networks than to the later ones."""
        lead, cast = found.cast.lead(group), found.cast
        sides = [
            [cast.leads.index(name) for one in side if (name := cast.lead(one))]
            for side in (EARLY, LATER)
        ]
        if lead is None or not all(sides):
            return np.nan
        row = found.leads(procedure).matrix[cast.leads.index(lead)]
        early, later = (float(row[side].mean()) for side in sides)
        return later - early

    return margin


def _returning(found: Axes, procedure: str) -> float:
    """Return how much nearer Swins and ConvNeXts are to the early networks than ViTs, by the rule
    of Figure 5A.
    """
    lineup = Lineup(found.cast, found.signatures[procedure])
    if lineup.lacks(*EARLY, *CHANNELS_LAST):
        return np.nan
    home = corner_of(lineup, *EARLY)
    apart = {
        group: float(np.linalg.norm(corner_of(lineup, group) - home)) for group in CHANNELS_LAST
    }
    return apart["ViTs"] - max(apart["Swins"], apart["ConvNeXts"])


def _skewed(found: Axes, procedure: str) -> float:
    """Return minus the mean skewness of the EffNets."""
    if not _has(found.cast, ("EffNets",)):
        return np.nan
    curves = [found.signatures[procedure][name].scores for name in found.cast.names("EffNets")]
    return -float(np.mean([skew(curve[np.isfinite(curve)]) for curve in curves]))


def _linear(found: Axes, procedure: str) -> float:
    if not _has(found.cast, ("EffNets",)) or not _has(found.cast, BEFORE):
        return np.nan
    return found.median(procedure, "EffNets") - found.median(procedure, *BEFORE)


CLAIMS: tuple[tuple[str, str, float, Callable[[Axes, str], float]], ...] = (
    ("ViTs are the most non-linear", f"median lowest by {COUNTS:g}", COUNTS, _vits_lowest),
    ("ViT is the most unlike all others", f"mean DTW largest by {COUNTS:g}", COUNTS, _vit_apart),
    (
        "Swin is like the early convnets",
        f"nearer to them by {COUNTS:g}",
        COUNTS,
        _like_early("Swins"),
    ),
    (
        "ConvNeXt is like the early convnets",
        f"nearer to them by {COUNTS:g}",
        COUNTS,
        _like_early("ConvNeXts"),
    ),
    (
        "Swin and ConvNeXt return to the early range (5A)",
        f"nearer than ViTs by {COUNTS:g}",
        COUNTS,
        _returning,
    ),
    (
        "EffNets are skewed toward linearity",
        f"minus the skewness {SKEWED:g} or more",
        SKEWED,
        _skewed,
    ),
    (
        "EffNets are more linear than what came before",
        f"median higher by {COUNTS:g}",
        COUNTS,
        _linear,
    ),
)
"""Claim, what is expected, from where on the margin counts, and the margin, a function of the
signatures and a procedure.
"""


@styled()
def draw(found: Axes) -> dict[str, Drawn]:
    """Draw Figure 5A by each procedure, the signatures that differ, and Figure 5B by the first and
    the last procedure.
    """
    figure = new_figure(7, 6.2)
    panels = figure.subplots(len(PROCEDURES), 1, sharex=True, sharey=True)
    table = []
    for panel, (procedure, own) in zip(panels, found.signatures.items(), strict=True):
        drawn = draw_years(
            statistics(list(own.values())),
            found.cast.years(),
            panel,
            families=found.cast.families(),
        )
        panel.set_ylabel(procedure)
        table += [{"procedure": procedure, **row} for row in drawn.table]
    # shared, and set by the first panel until now
    panels[0].set_ylim(min(row["min"] for row in table) - 0.03, 1.03)
    figure.supylabel("affinity score: min, median, max", fontsize=8)
    add_panel_legend(figure, panels[:1])
    parts = {"": Drawn(figure, tuple(panels), table)}
    if concerned := [
        name
        for name in found.cast.leads
        if found.cast.groups()[name] in (*CHANNELS_LAST, *OVERWRITING)
    ]:
        parts["signatures"] = _draw_signatures(found, concerned)
    for procedure in (CLEAN, PUBLISHED):
        parts[f"distances-{procedure.partition(' ')[0]}"] = draw_distances(found.leads(procedure))
    return parts


def _draw_signatures(found: Axes, names: Sequence[str]) -> Drawn:
    figure = new_figure(7, 1.75 * ((len(names) + 1) // 2) + 0.3)
    panels = figure.subplots(
        (len(names) + 1) // 2, min(2, len(names)), sharey=True, squeeze=False
    ).ravel()
    table, handles = [], {}
    for panel, name in zip(panels, names, strict=False):
        curves = dict(_different(found, name))
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
    return Drawn(figure, tuple(panels[: len(names)]), table)


def _different(found: Axes, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the signatures of a network that are not those of the procedure before."""
    before: Signature | None = None
    for procedure, own in found.signatures.items():
        if own[name] is not before:
            yield procedure, own[name].scores
        before = own[name]


ITEM = Item(measure=measure, judge=judge, draw=draw)
