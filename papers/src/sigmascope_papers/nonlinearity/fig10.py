"""Figure 10: the signature of VGG16 hardly depends on the size of the batches, nor on the seed of
the training.

VGG16 on CIFAR-10. Left: the network of seed 1 on 5120 test images in batches of 128, 256, … 1024; a
last batch that is not full is left out. Right: nine trainings, with seeds 1 to 9, on 2560 test
images in batches of 512. Ledoit–Wolf covariance.

The paper shows two pictures and no number, so "robust" is read in two ways. By size: on its scale
from 0 to 1, curves within a twentieth of it lie on each other, and within a tenth they are still
beside each other. By shape: the activations keep their order. That the score falls with the batch
size is no claim of the paper's text, but stands in the numbers that its authors published for
AlexNet, 0.001 to 0.014 lower with 1024 images than with 512.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import spearmanr

from sigmascope.figures import Drawn, draw_curves, new_figure, styled
from sigmascope_papers.item import Check, Item, relation
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["ITEM", "Repetitions"]

NETWORK, IMAGES = "vgg16:1", 5120
BATCHES = tuple(range(128, 1025, 128))
SEEDS = tuple(range(1, 10))
# Of the range over the batch sizes, and of twice the standard deviation over the trainings.
ABSOLUTE, BESIDE = 0.05, 0.1
# Rank correlations. The same weights should keep nearly every place; other weights may exchange
# neighbors.
SAME_ORDER, ALIKE = (0.95, 0.8), (0.8, 0.5)


@dataclass(frozen=True, eq=False)
class Repetitions:
    """Signatures of one architecture.

    Attributes:
        batches: size of the batches -> (k,), the scores of one network.
        seeds: seed of the training -> (k,).
    """

    batches: dict[int, Array]
    seeds: dict[int, Array]


def measure(setting: Setting) -> Repetitions:
    """Read or measure all signatures."""
    sizes = {
        size: setting.runs([NETWORK], images=IMAGES, batch=size, metrics=())[0] for size in BATCHES
    }
    seeds = setting.runs([f"vgg16:{seed}" for seed in SEEDS])
    return Repetitions(
        {size: run.signature.scores for size, run in sizes.items()},
        {seed: run.signature.scores for seed, run in zip(SEEDS, seeds, strict=True)},
    )


def judge(found: Repetitions) -> list[Check]:
    """Within 0.05 at every activation, in direction within 0.1; rank correlations of 0.95 (0.8) by
    batch, 0.8 (0.5) by seed.

    The trend holds where the mean score falls from 128 to 1024, clearly where it falls with nearly
    every step.
    """
    sizes, seeds = np.stack(list(found.batches.values())), np.stack(list(found.seeds.values()))
    apart = float(np.ptp(sizes, axis=0).max())
    deviation = float(seeds.std(axis=0, ddof=1).max())
    means = sizes.mean(axis=1)
    trend = float(spearmanr(list(found.batches), means).statistic)
    return [
        relation(
            "left: batch sizes agree at every activation",
            f"within {ABSOLUTE:g}",
            f"{apart:.3f} at most, signature spreads over {np.ptp(sizes.mean(axis=0)):.3f}",
            true=apart <= BESIDE,
            clear=apart <= ABSOLUTE,
        ),
        _ordered("left: batch sizes order the activations alike", sizes, SAME_ORDER),
        relation(
            "right: trainings agree at every activation",
            f"two standard deviations within {ABSOLUTE:g}",
            f"{2 * deviation:.3f} at most, signature spreads over {np.ptp(seeds.mean(axis=0)):.3f}",
            true=2 * deviation <= BESIDE,
            clear=2 * deviation <= ABSOLUTE,
        ),
        _ordered("right: trainings order the activations alike", seeds, ALIKE),
        relation(
            "the score falls with the batch size (the authors' AlexNet)",
            "rank correlation −0.8 or less",
            f"{trend:.2f}; mean {means[0]:.4f} at {BATCHES[0]}, {means[-1]:.4f} at {BATCHES[-1]}",
            true=bool(means[-1] < means[0]),
            clear=trend <= -0.8,
        ),
    ]


def _ordered(claim: str, scores: Array, limits: tuple[float, float]) -> Check:
    clear, least = limits
    ranks = [float(spearmanr(one, other).statistic) for one, other in combinations(scores, 2)]
    return relation(
        claim,
        f"rank correlations of {clear} or more",
        f"{min(ranks):.2f} or more, {np.median(ranks):.2f} in median",
        true=min(ranks) >= least,
        clear=min(ranks) >= clear,
    )


@styled()
def draw(found: Repetitions) -> dict[str, Drawn]:
    """Draw the signature for every batch size, and beside it that of every training with their mean
    and deviation.
    """
    figure = new_figure(7, 3)
    left, right = figure.subplots(1, 2, sharey=True)
    calls = range(1, 1 + len(next(iter(found.batches.values()))))
    over = "activation call of VGG16, in order"
    curves = {str(size): scores for size, scores in found.batches.items()}
    table = [{"panel": "left", **row} for row in draw_curves(calls, curves, left, over=over).table]
    seeds = np.stack(list(found.seeds.values()))
    right.plot(
        calls,
        seeds.T,
        color="0.6",
        linewidth=0.5,
        label=["one training"] + ["_"] * (len(seeds) - 1),
    )
    mean = draw_curves(calls, {f"mean of {len(seeds)} ± std": seeds}, right, over=over)
    table += [{"panel": "right", **row} for row in mean.table]
    for seed, scores in found.seeds.items():
        points = zip(calls, scores.tolist(), strict=True)
        table += [
            {"panel": "right", "curve": f"seed {seed}", "at": at, "mean": score}
            for at, score in points
        ]
    right.set_ylabel("")
    for axes, title in ((left, "images in a batch"), (right, "seeds of the training")):
        axes.set_xticks(calls, [str(call) if call % 2 else "" for call in calls])
        axes.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, title=title, title_fontsize=8.5
        )
    return {"": Drawn(figure, (left, right), table)}


ITEM = Item(measure=measure, judge=judge, draw=draw)
