"""Table 3: the affinity score of one architecture changes least between trainings.

Each criterion is averaged over the activations and batches of a network; mean and population
standard deviation are taken over 14 trainings of one architecture (see `trainings`). The metrics
are stored as means over batches, so that batches count for the score alone, where they are told
beside.

The paper compares the standard deviations as they are, though the criteria have different units.
Two checks of ours make them comparable: relative to the mean, and relative to how far the criterion
differs between architectures, for to identify an architecture a criterion must vary less between
trainings than between architectures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, SMALL, add_legend, look
from sigmascope.measure.signature import Signature
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.nonlinearity.published import TABLE_3
from sigmascope_papers.nonlinearity.trainings import measure_trainings
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Criteria", "averages"]

TITLES = {
    "score": "affinity score",
    "cka": "CKA",
    "norm": "norm",
    "sparsity": "sparsity",
    "entropy": "entropy",
}
# The std of 14 networks is itself uncertain by a fifth.
CLEAR = 1.25
FEWEST = 3


@dataclass(frozen=True, eq=False)
class Criteria:
    """Averages over activations.

    Attributes:
        names: of the k trainings.
        kinds: the kind of each.
        trained: criterion -> (k,).
        others: criterion -> (m,), of other architectures.
        batches: (k, b), the score batch by batch.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    trained: dict[str, Array]
    others: dict[str, Array]
    batches: Array

    def std(self) -> dict[str, float]:
        """Return the standard deviation of each criterion over the trainings."""
        return {key: float(values.std()) for key, values in self.trained.items()}


def averages(signatures: Sequence[Signature]) -> dict[str, Array]:
    """Return for each criterion its mean over the activations of each network that have it."""
    return {key: np.array([_average(one, key) for one in signatures]) for key in TABLE_3}


def _average(signature: Signature, key: str) -> float:
    values = np.array(
        [
            site.score if key == "score" else site.metrics.get(key, np.nan)
            for site in signature.sites
        ]
    )
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else float("nan")


def measure(setting: Setting) -> Criteria:
    """Average the criteria over the activations of every network."""
    found = measure_trainings(setting)
    batches = np.array(
        [np.mean([site.scores for site in one.sites], axis=0) for one in found.trained]
    )
    names = tuple(one.name for one in found.trained)
    return Criteria(
        names, tuple(found.kinds.values()), averages(found.trained), averages(found.others), batches
    )


def judge(found: Criteria) -> list[Check]:
    """The score has the lowest std, clearly if all others are larger by a quarter, as one of 14 is
    uncertain by a fifth.
    """
    std = found.std()
    mean = {key: float(values.mean()) for key, values in found.trained.items()}
    over = f"{mean['score']:.3f} ± {float(found.batches.std()):.3f} over batches too"
    absolute = ", ".join(f"{TITLES[key]} {mean[key]:.3g} ± {std[key]:.2g}" for key in TABLE_3)
    paper = ", ".join(
        f"{TITLES[key]} {middle:g} ± {spread:g}" for key, (middle, spread) in TABLE_3.items()
    )
    checks = [
        _lowest(
            "the score has the lowest std over trainings", paper, std, f"{absolute}; score {over}"
        ),
        _lowest(
            "ours: the lowest std relative to the mean",
            "lowest",
            {key: std[key] / abs(mean[key]) for key in std},
        ),
    ]
    claim = "ours: the lowest std relative to that between architectures"
    if (count := len(found.others["score"])) < FEWEST:
        return [
            *checks,
            untried(claim, "lowest", f"{count} other architectures; {FEWEST} are needed"),
        ]
    return [
        *checks,
        _lowest(claim, "lowest", {key: std[key] / float(found.others[key].std()) for key in std}),
    ]


def _lowest(claim: str, expected: str, spreads: Mapping[str, float], obtained: str = "") -> Check:
    next_one = min(value for key, value in spreads.items() if key != "score")
    told = obtained or ", ".join(f"{TITLES[key]} {value:.3f}" for key, value in spreads.items())
    score = spreads["score"]
    return relation(claim, expected, told, true=score < next_one, clear=score * CLEAR <= next_one)


@styled()
def draw(found: Criteria) -> dict[str, Drawn]:
    """Draw every network as a point for each criterion, with the mean over all."""
    figure = new_figure(PAGE, 2.6)
    panels = figure.subplots(1, len(TABLE_3))
    kinds = list(dict.fromkeys(found.kinds))
    # Side by side, so that points do not hide each other.
    across = np.linspace(-0.35, 0.35, len(found.names))
    for panel, key in zip(panels, TABLE_3, strict=True):
        values = found.trained[key]
        for number, kind in enumerate(kinds):
            color, marker, _ = look(number)
            own = [place for place, one in enumerate(found.kinds) if one == kind]
            panel.plot(
                across[own],
                values[own],
                marker,
                color=color,
                markersize=4,
                markeredgewidth=0,
                label=kind,
            )
        mean, std = float(values.mean()), float(values.std())
        panel.axhspan(mean - std, mean + std, color="0.5", alpha=0.15, linewidth=0, zorder=0)
        panel.axhline(mean, color="0.25", linewidth=0.8, zorder=1)
        panel.set_title(TITLES[key])
        told = f"{mean:.3g} ± {std:.2g}\npaper {TABLE_3[key][0]:g} ± {TABLE_3[key][1]:g}"
        panel.set_xlabel(told.replace("-", "−"), fontsize=SMALL)
        panel.set(xticks=[], xlim=(-0.5, 0.5))
        panel.margins(y=0.15)
    add_legend(figure, *panels[0].get_legend_handles_labels())
    rows = [
        {
            "network": name,
            "training": kind,
            **{key: float(found.trained[key][place]) for key in TABLE_3},
        }
        for place, (name, kind) in enumerate(zip(found.names, found.kinds, strict=True))
    ]
    return {"": Drawn(figure, tuple(panels), rows)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
