"""Figure 9: how the score depends on pooling, and on the number of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from torch import Tensor

from sigmascope.catalog import data, model
from sigmascope.choices import Covariance, Pool
from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.measure.affinity import affinity
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Finding, agrees
from sigmascope_papers.nonlinearity.functions import FUNCTIONS
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.nonlinearity.population import INDEPENDENT, WIDTHS, normal
from sigmascope_papers.setting import EPS

NETWORK, IMAGES = "sigmascope/resnet20", 256
SAMPLES, DRAWS = 128, 5
ESTIMATORS: dict[Covariance, str] = {"unbiased": "middle", "ledoit-wolf": "bottom"}
# Of ReLU for a standard normal input, in closed form; and at n = 128 by an independent
# implementation.
PLATEAU = 0.6210927227
REFERENCE: dict[Covariance, dict[int, float]] = {
    "unbiased": {128: 0.709, 512: 0.853, 1024: 0.895},
    "ledoit-wolf": {128: 0.622, 512: 0.634, 1024: 0.641},
}
POOLINGS: dict[str, Pool | Callable[[Tensor], Tensor]] = {
    "averaged": "channels",
    "summed": "sum",
    "flattened": "flatten",
    "central position": lambda maps: maps[:, :, maps.shape[2] // 2, maps.shape[3] // 2],
}


@dataclass(frozen=True, eq=False)
class Robustness:
    """Scores by pooling, (k,), and by width."""

    poolings: dict[str, Array]
    widths: tuple[int, ...]
    scores: dict[str, dict[str, Array]]  # estimator -> function -> (draws, widths)
    reasons: dict[str, str] = field(default_factory=dict)  # pooling -> why it has no scores

    def lacks(self, *poolings: str) -> str:
        """Say why some poolings have no scores; empty if they have."""
        return next((self.reasons[name] for name in poolings if name in self.reasons), "")

    def means(self, estimator: str, name: str) -> Array:
        """Return the scores of a function, averaged over the draws, by width."""
        means: Array = self.scores[estimator][name].mean(axis=0)
        return means


def measure_poolings(images: int = IMAGES) -> dict[str, Array]:
    """Measure the scores of the embedded network with each pooling."""
    found = pooled_signatures(images, eps=EPS, estimator="published")
    return {name: one.scores for name, one in found.items()}


def pooled_signatures(images: int = IMAGES, **options: Any) -> dict[str, Signature]:
    """Measure the signature of the embedded network with each pooling."""
    entry = model(NETWORK)
    batches = data("embedded", transform=entry.transform, limit=images, batch_size=images)
    return {
        name: signature(entry.network, batches, pool=pool, progress=False, **options)
        for name, pool in POOLINGS.items()
    }


def measure_widths(
    widths: Sequence[int] = WIDTHS, *, draws: int = DRAWS, law: str = INDEPENDENT
) -> dict[str, dict[str, Array]]:
    """Score every function by estimator, draw and width, on the same draws."""
    inputs = [[normal(SAMPLES, d, law=law, seed=draw) for d in widths] for draw in range(draws)]

    def scores(act: Callable[[Array], Array], estimator: Covariance) -> Array:
        rows = [
            [float(affinity(x, act(x), covariance=estimator, eps=EPS)) for x in row]
            for row in inputs
        ]
        return np.array(rows)

    return {
        estimator: {name: scores(act, estimator) for name, act in FUNCTIONS.items()}
        for estimator in ESTIMATORS
    }


def _like_summing(found: Robustness) -> Finding:
    apart = float(np.abs(found.poolings["averaged"] - found.poolings["summed"]).max())
    return f"{apart:.4f} at most", apart <= 0.01


def _like_flattening(found: Robustness) -> Finding:
    mean, _, flat, middle = (found.poolings[name] for name in POOLINGS)
    apart = float(np.abs(mean - flat).max())
    told = (
        f"{apart:.3f} at most; means {flat.mean():.3f} flattened, {mean.mean():.3f} averaged, "
        f"{middle.mean():.3f} at the central position; of {len(mean)} calls flattened above "
        f"averaged {(flat > mean).sum()} times, averaged above central "
        f"{(mean > middle).sum()} times"
    )
    return told, apart <= 0.05


def _ordered_alike(found: Robustness) -> Finding:
    rank = spearmanr(found.poolings["averaged"], found.poolings["flattened"]).statistic
    return f"{rank:.2f}", rank >= 0.8


def _reference(found: Robustness, estimator: Covariance) -> list[Check]:
    scores = dict(zip(found.widths, found.means(estimator, "ReLU").tolist(), strict=True))
    text = f"{ESTIMATORS[estimator]}: ReLU, {estimator}, d = "
    return [
        agrees(f"{text}{width}", expected, scores[width], tolerance=0.01, digits=3)
        for width, expected in REFERENCE[estimator].items()
    ]


def _rises(found: Robustness, name: str) -> Finding:
    means = found.means("unbiased", name)
    beyond = means[np.array(found.widths) >= SAMPLES]
    # A function near 1 has little room: the rise is judged by what is left of it.
    share = (means[-1] - means[0]) / (1 - means[0])
    return f"from {means[0]:.3f} to {means[-1]:.3f}", (np.diff(beyond) > 0).all(), share >= 0.5


def stays(found: Robustness, name: str) -> Finding:
    """Find whether the shrunk score is the same at all widths."""
    means, plain = found.means("ledoit-wolf", name), found.means("unbiased", name)
    told, flat = f"{means.min():.3f} to {means.max():.3f}", np.ptp(means) <= 0.05
    return told, flat or np.ptp(means) < np.ptp(plain), flat


def _plateau(found: Robustness) -> Check:
    text = f"bottom: ReLU at d = {found.widths[0]}, closed form for n without end"
    narrow = float(found.means("ledoit-wolf", "ReLU")[0])
    return agrees(text, PLATEAU, narrow, tolerance=0.02, digits=3)


@styled()
def draw(found: Robustness) -> dict[str, Drawn]:
    """Draw the three rows in one figure."""
    panels = new_figure(5, 6.2).subplots(3, 1, height_ratios=[1.2, 1, 1])
    top, middle, bottom = panels
    places = range(1, len(found.poolings["averaged"]) + 1)
    over = "activation call of ResNet-20, in order"
    drawn = {"top": draw_curves(places, found.poolings, top, over=over)}
    over = f"channels d, for n = {SAMPLES} samples"
    for axes, (estimator, name) in zip((middle, bottom), ESTIMATORS.items(), strict=True):
        drawn[name] = draw_curves(found.widths, found.scores[estimator], axes, over=over)
        axes.set_xscale("log", base=2)
        axes.axvline(SAMPLES, color="0.5", linewidth=0.8)
        axes.set_xticks(found.widths, [str(width) for width in found.widths])
        axes.minorticks_off()
    bottom.sharey(middle)
    top.set_title(f"pooling of feature maps, {IMAGES} images")
    middle.set_title("unbiased covariance; the line marks d = n")
    bottom.set_title("Ledoit–Wolf covariance")
    top.set(xticks=places, ylim=(0.27, 1))
    middle.set(ylim=(0.5, 1.02))
    for axes, place in zip(panels, ("lower center", "lower right", "lower right"), strict=True):
        axes.legend(loc=place, ncols=4)
    table = [{"row": name, **row} for name, one in drawn.items() for row in one.table]
    return {"": finished(panels, table)}


ITEM = item_of(
    "fig9",
    lambda setting: Robustness(measure_poolings(), WIDTHS, measure_widths()),
    draw,
    *(_like_summing, _like_flattening, _ordered_alike),
    *(partial(_reference, estimator=estimator) for estimator in ESTIMATORS),
    *(partial(rule, name=name) for rule in (_rises, stays) for name in FUNCTIONS),
    _plateau,
)
