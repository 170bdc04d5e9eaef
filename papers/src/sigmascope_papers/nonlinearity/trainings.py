"""Figures 19 and 20 and Table 3: one architecture under different trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sigmascope.choices import Normalize
from sigmascope.compare.distances import Distances, distances
from sigmascope.figures import Drawn, draw_distances, draw_tree, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.figures.style import PAGE, SMALL, add_legend, look
from sigmascope.measure.result import Signature
from sigmascope_papers import chance
from sigmascope_papers.chance import Array, Labels
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.published import NETWORKS, TABLE_3
from sigmascope_papers.setting import Setting

KINDS: dict[str, str] = NETWORKS["trainings"]
"""Training -> its kind."""
SEEDS = {"resnet20": (0, 1, 2, 3)}
# By the usual words for the adjusted Rand index, 0.8 and more is good agreement.
GOOD, LEVEL = 0.8, 0.05
# The share of pairs: one distance between trainings, one to another architecture.
NEARLY_ALL, MORE_OFTEN = 0.95, 0.75
TITLES = {"score": "affinity score", "cka": "CKA"}
TITLES |= {key: key for key in ("norm", "sparsity", "entropy")}
CLEAR = 1.25  # the std of 14 networks is itself uncertain by a fifth
FEWEST = 3


@dataclass(frozen=True, eq=False)
class Trainings:
    """Signatures of one architecture under different trainings, and of other architectures."""

    trained: tuple[Signature, ...]
    others: tuple[Signature, ...]

    @property
    def trainings(self) -> list[str]:
        """The training of each of `trained`."""
        return [one.name.removeprefix("sigmascope/").partition(":")[0] for one in self.trained]

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of training, by name."""
        rows = zip(self.trained, self.trainings, strict=True)
        return {one.name: KINDS[training] for one, training in rows}

    def distances(self) -> Distances:
        """Return the distances between the trainings."""
        return distances(self.trained)

    def averaged(self) -> tuple[list[str], Array]:
        """Return the trainings, and their distances (t, t) averaged over pairs of seeds."""
        matrix, labels = self.distances().matrix, np.array(self.trainings)
        names = list(dict.fromkeys(self.trainings))
        off = ~np.eye(len(labels), dtype=bool)
        pairs = [[off & np.outer(labels == a, labels == b) for b in names] for a in names]
        return names, np.array([[float(matrix[pair].mean()) for pair in row] for row in pairs])

    def cut(self, count: int) -> Labels:
        """Return the groups of the tree of all networks, cut into so many."""
        return np.array(self.distances().cluster().groups(count), dtype=np.int64)


def measure(setting: Setting) -> Trainings:
    """Read or measure the signatures."""
    names = [f"{training}:{seed}" for training in KINDS for seed in SEEDS.get(training, (0, 1))]
    groups = setting.cast.groups()
    others = [name for name in setting.cast.leads if groups[name] != "ResNets"]
    both = setting.runs(names), setting.runs(others)
    return Trainings(*(tuple(run.signature for run in runs) for runs in both))


def groupings(labels: Labels) -> list[Labels]:
    """Return all ways to group things into groups of these sizes, the given one first."""
    orders = (labels[order] for order in chance.shuffles(len(labels)))
    ways = dict.fromkeys(tuple(chance.numbered(list(map(str, order))).tolist()) for order in orders)
    return [np.array(way, dtype=np.int64) for way in ways]


def _as_good(values: Array) -> int:
    """Return how many values are as large as the first one."""
    return int((values >= values[0] - chance.SAME).sum())


def _kinds(found: Trainings) -> Finding:
    names, matrix = found.averaged()
    labels = chance.numbered([KINDS[name] for name in names])
    gaps = np.array([chance.group_gap(matrix, way) for way in groupings(labels)])
    tight, count, same = _as_good(gaps), len(gaps), labels[:, None] == labels
    within = matrix[same & ~np.eye(len(names), dtype=bool)].mean()
    between = matrix[~same].mean()
    obtained = f"{tight} of {count} as tight; {within:.3f} within kinds, {between:.3f} between"
    return obtained, within < between, tight == 1


