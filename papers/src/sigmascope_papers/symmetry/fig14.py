"""Figure 14: which α is chosen by cross-validation, by layer; and, ours, what the other values
would have cost.

The stitches of Figure 13. With one pair a histogram has one entry, where the paper's has 32.

The rule: at every layer at least two values are chosen; clearly, if the standard deviation over the
pairs of log₁₀ α is 0.5 or more, as for pairs that are split between two neighbors; one pair tells
nothing about that. From the variance the paper concludes that α is not essential. That is tried by
itself: the means over the pairs for all α lie within 2 points at every layer, in direction within
5, which is less than what tells the group of ReLU from rank 4 at layers 6, 10 and 14 in the paper's
Figure 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sigmascope.figures import Drawn, new_figure, styled
from sigmascope.figures.style import PAGE, look
from sigmascope.stitching import ALPHAS
from sigmascope_papers.item import Check, Item, relation, untried
from sigmascope_papers.setting import Setting
from sigmascope_papers.symmetry.alphas import Alphas, alphas_of

__all__ = ["ITEM"]

VARIANCE = "there is substantial variance in the chosen α, at all layers"
SPREAD = 0.5
SPAN = (2.0, 5.0)


def measure(setting: Setting) -> Alphas:
    """Read or train the stitches of all α."""
    return alphas_of(setting)


def judge(found: Alphas) -> list[Check]:
    """Several α are chosen at every layer; the penalties of all α are alike."""
    chosen = found.alphas
    values = [
        len({value for value in column.tolist() if np.isfinite(value)}) for column in chosen.T
    ]
    spread = np.log10(chosen).std(axis=0)
    span = np.ptp(found.penalties.mean(axis=1), axis=0)
    layers = found.tried.layers
    claim, expected = VARIANCE, f"a standard deviation of log₁₀ α of {SPREAD:g} or more"
    varied = relation(
        claim,
        expected,
        ", ".join(
            f"{s:.1f} at {at} ({n} values)" for at, s, n in zip(layers, spread, values, strict=True)
        ),
        true=min(values) > 1 and bool(np.isfinite(chosen).all()),
        clear=bool((spread >= SPREAD).all()),
    )
    listed = ", ".join(f"{alpha:g} at {at}" for at, alpha in zip(layers, chosen[0], strict=True))
    return [
        untried(claim, expected, f"one pair has no variance; it chose {listed}")
        if len(chosen) == 1
        else varied,
        relation(
            "the particular choice of α is not essential",
            f"mean penalties within {SPAN[0]:g} points over all α, at every layer",
            ", ".join(f"{value:.1f} at {at}" for at, value in zip(layers, span, strict=True)),
            true=bool((span <= SPAN[1]).all()),
            clear=bool((span <= SPAN[0]).all()),
        ),
    ]


@styled()
def draw(found: Alphas) -> dict[str, Drawn]:
    """Draw for each layer how often each α is chosen, and below it what each α costs, mean and
    deviation over the pairs.
    """
    layers, chosen, penalties = found.tried.layers, found.alphas, found.penalties
    figure = new_figure(PAGE, 3.3)
    panels = figure.subplots(2, len(layers), sharex=True, sharey="row", squeeze=False)
    places, names = np.arange(len(ALPHAS)), [f"{alpha:g}" for alpha in ALPHAS]
    (bars, _, _), (color, marker, line) = look(0), look(1)
    table: list[dict[str, Any]] = []
    for number, layer in enumerate(layers):
        upper, lower = panels[0, number], panels[1, number]
        counts = [int((chosen[:, number] == alpha).sum()) for alpha in ALPHAS]
        mean, deviation = penalties[:, :, number].mean(axis=1), penalties[:, :, number].std(axis=1)
        upper.bar(places, counts, width=0.8, color=bars)
        lower.errorbar(
            places,
            mean,
            deviation,
            color=color,
            marker=marker,
            linestyle=line,
            markersize=4,
            elinewidth=0.8,
        )
        upper.set(title=f"activation {layer}", ylim=(0, len(chosen) + 0.4))
        upper.set_yticks(range(len(chosen) + 1))
        upper.grid(visible=False, axis="x")
        lower.set(xlabel="α", xlim=(-0.6, len(places) - 0.4))
        lower.set_xticks(places, names)
        rows = zip(ALPHAS, counts, mean.tolist(), deviation.tolist(), strict=True)
        table += [
            {"layer": layer, "alpha": a, "chosen": c, "mean": m, "std": d, "pairs": len(chosen)}
            for a, c, m, d in rows
        ]
    panels[0, 0].set_ylabel("pairs that choose it")
    panels[1, 0].set(ylabel="penalty, points (ours)")
    panels[1, 0].set_ylim(bottom=min(0.0, panels[1, 0].get_ylim()[0]))
    return {"": Drawn(figure, tuple(panels.ravel()), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
