"""Figure 9: what the score owes to pooling, and to the number of channels.

Top: the signature of ResNet-20 on 256 test images of CIFAR-10, both embedded in the package, with
    feature maps averaged over
positions, summed, and flattened; and at the central position alone, which is no part of the paper's
figure but tells averaging from width. Ledoit–Wolf covariance. The paper names neither network nor
data.

Middle and bottom: standard normal inputs of n = 128 samples and d = 8 to 2048 channels under ReLU,
Tanh and Sigmoid, five draws, with the unbiased covariance and with that of Ledoit and Wolf. The
paper gives neither n nor the range of d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr
from torch import Tensor

from sigmascope.catalog import data, model
from sigmascope.choices import Covariance, Pool
from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.measure.affinity import affinity
from sigmascope.measure.survey import signature
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.nonlinearity.fig2b import FUNCTIONS
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Robustness", "measure_poolings", "measure_widths"]

NETWORK, IMAGES = "sigmascope/resnet20", 256
SAMPLES, WIDTHS, DRAWS = 128, tuple(2**k for k in range(3, 12)), 5
ESTIMATORS: tuple[Covariance, ...] = ("unbiased", "ledoit-wolf")
# Of ReLU for a standard normal input, in closed form; and at n = 128 by an independent
# implementation.
PLATEAU = 0.6210927227
REFERENCE = {
    "unbiased": {128: 0.709, 512: 0.853, 1024: 0.895},
    "ledoit-wolf": {128: 0.622, 512: 0.634, 1024: 0.641},
}


def _central(tensor: Tensor) -> Tensor:
    """Return the channels (n, c) at the middle of maps (n, c, h, w)."""
    return tensor[:, :, tensor.shape[2] // 2, tensor.shape[3] // 2]


POOLINGS: dict[str, Pool | Callable[[Tensor], Tensor]] = {
    "averaged": "channels",
    "summed": "sum",
    "flattened": "flatten",
    "central position": _central,
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


def measure(setting: Setting) -> Robustness:
    """Return all three rows."""
    return Robustness(measure_poolings(), WIDTHS, measure_widths())


def measure_poolings(images: int = IMAGES) -> dict[str, Array]:
    """Measure the signature of the embedded network with each pooling."""
    entry = model(NETWORK)
    return {
        name: signature(
            entry.network,
            data("embedded", transform=entry.transform, limit=images, batch_size=images),
            pool=pool,
            progress=False,
        ).scores
        for name, pool in POOLINGS.items()
    }


def measure_widths(
    widths: Sequence[int] = WIDTHS, *, draws: int = DRAWS
) -> dict[str, dict[str, Array]]:
    """Score every function by estimator, draw and width; the draws are the same for all functions
    and estimators.
    """
    inputs = [
        [np.random.default_rng([draw, width]).standard_normal((SAMPLES, width)) for width in widths]
        for draw in range(draws)
    ]
    return {
        estimator: {
            name: np.array(
                [
                    [float(affinity(x, act(x), covariance=estimator)) for x in line]
                    for line in inputs
                ]
            )
            for name, act in FUNCTIONS.items()
        }
        for estimator in ESTIMATORS
    }


def judge(found: Robustness) -> list[Check]:
    """Top: averaging agrees with summing to 0.01, with flattening to 0.05, and in order by a rank
        correlation of 0.8.

    Middle: the unbiased score rises with every width from n on, clearly by half of what is left to
        1. Bottom: the shrunk one
    varies less, clearly if by 0.05. Both have the known values at n = 128.
    """
    mean, total, flat = (found.poolings[name] for name in ("averaged", "summed", "flattened"))
    apart, flat_apart = float(np.abs(mean - total).max()), float(np.abs(mean - flat).max())
    rank = float(spearmanr(mean, flat).statistic)
    checks = [
        relation(
            "top: averaging agrees with summing",
            "within 0.01",
            f"{apart:.4f} at most",
            true=apart <= 0.01,
        ),
        relation(
            "top: averaging agrees with flattening",
            "within 0.05",
            _told(found, flat_apart),
            true=flat_apart <= 0.05,
        ),
        relation(
            "top: they order activations alike",
            "rank correlation 0.8 or more",
            f"{rank:.2f}",
            true=rank >= 0.8,
        ),
    ]
    for row, estimator in zip(("middle", "bottom"), ESTIMATORS, strict=True):
        relu = dict(
            zip(found.widths, found.scores[estimator]["ReLU"].mean(axis=0).tolist(), strict=True)
        )
        checks += [
            agrees(
                f"{row}: ReLU, {estimator}, d = {width}",
                expected,
                relu[width],
                tolerance=0.01,
                digits=3,
            )
            for width, expected in REFERENCE[estimator].items()
        ]
    checks += [_rises(found, name) for name in FUNCTIONS]
    checks += [_stays(found, name) for name in FUNCTIONS]
    narrow = float(found.scores["ledoit-wolf"]["ReLU"][:, 0].mean())
    claim = f"bottom: ReLU at d = {found.widths[0]}, closed form for n without end"
    return [*checks, agrees(claim, PLATEAU, narrow, tolerance=0.02, digits=3)]


def _told(found: Robustness, apart: float) -> str:
    """Say how far flattening lies from averaging, and which poolings give the larger scores."""
    mean, flat, middle = (
        found.poolings[name] for name in ("averaged", "flattened", "central position")
    )
    levels = (
        f"means {flat.mean():.3f} flattened, {mean.mean():.3f} averaged, {middle.mean():.3f} at "
        "the central position"
    )
    larger = (
        f"flattened above averaged {(flat > mean).sum()} times, averaged above central "
        f"{(mean > middle).sum()} times"
    )
    return f"{apart:.3f} at most; {levels}; of {len(mean)} calls {larger}"


def _rises(found: Robustness, name: str) -> Check:
    means = found.scores["unbiased"][name].mean(axis=0)
    beyond = means[np.array(found.widths) >= SAMPLES]
    # A function near 1 has little room: the rise is judged by what is left of it.
    share = float((means[-1] - means[0]) / (1 - means[0]))
    return relation(
        f"middle: {name} rises toward 1 once d exceeds n",
        "at every width, by half of what is left to 1",
        f"from {means[0]:.3f} to {means[-1]:.3f}",
        true=bool((np.diff(beyond) > 0).all()),
        clear=share >= 0.5,
    )


def _stays(found: Robustness, name: str) -> Check:
    means = found.scores["ledoit-wolf"][name].mean(axis=0)
    spread = float(means.max() - means.min())
    plain = found.scores["unbiased"][name].mean(axis=0)
    return relation(
        f"bottom: {name} stays constant with shrinkage",
        "within 0.05",
        f"{means.min():.3f} to {means.max():.3f}",
        true=spread < float(plain.max() - plain.min()),
        clear=spread <= 0.05,
    )


@styled()
def draw(found: Robustness) -> dict[str, Drawn]:
    """Draw the three rows in one figure."""
    figure = new_figure(5, 6.2)
    top, middle, bottom = figure.subplots(3, 1, height_ratios=[1.2, 1, 1])
    places = range(1, len(found.poolings["averaged"]) + 1)
    drawn = {
        "top": draw_curves(
            places, found.poolings, top, over="activation call of ResNet-20, in order"
        )
    }
    for name, axes, estimator in (
        ("middle", middle, "unbiased"),
        ("bottom", bottom, "ledoit-wolf"),
    ):
        drawn[name] = draw_curves(
            found.widths,
            found.scores[estimator],
            axes,
            over=f"channels d, for n = {SAMPLES} samples",
        )
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
    for axes, place in ((top, "lower center"), (middle, "lower right"), (bottom, "lower right")):
        axes.legend(loc=place, ncols=4)
    table = [{"row": name, **row} for name, one in drawn.items() for row in one.table]
    return {"": Drawn(figure, (top, middle, bottom), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