def _cut_into_kinds(found: Trainings) -> Finding:
    trainings = chance.numbered(found.trainings)
    labels = chance.numbered([KINDS[name] for name in dict.fromkeys(found.trainings)])
    cut, ways = found.cut(int(labels.max()) + 1), groupings(labels)
    agreements = np.array([chance.adjusted_rand(way[trainings], cut) for way in ways])
    good, own, typical = _as_good(agreements), agreements[0], float(np.median(agreements))
    obtained = f"{own:.2f}; {good} of {len(ways)} as good, median {typical:.2f}"
    return obtained, own > typical + chance.SAME, own >= GOOD and good == 1


def _cut_into_trainings(found: Trainings) -> Finding:
    labels = chance.numbered(found.trainings)
    cut = found.cut(int(labels.max()) + 1)
    own = chance.adjusted_rand(labels, cut)
    p = chance.p_value(lambda shuffled: chance.adjusted_rand(shuffled, cut), labels)
    return f"{own:.2f}, p = {p:.4f}", own > 0 and p < LEVEL, own >= GOOD


def _nearer(found: Trainings, words: str, normalize: Normalize | None) -> Finding:
    if not found.others:
        return "there is no network of another group"
    count = len(found.trained)
    matrix = distances([*found.trained, *found.others], normalize=normalize).matrix
    own, other = matrix[:count, :count][np.triu_indices(count, 1)], matrix[:count, count:].ravel()
    share = float((own[:, None] < other).mean())
    obtained = f"{share:.1%}; medians {np.median(own):.3f} and {np.median(other):.3f}, "
    obtained += f"largest own {own.max():.3f}"
    return obtained, share >= MORE_OFTEN, share >= NEARLY_ALL


def _neighbors(found: Trainings) -> Finding:
    matrix, labels = found.distances().matrix, chance.numbered(found.trainings)
    share = chance.neighbor_share(matrix, labels)
    p = chance.p_value(lambda shuffled: chance.neighbor_share(matrix, shuffled), labels)
    return f"{share:.0%}, p = {p:.4f}", p < LEVEL, share > 0.5


def draw_trainings(found: Trainings) -> dict[str, Drawn]:
    """Draw the tree, with the kind of each network."""
    return {"": draw_tree(found.distances().cluster(), families=found.kinds)}


def draw_architectures(found: Trainings) -> dict[str, Drawn]:
    """Draw the distances between the trainings, and with the other architectures."""
    parts = {"": found.trained} | ({"others": found.trained + found.others} if found.others else {})
    return {part: draw_distances(distances(some)) for part, some in parts.items()}


@dataclass(frozen=True, eq=False)
class Criteria:
    """Averages over the activations of k trainings, and of m other architectures."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    trained: dict[str, Array]  # criterion -> (k,)
    others: dict[str, Array]  # criterion -> (m,)
    batches: Array  # (k, b), the score batch by batch

    def moments(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return mean and standard deviation of each criterion over the trainings."""
        rows = self.trained.items()
        means, stds = ({key: float(of(row)) for key, row in rows} for of in (np.mean, np.std))
        return means, stds


def averages(signatures: Sequence[Signature]) -> dict[str, Array]:
    """Return for each criterion its mean over the activations of each network that have it."""
    return {key: np.array([_average(one, key) for one in signatures]) for key in TABLE_3}


