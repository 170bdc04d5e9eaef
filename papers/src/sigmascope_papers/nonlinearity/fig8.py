"""Figure 8: the scores of nine activation functions over the range of their inputs.

Normal inputs of 1000 samples and 300 channels for 20 means from -20 to 20 and the standard
deviations 2, 1, 0.5, 0.25, 0.1 and 0.01, each given to all functions; unbiased covariance, eps =
1e-6. A box shows the scores of one mean over the deviations. The baseline is the score of an input
that is uniform on [-20, 20], a law that the paper leaves open.

Where the variance of the output is below eps the published code replaces the affine map by 0, and
reports 1 for a constant output. The paper's boxes contain such scores; `fig8-guard` draws them,
`fig8` leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope.figures import Drawn
from sigmascope.measure.affinity import affinity
from sigmascope_papers.figures.ranges import draw_ranges
from sigmascope_papers.item import Check, Item, agrees, relation
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["FUNCTIONS", "ITEM", "Ranges", "measure_ranges"]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Sigmoid": torch.sigmoid,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "ReLU6": F.relu6,
    "LeakyReLU": F.leaky_relu,
    "Tanh": torch.tanh,
    "Hardtanh": F.hardtanh,
    "SiLU": F.silu,
    "Hardswish": F.hardswish,
}
MEANS = np.linspace(-20, 20, 20)
DEVIATIONS = (2, 1, 0.5, 0.25, 0.1, 0.01)
# Of ReLU for an input uniform on an interval around 0, in closed form.
BASELINE = 0.6750803038
# Of Sigmoid at mean 7.4 (and -7.4), the median over the deviations in float64; the published
# float32 gives 0.750 (0.817).
SIGMOID = 0.817


@dataclass(frozen=True, eq=False)
class Ranges:
    """Scores of every function.

    Attributes:
        means: (m,), of the inputs.
        scores: function -> (m, s), as published, by mean and deviation.
        guarded: function -> (m, s), whether the variance of the output is too small for a score.
        baselines: function -> score of an input that covers the whole interval.
    """

    means: Array
    scores: dict[str, Array]
    guarded: dict[str, np.ndarray[Any, np.dtype[np.bool_]]]
    baselines: dict[str, float]

    def true_scores(self) -> dict[str, Array]:
        """Return the scores, and NaN where there is none."""
        return {
            name: np.where(self.guarded[name], np.nan, scores)
            for name, scores in self.scores.items()
        }


def measure(setting: Setting) -> Ranges:
    """Return the scores of all functions."""
    return measure_ranges(MEANS)


def measure_ranges(
    means: Array,
    deviations: Sequence[float] = DEVIATIONS,
    *,
    samples: int = 1000,
    channels: int = 300,
    seed: int = 0,
) -> Ranges:
    """Score every function on inputs of every mean and deviation."""
    generator = np.random.default_rng(seed)
    found = np.empty((len(means), len(deviations), len(FUNCTIONS), 2))
    for place in np.ndindex(found.shape[:2]):
        x = generator.normal(means[place[0]], deviations[place[1]], size=(samples, channels))
        found[place] = _scores(x)
    baseline = _scores(generator.uniform(means[0], means[-1], size=(samples, channels)))
    names = list(FUNCTIONS)
    return Ranges(
        means,
        {name: found[:, :, k, 0] for k, name in enumerate(names)},
        {name: found[:, :, k, 1] > 0 for k, name in enumerate(names)},
        {name: baseline[k][0] for k, name in enumerate(names)},
    )


def _scores(x: Array) -> list[tuple[float, float]]:
    """Return for every function the score as published, and whether it is the guard's."""
    tensor = torch.from_numpy(x)
    found = [
        affinity(tensor, act(tensor), covariance="unbiased", degenerate="published")
        for act in FUNCTIONS.values()
    ]
    return [(float(one), float(one.degenerate)) for one in found]


def judge(ranges: Ranges) -> list[Check]:
    """What the paper reads off the figure, and what float64 must give where its float32 did not.

    Sizes: "close to 0" is below 0.1 and "not close" above 0.2; a function is non-linear at a mean
        where the median is below
    0.95; "on average" is over all means and deviations; ± 0.02 for what differs by its draw alone.
    """
    return [
        _affine_side(ranges),
        *_symmetric(ranges),
        agrees(
            "baseline of ReLU, closed form",
            BASELINE,
            ranges.baselines["ReLU"],
            tolerance=0.05,
            digits=3,
        ),
        *_lowest(ranges),
        *_compared(
            ranges,
            "Sigmoid and GELU are non-linear in a wider range than ReLU",
            ("Sigmoid", "GELU", "ReLU"),
            _wider,
        ),
        *_compared(
            ranges,
            "SiLU and Hardswish are less affine than ReLU",
            ("SiLU", "Hardswish", "ReLU"),
            _lower,
        ),
        *_compared(
            ranges,
            "ReLU and ReLU6 are less affine than LeakyReLU",
            ("ReLU", "ReLU6", "LeakyReLU"),
            _lower,
        ),
    ]


