"""Figure 11: the signature of VGG16 at initialization and after training.

VGG16 from nine seeds, each with its weights at initialization and after training on CIFAR-10; five
batches of 512 test images, Ledoit–Wolf covariance. The paper shows one network, trained on
ImageNet, and runs it on CIFAR-10.

An untrained network is read in three ways. As published: where outputs hardly vary, the guard of
the published code sets a value, which tends to 1 as they die out. Without the guard: such calls
have no score. With batch statistics: batch norms use those of the batch, as in the first step of
training, so that nothing dies out. What is said of an untrained network, alone or beside a trained
one, is judged as published and with batch statistics.

How far a signature is from monotone is measured by its return: of the largest rise and the largest
fall between two calls, in order of execution, the smaller divided by the larger. It is 0 for a
monotone signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from sigmascope.catalog import data, model
from sigmascope.figures import Drawn, draw_curves, styled
from sigmascope.maths.warping import dtw_matrix
from sigmascope.measure.signature import Signature
from sigmascope.measure.survey import signature
from sigmascope.runs import Run
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.nonlinearity.lineup import Array
from sigmascope_papers.setting import BATCH, DATA, IMAGES, Setting

__all__ = ["ITEM", "Training", "turning"]

SEEDS = range(1, 10)
INCREASING = 0.9  # a rank correlation that leaves room for a few neighbors to swap, not more
LATE, LINEAR, NEARLY = 3, 0.95, 0.9
# a quarter of the way back is seen in a figure; a tenth is more than batches move a score
TURN, SOME = 0.25, 0.1
PUBLISHED, BATCHES = "as published", "with batch statistics"


@dataclass(frozen=True, eq=False)
class Training:
    """Scores (seeds, calls) of all seeds.

    Attributes:
        before: at initialization, as published.
        after: after training.
        scored: which calls have a score at initialization without the guard.
        normalised: at initialization, with batch statistics.
    """

    before: Array
    after: Array
    scored: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    normalised: Array


def measure(setting: Setting) -> Training:
    """Read or measure the signatures of all seeds."""
    first, last = ([f"vgg16:{seed}{moment}" for seed in SEEDS] for moment in ("-init", ""))
    without = _scores(setting.runs(first))
    return Training(
        before=_scores(setting.runs(first, degenerate="released", metrics=())),
        after=_scores(setting.runs(last)),
        scored=np.isfinite(without),
        normalised=np.array([_normalised(setting, f"sigmascope/{name}").scores for name in first]),
    )


def _scores(runs: Sequence[Run]) -> Array:
    return np.array([run.signature.scores for run in runs])


def _normalised(setting: Setting, name: str) -> Signature:
    """Measure a network whose batch norms use the statistics of the batch."""

    def work() -> Signature:
        entry = model(name)
        batches = data(
            DATA, root=setting.data_root, batch_size=BATCH, limit=IMAGES, transform=entry.transform
        )
        return signature(
            entry.network.train(), batches, mode="as-is", name=name, progress=setting.progress
        )

    return setting.signature(name, f"{DATA} batch statistics", work)


def turning(scores: Array) -> float:
    """Return how far a curve (k,) goes the other way: 0 if it is monotone, 1 if it falls as far as
    it rises.

    >>> turning(np.array([0.0, 4.0, 3.0])), turning(np.array([1.0, 2.0, 5.0]))
    (0.25, 0.0)
    """
    # later less earlier
    steps = np.subtract.outer(scores, scores)[np.tril_indices(len(scores), -1)]
    rise, fall = max(float(steps.max()), 0.0), max(float(-steps.min()), 0.0)
    return min(rise, fall) / max(rise, fall) if rise or fall else 0.0


def judge(found: Training) -> list[Check]:
    """Each claim is judged over the seeds; see the functions below. Those that need an untrained
    network have two readings.
    """
    return [
        _increases(found.before, PUBLISHED),
        _ends_linear(found.before, PUBLISHED),
        _gets_non_linear(found.before, found.after, PUBLISHED),
        _turns(found),
        _tells_training(found.before, found.after, PUBLISHED),
        _end_is_alive(found),
        _increases(found.normalised, BATCHES),
        _ends_linear(found.normalised, BATCHES),
        _gets_non_linear(found.normalised, found.after, BATCHES),
        _tells_training(found.normalised, found.after, BATCHES),
    ]


def _increases(before: Array, reading: str) -> Check:
    """The rank correlation with depth is above 0 for every seed; clearly if at least 0.9 for the
    median one.
    """
    ranks = [float(spearmanr(np.arange(len(line)), line).statistic) for line in before]
    return relation(
        f"at initialization the score increases with depth, {reading}",
        f"rank correlation at least {INCREASING}",
        f"median {np.median(ranks):.2f}, {min(ranks):.2f} to {max(ranks):.2f} over "
        f"{len(ranks)} seeds",
        true=min(ranks) > 0,
        clear=float(np.median(ranks)) >= INCREASING,
    )


def _ends_linear(before: Array, reading: str) -> Check:
    """The last three calls score 0.9 in the mean; clearly if 0.95."""
    late = before[:, -LATE:].mean(axis=1)
    return relation(
        f"at initialization the last layers are almost linear, {reading}",
        f"mean of the last {LATE} at least {LINEAR}",
        f"{late.mean():.3f} ± {late.std(ddof=1):.3f} over the seeds",
        true=bool(late.mean() >= NEARLY),
        clear=bool(late.mean() >= LINEAR),
    )


def _gets_non_linear(before: Array, after: Array, reading: str) -> Check:
    """The mean score falls in the mean over the seeds; clearly if for every seed."""
    change = after.mean(axis=1) - before.mean(axis=1)
    return relation(
        f"training makes the network more non-linear, {reading}",
        f"the mean falls, for each of {len(change)} seeds",
        f"by {-change.mean():.3f} ± {change.std(ddof=1):.3f}, for {(change < 0).sum()} of "
        f"{len(change)}",
        true=bool(change.mean() < 0),
        clear=bool((change < 0).all()),
    )


def _turns(found: Training) -> Check:
    """The median return is at least a tenth; clearly if at least a quarter for every seed."""
    before, after = ([turning(line) for line in some] for some in (found.before, found.after))
    return relation(
        "after training the score is not monotone in depth",
        f"return at least {TURN}",
        f"median {np.median(after):.2f}, least {min(after):.2f}; at initialization "
        f"{np.median(before):.2f}",
        true=float(np.median(after)) >= SOME,
        clear=min(after) >= TURN,
    )


def _tells_training(before: Array, after: Array, reading: str) -> Check:
    """Signatures before and after differ more than those of trained seeds in the mean; clearly if
    the least more than any.
    """
    matrix = dtw_matrix([*before, *after])
    count = len(before)
    across = matrix[:count, count:]
    among = matrix[count:, count:][np.triu_indices(count, 1)]
    return relation(
        f"the signature tells training from none, {reading}",
        "every distance before–after above all between trained seeds",
        f"{across.min():.2f} to {across.max():.2f} against {among.min():.2f} to {among.max():.2f}",
        true=bool(across.mean() > among.mean()),
        clear=bool(across.min() > among.max()),
    )


def _end_is_alive(found: Training) -> Check:
    """The last three calls have scores of their own in most seeds; clearly if in all."""
    late = found.scored[:, -LATE:]
    return relation(
        "ours: the last layers, at initialization, do vary",
        f"a score for the last {LATE} without the guard",
        f"for {late.all(axis=1).sum()} of {len(late)} seeds; scored are "
        f"{found.scored.sum(axis=1).min()} to "
        f"{found.scored.sum(axis=1).max()} of {found.scored.shape[1]} calls",
        true=bool(late.all(axis=1).mean() > 0.5),
        clear=bool(late.all()),
    )


@styled()
def draw(found: Training) -> dict[str, Drawn]:
    """Draw all readings, with the range over the seeds; where no seed has a score without the
    guard, the ground is gray.
    """
    calls = range(1, found.before.shape[1] + 1)
    curves = {"initial, as published": found.before, "trained": found.after}
    curves["initial, batch statistics"] = found.normalised
    drawn = draw_curves(
        calls, curves, over="activation call of VGG16, in order of execution", spread="range"
    )
    (axes,) = drawn.axes
    axes.axhline(1, color="0.5", linewidth=0.5, zorder=0.5)
    for call in np.flatnonzero(~found.scored.any(axis=0)) + 1:
        axes.axvspan(call - 0.5, call + 0.5, color="0.92", linewidth=0, zorder=0)
    axes.set_xticks([call for call in calls if call % 2])
    axes.set_title(f"{len(found.before)} seeds; gray: no score without guard")
    return {"": drawn}


ITEM = Item(measure=measure, judge=judge, draw=draw)