def _average(signature: Signature, key: str) -> float:
    sites = signature.sites
    row = [one.score if key == "score" else one.metrics.get(key, np.nan) for one in sites]
    known = [value for value in row if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")


def measure_criteria(setting: Setting) -> Criteria:
    """Average the criteria over the activations of every network."""
    found = measure(setting)
    names, kinds = tuple(found.kinds), tuple(found.kinds.values())
    batches = [np.mean([site.scores for site in one.sites], axis=0) for one in found.trained]
    return Criteria(
        names, kinds, averages(found.trained), averages(found.others), np.array(batches)
    )


def _lowest(spreads: Mapping[str, float], told: str = "") -> Finding:
    others = min(value for key, value in spreads.items() if key != "score")
    listed = ", ".join(f"{TITLES[key]} {value:.3f}" for key, value in spreads.items())
    return told or listed, spreads["score"] < others, spreads["score"] * CLEAR <= others


def _lowest_std(found: Criteria) -> Finding:
    mean, std = found.moments()
    told = ", ".join(f"{TITLES[key]} {mean[key]:.3g} ± {std[key]:.2g}" for key in TABLE_3)
    told += f"; score {mean['score']:.3f} ± {float(found.batches.std()):.3f} over batches too"
    return _lowest(std, told)


def _lowest_relative(found: Criteria) -> Finding:
    mean, std = found.moments()
    return _lowest({key: std[key] / abs(mean[key]) for key in std})


def _lowest_beside_others(found: Criteria) -> Finding:
    if (count := len(found.others["score"])) < FEWEST:
        return f"{count} other architectures; {FEWEST} are needed"
    _, std = found.moments()
    return _lowest({key: std[key] / float(found.others[key].std()) for key in std})


@styled()
def draw_criteria(found: Criteria) -> dict[str, Drawn]:
    """Draw every network as a point for each criterion, with the mean over all."""
    figure = new_figure(PAGE, 2.6)
    panels = figure.subplots(1, len(TABLE_3))
    # Side by side, so that points do not hide each other.
    across = np.linspace(-0.35, 0.35, len(found.names))
    for panel, (key, (paper_mean, paper_std)) in zip(panels, TABLE_3.items(), strict=True):
        values = found.trained[key]
        for number, kind in enumerate(dict.fromkeys(found.kinds)):
            color, marker, _ = look(number)
            own = [place for place, one in enumerate(found.kinds) if one == kind]
            points = {"color": color, "markersize": 4, "markeredgewidth": 0, "label": kind}
            panel.plot(across[own], values[own], marker, **points)
        mean, std = float(values.mean()), float(values.std())
        panel.axhspan(mean - std, mean + std, color="0.5", alpha=0.15, linewidth=0, zorder=0)
        panel.axhline(mean, color="0.25", linewidth=0.8, zorder=1)
        panel.set_title(TITLES[key])
        told = f"{mean:.3g} ± {std:.2g}\npaper {paper_mean:g} ± {paper_std:g}"
        panel.set_xlabel(told.replace("-", "−"), fontsize=SMALL)
        panel.set(xticks=[], xlim=(-0.5, 0.5))
        panel.margins(y=0.15)
    add_legend(figure, *panels[0].get_legend_handles_labels())
    columns: dict[str, Sequence[Any]] = {"network": found.names, "training": found.kinds}
    columns |= {key: found.trained[key].tolist() for key in TABLE_3}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"": finished(panels, rows)}


SMALL_DISTANCES = "distances between trainings are small against those to other architectures"
NEARER = (
    partial(_nearer, words=SMALL_DISTANCES, normalize=None),
    partial(_nearer, words="the same, per step of the path", normalize="path"),
)
BY_KIND = (_kinds, _cut_into_kinds, _cut_into_trainings)
LOWEST = (_lowest_std, _lowest_relative, _lowest_beside_others)
PAPER = ", ".join(f"{TITLES[key]} {m:g} ± {s:g}" for key, (m, s) in TABLE_3.items())
ITEMS = {
    "fig19": item_of("fig19", measure, draw_trainings, *BY_KIND),
    "fig20": item_of("fig20", measure, draw_architectures, *NEARER, _neighbors),
    "table3": item_of("table3", measure_criteria, draw_criteria, *LOWEST),
}