def _lowest(ranges: Ranges) -> list[Check]:
    """Compare how far down the functions go."""
    lowest = {name: float(np.nanmin(scores)) for name, scores in ranges.true_scores().items()}
    return [
        relation(
            "ReLU and GELU come close to 0, Sigmoid does not",
            "below 0.1, below 0.1, above 0.2",
            f"{lowest['ReLU']:.3f}, {lowest['GELU']:.3f}, {lowest['Sigmoid']:.3f}",
            true=max(lowest["ReLU"], lowest["GELU"]) < 0.1 < lowest["Sigmoid"],
            clear=lowest["Sigmoid"] > 0.2,
        ),
        relation(
            "Tanh goes much lower than Sigmoid",
            "less than half",
            f"{lowest['Tanh']:.3f} against {lowest['Sigmoid']:.3f}",
            true=lowest["Tanh"] < lowest["Sigmoid"],
            clear=lowest["Tanh"] < lowest["Sigmoid"] / 2,
        ),
    ]


def _affine_side(ranges: Ranges) -> Check:
    """Right of 13, where ReLU is the identity on all inputs, its scores are 1."""
    least = float(ranges.scores["ReLU"][ranges.means > 13].min())
    expected = "1 (the published float32 goes down to 0.713)"
    return relation(
        "ReLU on positive inputs, in float64",
        expected,
        f"{least:.8f} at least",
        true=least > 1 - 1e-9,
    )


def _symmetric(ranges: Ranges) -> list[Check]:
    """Sigmoid, odd up to a constant, has the same medians at m and -m, and at 7.37 the known one."""
    medians = np.median(ranges.scores["Sigmoid"], axis=1)
    gap = float(np.abs(medians - medians[::-1]).max())
    expected = "medians at m and −m within 0.02"
    nearest = int(np.abs(ranges.means - 7.37).argmin())
    claim = "Sigmoid, median at mean 7.37 (published float32: 0.750)"
    return [
        relation(
            "Sigmoid is symmetric, in float64",
            expected,
            f"{gap:.4f} apart at most",
            true=gap <= 0.02,
        ),
        agrees(claim, SIGMOID, float(medians[nearest]), tolerance=0.02, digits=3),
    ]


def _compared(
    ranges: Ranges,
    claim: str,
    names: Sequence[str],
    judged: Callable[[str, dict[str, Array]], Check],
) -> list[Check]:
    """Compare two functions with a third, as published, and again where all three have a score: the
    guard's are none.
    """
    published = {name: ranges.scores[name] for name in names}
    known = ~np.logical_or.reduce([ranges.guarded[name] for name in names])
    own = {name: np.where(known, scores, np.nan) for name, scores in published.items()}
    return [
        judged(f"{claim}, the guard's scores counted", published),
        judged(f"{claim}, where all three have a score", own),
    ]


def _wider(claim: str, scores: dict[str, Array]) -> Check:
    """Judge whether the first two are non-linear at more means than the third, clearly if by 2."""
    medians = {
        name: [np.median(row[np.isfinite(row)]) for row in own if np.isfinite(row).any()]
        for name, own in scores.items()
    }
    (one, two, third), names = (
        (sum(median < 0.95 for median in own) for own in medians.values()),
        list(scores),
    )
    return relation(
        claim,
        "more means, by 2 or more",
        f"{one} and {two} of {len(medians[names[0]])} means, {names[2]} {third}",
        true=bool(min(one, two) > third),
        clear=bool(min(one, two) > third + 1),
    )


def _lower(claim: str, scores: dict[str, Array]) -> Check:
    """Judge whether the first two are below the third on average, clearly if by 0.01."""
    average = {name: float(own[np.isfinite(own)].mean()) for name, own in scores.items()}
    *lower, higher = average.values()
    obtained = ", ".join(f"{name} {mean:.3f}" for name, mean in average.items())
    gap = higher - max(lower)
    return relation(claim, "lower on average, by 0.01", obtained, true=gap > 0, clear=gap >= 0.01)


def draw(ranges: Ranges) -> dict[str, Drawn]:
    """Draw the boxes without the scores of the guard, and with them as in the paper."""
    return {
        "": draw_ranges(ranges.means, ranges.true_scores(), ranges.baselines),
        "guard": draw_ranges(ranges.means, ranges.scores, ranges.baselines),
    }


ITEM = Item(measure=measure, judge=judge, draw=draw)
