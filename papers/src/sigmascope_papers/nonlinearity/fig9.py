"""Figure 9: how the score depends on pooling, and on the number of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import spearmanr
from torch import Tensor

from sigmascope.catalog import data, model
from sigmascope.choices import Covariance, Pool
from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.measure.affinity import affinity
from sigmascope.measure.survey import signature
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Check, Finding, Item, agrees, claim, conclude, judge_by
from sigmascope_papers.nonlinearity.functions import FUNCTIONS

__all__ = ["ESTIMATORS", "ITEM", "PLATEAU", "POOLINGS", "WIDTHS", "Robustness"]
__all__ += ["measure_poolings", "measure_widths"]

NETWORK, IMAGES = "sigmascope/resnet20", 256
SAMPLES, WIDTHS, DRAWS = 128, tuple(2**k for k in range(3, 12)), 5
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
    """Scores by pooling and by width.

    Attributes:
        poolings: name -> (k,), the signature.
        widths: (m,), the numbers of channels.
        scores: estimator -> function -> (r, m), by draw and width.
    """

    poolings: dict[str, Array]
    widths: tuple[int, ...]
    scores: dict[str, dict[str, Array]]

    def means(self, estimator: str, name: str) -> Array:
        """Return the scores of a function, averaged over the draws, by width."""
        means: Array = self.scores[estimator][name].mean(axis=0)
        return means


def measure_poolings(images: int = IMAGES) -> dict[str, Array]:
    """Measure the signature of the embedded network with each pooling."""
    entry = model(NETWORK)
    batches = data("embedded", transform=entry.transform, limit=images, batch_size=images)
    return {
        name: signature(entry.network, batches, pool=pool, progress=False).scores
        for name, pool in POOLINGS.items()
    }


def measure_widths(
    widths: Sequence[int] = WIDTHS, *, draws: int = DRAWS
) -> dict[str, dict[str, Array]]:
    """Score every function by estimator, draw and width, on the same draws."""
    inputs = [
        [np.random.default_rng([draw, width]).standard_normal((SAMPLES, width)) for width in widths]
        for draw in range(draws)
    ]

    def scores(act: Callable[[Array], Array], estimator: Covariance) -> Array:
        rows = [[float(affinity(x, act(x), covariance=estimator)) for x in row] for row in inputs]
        return np.array(rows)

    return {
        estimator: {name: scores(act, estimator) for name, act in FUNCTIONS.items()}
        for estimator in ESTIMATORS
    }


@claim("top: averaging agrees with summing", "within 0.01")
def _like_summing(found: Robustness) -> Finding:
    """All scores are within 0.01."""
    apart = float(np.abs(found.poolings["averaged"] - found.poolings["summed"]).max())
    return f"{apart:.4f} at most", apart <= 0.01


@claim("top: averaging agrees with flattening", "within 0.05")
def _like_flattening(found: Robustness) -> Finding:
    """All scores are within 0.05."""
    mean, _, flat, middle = (found.poolings[name] for name in POOLINGS)
    apart = float(np.abs(mean - flat).max())
    told = (
        f"{apart:.3f} at most; means {flat.mean():.3f} flattened, {mean.mean():.3f} averaged, "
        f"{middle.mean():.3f} at the central position; of {len(mean)} calls flattened above "
        f"averaged {(flat > mean).sum()} times, averaged above central {(mean > middle).sum()} times"
    )
    return told, apart <= 0.05


@claim("top: they order activations alike", "rank correlation 0.8 or more")
def _ordered_alike(found: Robustness) -> Finding:
    """The rank correlation of averaging and flattening is 0.8 or more."""
    rank = spearmanr(found.poolings["averaged"], found.poolings["flattened"]).statistic
    return f"{rank:.2f}", rank >= 0.8


def _reference(found: Robustness, estimator: Covariance, width: int) -> Check:
    """ReLU has the known score."""
    score = float(found.means(estimator, "ReLU")[found.widths.index(width)])
    text = f"{ESTIMATORS[estimator]}: ReLU, {estimator}, d = {width}"
    return agrees(text, REFERENCE[estimator][width], score, tolerance=0.01, digits=3)


def _rises(found: Robustness, name: str) -> Check:
    """The unbiased score rises with every width from n on; clearly by half of what is left to 1."""
    means = found.means("unbiased", name)
    beyond = means[np.array(found.widths) >= SAMPLES]
    # A function near 1 has little room: the rise is judged by what is left of it.
    share = (means[-1] - means[0]) / (1 - means[0])
    told = f"middle: {name} rises toward 1 once d exceeds n"
    finding = f"from {means[0]:.3f} to {means[-1]:.3f}", (np.diff(beyond) > 0).all(), share >= 0.5
    return conclude(told, "at every width, by half of what is left to 1", finding)


def _stays(found: Robustness, name: str) -> Check:
    """The shrunk score varies less than the unbiased one; clearly if by 0.05 at most."""
    means, plain = found.means("ledoit-wolf", name), found.means("unbiased", name)
    told = f"{means.min():.3f} to {means.max():.3f}"
    finding = told, np.ptp(means) < np.ptp(plain), np.ptp(means) <= 0.05
    return conclude(f"bottom: {name} stays constant with shrinkage", "within 0.05", finding)


def _plateau(found: Robustness) -> Check:
    """With few channels ReLU has the score of infinitely many samples."""
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


KNOWN = [(estimator, width) for estimator in REFERENCE for width in REFERENCE[estimator]]
ITEM = Item(
    lambda setting: Robustness(measure_poolings(), WIDTHS, measure_widths()),
    judge_by(
        *(_like_summing, _like_flattening, _ordered_alike),
        *(partial(_reference, estimator=one, width=width) for one, width in KNOWN),
        *(partial(rule, name=name) for rule in (_rises, _stays) for name in FUNCTIONS),
        _plateau,
    ),
    draw,
)
