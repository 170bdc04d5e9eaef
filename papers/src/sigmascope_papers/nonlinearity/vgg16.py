"""Figures 10 and 11: the signature of VGG16 by batch size, by seed, and before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from scipy.stats import spearmanr

from sigmascope.compare.networks import is_constant
from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope.figures.drawn import finished
from sigmascope.maths.warping import dtw_matrix
from sigmascope.runs import Run
from sigmascope_papers.chance import Array
from sigmascope_papers.item import Finding
from sigmascope_papers.nonlinearity.items import Rules, item_of
from sigmascope_papers.nonlinearity.lineup import BATCHES, SEEDS, batch_statistics
from sigmascope_papers.setting import PUBLISHED, Setting

# Of the range over the batch sizes, and of twice the standard deviation over the trainings.
ABSOLUTE, BESIDE = 0.05, 0.1
# Rank correlations: the same weights should keep nearly every place, others may swap neighbors.
SAME_ORDER, ALIKE = (0.95, 0.8), (0.8, 0.5)
INCREASING = 0.9  # a rank correlation that leaves room for a few neighbors to swap, not more
LATE, LINEAR, NEARLY = 3, 0.95, 0.9
# A quarter of the way back is seen in a figure; a tenth is more than batches move a score.
TURN, SOME = 0.25, 0.1


@dataclass(frozen=True, eq=False)
class Repetitions:
    """Scores (k,) of one network by the size of the batches, and of others by their seeds."""

    batches: dict[int, Array]
    seeds: dict[int, Array]


def measure_repetitions(setting: Setting) -> Repetitions:
    """Read or measure the signatures of Figure 10."""
    sizes = {
        size: setting.runs(["vgg16:1"], images=5120, batch=size, metrics=())[0] for size in BATCHES
    }
    seeds = setting.runs([f"vgg16:{seed}" for seed in SEEDS])
    return Repetitions(
        {size: run.signature.scores for size, run in sizes.items()},
        {seed: run.signature.scores for seed, run in zip(SEEDS, seeds, strict=True)},
    )


def _sizes_agree(found: Repetitions) -> Finding:
    sizes = np.stack(list(found.batches.values()))
    return _agreement(sizes, np.ptp(sizes, axis=0).max())


def _trainings_agree(found: Repetitions) -> Finding:
    seeds = np.stack(list(found.seeds.values()))
    return _agreement(seeds, 2 * seeds.std(axis=0, ddof=1).max())


def _agreement(scores: Array, apart: float) -> Finding:
    told = f"{apart:.3f} at most, signature spreads over {np.ptp(scores.mean(axis=0)):.3f}"
    return told, apart <= BESIDE, apart <= ABSOLUTE


def _ordered(found: Repetitions, by: str, limits: tuple[float, float], **_: str) -> Finding:
    clear, least = limits
    pairs = combinations(getattr(found, by).values(), 2)
    ranks = [float(spearmanr(one, other).statistic) for one, other in pairs]
    obtained = f"{min(ranks):.2f} or more, {np.median(ranks):.2f} in median"
    return obtained, min(ranks) >= least, min(ranks) >= clear


def _falls_with_size(found: Repetitions) -> Finding:
    means = [float(scores.mean()) for scores in found.batches.values()]
    if is_constant(np.array(means)):
        return f"mean {means[0]:.4f} at every size", False
    trend = spearmanr(list(found.batches), means).statistic
    told = f"{trend:.2f}; mean {means[0]:.4f} at {BATCHES[0]}, {means[-1]:.4f} at {BATCHES[-1]}"
    return told, means[-1] < means[0], trend <= -0.8


@styled()
def draw_repetitions(found: Repetitions) -> dict[str, Drawn]:
    """Draw the signature of every batch size; and of every training, with mean and deviation."""
    left, right = panels = new_figure(7, 3).subplots(1, 2, sharey=True)
    calls = range(1, 1 + len(next(iter(found.batches.values()))))
    over = "activation call of VGG16, in order"
    curves = {str(size): scores for size, scores in found.batches.items()}
    table = [{"panel": "left", **row} for row in draw_curves(calls, curves, left, over=over).table]
    seeds = np.stack(list(found.seeds.values()))
    labels = ["one training"] + ["_"] * (len(seeds) - 1)
    right.plot(calls, seeds.T, color="0.6", linewidth=0.5, label=labels)
    mean = draw_curves(calls, {f"mean of {len(seeds)} ± std": seeds}, right, over=over)
    table += [{"panel": "right", **row} for row in mean.table]
    for seed, scores in found.seeds.items():
        told = {"panel": "right", "curve": f"seed {seed}"}
        points = zip(calls, scores.tolist(), strict=True)
        table += [{**told, "at": at, "mean": score} for at, score in points]
    right.set_ylabel("")
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "ncols": 4, "title_fontsize": 8.5}
    for axes, title in zip(panels, ("images in a batch", "seeds of the training"), strict=True):
        axes.set_xticks(calls, [str(call) if call % 2 else "" for call in calls])
        axes.legend(title=title, **above)
    return {"": finished(panels, table)}


@dataclass(frozen=True, eq=False)
class Training:
    """Scores (seeds, calls) at initialization, as published, and after training."""

    before: Array
    after: Array
    scored: np.ndarray[tuple[int, int], np.dtype[np.bool_]]  # before, without the guard
    normalized: Array  # before, with batch statistics


def measure_training(setting: Setting) -> Training:
    """Read or measure the signatures of Figure 11."""
    first, last = ([f"vgg16:{seed}{moment}" for seed in SEEDS] for moment in ("-init", ""))
    return Training(
        scored=np.isfinite(_scores(setting.runs(first))),
        before=_scores(setting.runs(first, degenerate=PUBLISHED, metrics=())),
        after=_scores(setting.runs(last)),
        normalized=np.array([batch_statistics(setting, name).scores for name in first]),
    )


def _scores(runs: Sequence[Run]) -> Array:
    return np.array([run.signature.scores for run in runs])


def turning(scores: Array) -> float:
    """Return how far a curve (k,) goes back: 0 if it is monotone, 1 if it falls as far as it rises.

    >>> turning(np.array([0.0, 4.0, 3.0])), turning(np.array([1.0, 2.0, 5.0]))
    (0.25, 0.0)
    """
    # later less earlier
    steps = np.subtract.outer(scores, scores)[np.tril_indices(len(scores), -1)]
    rise, fall = max(float(steps.max()), 0.0), max(float(-steps.min()), 0.0)
    return min(rise, fall) / max(rise, fall) if rise or fall else 0.0


def _increases(found: Training, reading: str, words: str) -> Finding:
    lines = getattr(found, reading)
    ranks = [float(spearmanr(np.arange(len(line)), line).statistic) for line in lines]
    middle = float(np.median(ranks))
    over = f"{min(ranks):.2f} to {max(ranks):.2f} over {len(ranks)} seeds"
    return f"median {middle:.2f}, {over}", min(ranks) > 0, middle >= INCREASING


def _ends_linear(found: Training, reading: str, words: str) -> Finding:
    late = getattr(found, reading)[:, -LATE:].mean(axis=1)
    told = f"{late.mean():.3f} ± {late.std(ddof=1):.3f} over the seeds"
    return told, late.mean() >= NEARLY, late.mean() >= LINEAR


def _gets_non_linear(found: Training, reading: str, words: str) -> Finding:
    change: Array = found.after.mean(axis=1) - getattr(found, reading).mean(axis=1)
    falls, count = int((change < 0).sum()), len(change)
    told = f"by {-change.mean():.3f} ± {change.std(ddof=1):.3f}, for {falls} of {count}"
    return told, change.mean() < 0, falls == count


def _turns(found: Training) -> Finding:
    before, after = ([turning(line) for line in some] for some in (found.before, found.after))
    obtained = f"median {np.median(after):.2f}, least {min(after):.2f}; "
    obtained += f"at initialization {np.median(before):.2f}"
    return obtained, np.median(after) >= SOME, min(after) >= TURN


def _tells_training(found: Training, reading: str, words: str) -> Finding:
    before, count = getattr(found, reading), len(found.after)
    matrix = dtw_matrix([*before, *found.after])
    across = matrix[:count, count:]
    among = matrix[count:, count:][np.triu_indices(count, 1)]
    spans = [f"{some.min():.2f} to {some.max():.2f}" for some in (across, among)]
    return " against ".join(spans), across.mean() > among.mean(), across.min() > among.max()


def _end_is_alive(found: Training) -> Finding:
    alive, counts = np.all(found.scored[:, -LATE:], axis=1), found.scored.sum(axis=1)
    scored = " to ".join(map(str, sorted({counts.min(), counts.max()})))
    obtained = f"for {alive.sum()} of {len(alive)} seeds; scored are {scored} of "
    obtained += f"{found.scored.shape[1]} calls"
    return obtained, alive.mean() > 0.5, alive.all()


@styled()
def draw_training(found: Training) -> dict[str, Drawn]:
    """Draw all readings, with the range over the seeds; gray where none has a score unguarded."""
    calls = range(1, found.before.shape[1] + 1)
    curves = {"initial, as published": found.before, "trained": found.after}
    curves["initial, batch statistics"] = found.normalized
    over = "activation call of VGG16, in order of execution"
    drawn = draw_curves(calls, curves, over=over, spread="range")
    (axes,) = drawn.axes
    axes.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    for call in np.flatnonzero(~found.scored.any(axis=0)) + 1:
        axes.axvspan(call - 0.5, call + 0.5, color="0.92", linewidth=0, zorder=0)
    axes.set_xticks([call for call in calls if call % 2])
    axes.set_title(f"{len(found.before)} seeds; gray: no score without guard")
    return {"": drawn}


SIZES, TRAININGS = (
    partial(_ordered, by="batches", words="left: batch sizes", limits=SAME_ORDER),
    partial(_ordered, by="seeds", words="right: trainings", limits=ALIKE),
)
READINGS = (("before", "as published"), ("normalized", "with batch statistics"))
READ = (_increases, _ends_linear, _gets_non_linear, _tells_training)
BEFORE, OTHER = (
    [partial(rule, reading=reading, words=words) for rule in READ] for reading, words in READINGS
)
REPEATED: Rules = (_sizes_agree, SIZES, _trainings_agree, TRAININGS, _falls_with_size)
LEARNED: Rules = (*BEFORE[:3], _turns, BEFORE[3], _end_is_alive, *OTHER)
ITEMS = {
    "fig10": item_of("fig10", measure_repetitions, draw_repetitions, *REPEATED),
    "fig11": item_of("fig11", measure_training, draw_training, *LEARNED),
}
