"""Figures 13 and 14: stitches of Myrtle CNNs whose α is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, look
from sigmascope.maths.procrustes import Matrix
from sigmascope_papers.item import Check, Finding, Item, conclude, judge_by
from sigmascope_papers.rules import at_most
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.curves import draw_means, rows_of
from sigmascope_papers.symmetry.penalties import GROUP, draw_penalties
from sigmascope_papers.symmetry.plans import ALPHA, MYRTLE
from sigmascope_papers.symmetry.stitches import Stitches, stitches_of
from sigmascope_papers.symmetry.stitching_items import OTHERS, PAPER, below_ranks

LABELS = tuple(ALPHA.tasks)
ALPHAS: tuple[float, ...] = tuple(task.changes["alpha"] for task in ALPHA.tasks.values())
FIXED = "α = 0.1"
"""The value that the paper uses everywhere else."""
CHOSEN = "relu-group, α chosen"
SIMILAR, SPREAD, SPAN = (1.0, 3.0), 0.5, (2.0, 5.0)


@dataclass(frozen=True, eq=False)
class Alphas:
    """Stitches that differ in α; the best one is chosen on held-out data."""

    tried: Stitches

    @property
    def held_out(self) -> Matrix:
        """(a, p, k), the accuracies on held-out data."""
        return np.stack([self.tried.values("chosen_accuracy", label) for label in LABELS])

    @property
    def chosen(self) -> np.ndarray[Any, np.dtype[np.intp]]:
        """(p, k), the number of the α that is best on held-out data; the first of ties."""
        known = np.nan_to_num(self.held_out, nan=-np.inf)
        best: np.ndarray[Any, np.dtype[np.intp]] = known.argmax(axis=0)
        return best

    @property
    def alphas(self) -> Matrix:
        """(p, k), the chosen α; NaN if no stitch has an accuracy."""
        known = np.isfinite(self.held_out).any(axis=0)
        return np.where(known, np.array(ALPHAS)[self.chosen], np.nan)

    @property
    def penalties(self) -> Matrix:
        """(a, p, k), what all stitches cost on the test data."""
        return np.stack([self.tried.penalties(label) for label in LABELS])

    def joined(self, families: Stitches) -> Stitches:
        """Return stitches of the same pairs and sites with the chosen ones under `CHOSEN`."""
        pairs = []
        for one, tried, numbers in zip(families.pairs, self.tried.pairs, self.chosen, strict=True):
            wanted = dict(zip(self.tried.plan.layers, numbers, strict=True))
            best = [row for row in tried.stitches if row.label == LABELS[wanted[row.site]]]
            rows = [replace(row, label=CHOSEN) for row in best]
            pairs.append(replace(one, stitches=(*one.stitches, *rows)))
        return Stitches(families.plan, tuple(pairs))


class CrossValidated(NamedTuple):
    """The stitches of Figure 1 with the chosen ones under `CHOSEN`, and those of all α."""

    families: Stitches
    alphas: Alphas


def _alphas(setting: Setting) -> Alphas:
    return Alphas(stitches_of(setting, ALPHA))


def _cross_validated(setting: Setting) -> CrossValidated:
    families, alphas = stitches_of(setting, replace(MYRTLE, pairs=ALPHA.pairs)), _alphas(setting)
    return CrossValidated(alphas.joined(families), alphas)


def _judge_chosen(found: CrossValidated) -> list[Check]:
    """Near Figure 1, and near α = 0.1 trained alike; below low rank as in Figure 1."""
    same = "relu-group costs with a chosen α what it costs in Figure 1, with α = 0.1"
    alike, words = "ours: the same beside α = 0.1, trained alike", "very similar: "
    below = "it costs less than {} at layers {}, as in Figure 1"
    return [
        _similar(same, words, found.families, found.families.penalties(GROUP)),
        _similar(alike, "", found.families, found.alphas.tried.penalties(FIXED)),
        *below_ranks(found.families, CHOSEN, below),
    ]


def _similar(claim: str, words: str, families: Stitches, other: Matrix) -> Check:
    chosen = families.penalties(CHOSEN)
    change = (chosen - other).mean(axis=0)
    rows = zip(chosen.mean(axis=0), change, strict=True)
    obtained = ", ".join(f"{mean:.1f} ({more:+.1f})" for mean, more in rows)
    expected = f"{words}within {SIMILAR[0]:g} point at every layer"
    return conclude(claim, expected, at_most(obtained, np.abs(change), SIMILAR))


def _draw_chosen(found: CrossValidated) -> dict[str, Drawn]:
    over = "activation; crosses: the paper's Figure 1"
    return draw_penalties(
        found.families, [*OTHERS, GROUP, CHOSEN], paper=PAPER["sym-fig1"], over=over
    )


def _varied(found: Alphas) -> Finding:
    chosen, layers = found.alphas, found.tried.layers
    if len(chosen) == 1:
        rows = zip(layers, chosen[0], strict=True)
        listed = ", ".join(f"{alpha:g} at {at}" for at, alpha in rows)
        return f"one pair has no variance; it chose {listed}"
    values = [len(set(column[np.isfinite(column)].tolist())) for column in chosen.T]
    spread = np.log10(chosen).std(axis=0)
    told = zip(spread, layers, values, strict=True)
    obtained = ", ".join(f"{one:.1f} at {at} ({count} values)" for one, at, count in told)
    return obtained, min(values) > 1 and np.isfinite(chosen).all(), (spread >= SPREAD).all()


def _not_essential(found: Alphas) -> Finding:
    span = np.ptp(found.penalties.mean(axis=1), axis=0)
    rows = zip(found.tried.layers, span, strict=True)
    return at_most(", ".join(f"{value:.1f} at {at}" for at, value in rows), span, SPAN)


@styled()
def _draw_alphas(found: Alphas) -> dict[str, Drawn]:
    """Draw for each layer how often each α is chosen, and below it what each α costs."""
    layers, chosen, penalties = found.tried.layers, found.alphas, found.penalties
    figure = new_figure(PAGE, 3.3)
    panels = figure.subplots(2, len(layers), sharex=True, sharey="row", squeeze=False)
    places, names = np.arange(len(ALPHAS)), [f"{alpha:g}" for alpha in ALPHAS]
    table: list[dict[str, Any]] = []
    for number, layer in enumerate(layers):
        upper, lower = panels[:, number]
        counts = [int((chosen[:, number] == alpha).sum()) for alpha in ALPHAS]
        upper.bar(places, counts, width=0.8, color=look(0).color)
        mean, std = draw_means(lower, places, penalties[:, :, number].T, look(1))
        upper.set(title=f"activation {layer}", ylim=(0, len(chosen) + 0.4))
        upper.set_yticks(range(len(chosen) + 1))
        upper.grid(visible=False, axis="x")
        lower.set(xlabel="α", xlim=(-0.6, len(places) - 0.4))
        lower.set_xticks(places, names)
        own = {"layer": layer, "alpha": ALPHAS, "chosen": counts}
        table += rows_of(**own, mean=mean, std=std, pairs=len(chosen))
    panels[0, 0].set_ylabel("pairs that choose it")
    panels[1, 0].set_ylabel("penalty, points (ours)")
    panels[1, 0].set_ylim(bottom=min(0.0, panels[1, 0].get_ylim()[0]))
    return {"": Drawn(figure, tuple(panels.ravel()), table)}


ITEMS: Mapping[str, Item] = {
    "sym-fig13": Item(_cross_validated, _judge_chosen, _draw_chosen),
    "sym-fig14": Item(_alphas, judge_by("symmetry.fig14", _varied, _not_essential), _draw_alphas),
}
