"""Figure 8: the scores of nine activation functions over the range of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from sigmascope.figures import Drawn
from sigmascope.measure.affinity import AffinityOptions, affinity
from sigmascope_papers.chance import Array
from sigmascope_papers.figures.ranges import draw_ranges
from sigmascope_papers.item import Check, Finding, agrees
from sigmascope_papers.nonlinearity.items import item_of
from sigmascope_papers.setting import EPS, PUBLISHED

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
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
SIZE = 1000, 300  # samples and channels of an input
# Of ReLU for an input uniform on an interval around 0, in closed form.
BASELINE = 0.6750803038
# Of Sigmoid at mean 7.4 (and -7.4), the median over the deviations in float64; the published
# float32 gives 0.750 (0.817).
SIGMOID = 0.817
GUARD, ALL_SCORED = "the guard's scores counted", "where all three have a score"


Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Scores of every function as published, (m, s), by mean and deviation of the input."""

    means: Array
    scores: dict[str, Array]
    guarded: dict[str, Flags]  # too little variance for a score
    baselines: dict[str, float]  # of an input that covers the whole interval
    moving: dict[str, Flags] = field(default_factory=dict)  # where a solver had to couple the rows

    def true_scores(self) -> dict[str, Array]:
        """Return the scores, and NaN where there is none."""
        return {
            name: np.where(self.guarded[name], np.nan, self.scores[name]) for name in self.scores
        }


def measure_ranges(
    means: Array,
    deviations: Sequence[float] = DEVIATIONS,
    *,
    samples: int = SIZE[0],
    channels: int = SIZE[1],
) -> Ranges:
    """Score every function on inputs of every mean and deviation."""
    found = [_scores(x) for x in inputs(means, deviations, (samples, channels))]
    return ranges_of(means, found)


def inputs(
    means: Array, deviations: Sequence[float] = DEVIATIONS, size: tuple[int, int] = SIZE
) -> Iterator[Array]:
    """Yield the input of every mean and deviation, and that of the baselines as the last."""
    generator = np.random.default_rng(0)
    for mean in means:
        for deviation in deviations:
            yield generator.normal(mean, deviation, size=size)
    yield generator.uniform(means[0], means[-1], size=size)


def ranges_of(means: Array, found: Sequence[Sequence[Sequence[float]]]) -> Ranges:
    """Return the ranges of what `_scores` returned for all `inputs`."""
    *rest, baseline = found
    table = np.array(rest).reshape(len(means), -1, len(FUNCTIONS), 3)
    return Ranges(
        means,
        {name: table[:, :, k, 0] for k, name in enumerate(FUNCTIONS)},
        {name: table[:, :, k, 1] > 0 for k, name in enumerate(FUNCTIONS)},
        {name: baseline[k][0] for k, name in enumerate(FUNCTIONS)},
        {name: table[:, :, k, 2] > 0 for k, name in enumerate(FUNCTIONS)},
    )


def _scores(x: Array) -> list[tuple[float, float, float]]:
    """Return for every function the score as published, and whether guard or solver were needed."""
    tensor = torch.from_numpy(x)
    options: AffinityOptions = {"covariance": "unbiased", "eps": EPS, "degenerate": PUBLISHED}
    found = [affinity(tensor, act(tensor), **options) for act in FUNCTIONS.values()]
    return [(float(one), one.degenerate, one.certified == "solver") for one in found]


def _affine_side(ranges: Ranges) -> Finding:
    least = float(ranges.scores["ReLU"][ranges.means > 13].min())
    return f"{least:.8f} at least", least > 1 - 1e-9


def _symmetric(ranges: Ranges) -> Finding:
    medians = np.median(ranges.scores["Sigmoid"], axis=1)
    gap = float(np.abs(medians - medians[::-1]).max())
    return f"{gap:.4f} apart at most", gap <= 0.02


def _known_median(ranges: Ranges) -> Check:
    median = float(np.median(ranges.scores["Sigmoid"][np.abs(ranges.means - 7.37).argmin()]))
    text = "Sigmoid, median at mean 7.37 (published float32: 0.750)"
    return agrees(text, SIGMOID, median, tolerance=0.02, digits=3)


def _known_baseline(ranges: Ranges) -> Check:
    baseline = ranges.baselines["ReLU"]
    return agrees("baseline of ReLU, closed form", BASELINE, baseline, tolerance=0.05, digits=3)


def _lowest(ranges: Ranges, *names: str) -> list[float]:
    true = ranges.true_scores()
    return [float(np.nanmin(true[name])) for name in names]


def _close_to_0(ranges: Ranges) -> Finding:
    relu, gelu, sigmoid = _lowest(ranges, "ReLU", "GELU", "Sigmoid")
    told = f"{relu:.3f}, {gelu:.3f}, {sigmoid:.3f}"
    return told, max(relu, gelu) < 0.1 < sigmoid, sigmoid > 0.2


def _tanh_is_lower(ranges: Ranges) -> Finding:
    tanh, sigmoid = _lowest(ranges, "Tanh", "Sigmoid")
    return f"{tanh:.3f} against {sigmoid:.3f}", tanh < sigmoid, tanh < sigmoid / 2


def _selected(ranges: Ranges, names: Sequence[str], words: str) -> dict[str, Array]:
    """Return scores as published, or only where all functions have one."""
    if words == GUARD:
        return {name: ranges.scores[name] for name in names}
    known = ~np.logical_or.reduce([ranges.guarded[name] for name in names])
    return {name: np.where(known, ranges.scores[name], np.nan) for name in names}


def _wider(ranges: Ranges, names: Sequence[str], words: str) -> Finding:
    scores = _selected(ranges, names, words)
    medians = [
        [np.median(row[np.isfinite(row)]) for row in own if np.isfinite(row).any()]
        for own in scores.values()
    ]
    one, two, third = (sum(median < 0.95 for median in own) for own in medians)
    obtained = f"{one} and {two} of {len(medians[0])} means, {names[2]} {third}"
    return obtained, min(one, two) > third, min(one, two) > third + 1


def _lower(ranges: Ranges, names: Sequence[str], words: str) -> Finding:
    scores = _selected(ranges, names, words)
    average = {name: float(own[np.isfinite(own)].mean()) for name, own in scores.items()}
    *lower, higher = average.values()
    gap = higher - max(lower)
    return ", ".join(f"{name} {mean:.3f}" for name, mean in average.items()), gap > 0, gap >= 0.01


def draw(ranges: Ranges) -> dict[str, Drawn]:
    """Draw the boxes without the scores of the guard, and with them as in the paper."""
    parts = {"": ranges.true_scores(), "guard": ranges.scores}
    return {part: draw_ranges(ranges.means, own, ranges.baselines) for part, own in parts.items()}


COMPARED = (
    (_wider, ("Sigmoid", "GELU", "ReLU")),
    (_lower, ("SiLU", "Hardswish", "ReLU")),
    (_lower, ("ReLU", "ReLU6", "LeakyReLU")),
)
RULES = (_affine_side, _symmetric, _known_median, _known_baseline, _close_to_0, _tanh_is_lower)
BOTH = [partial(rule, names=n, words=w) for rule, n in COMPARED for w in (GUARD, ALL_SCORED)]
ITEM = item_of("fig8", lambda setting: measure_ranges(MEANS), draw, *RULES, *BOTH)
