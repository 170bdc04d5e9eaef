"""Why are the correlations of ResNet-18 not the paper's, though its weights are (real-table2)?

    python papers/why/resnet18.py

Its images are others, and it has 17 calls. From stored signatures, in seconds: the correlations of
the score with each metric on pictures, on enlarged images of CIFAR-10 and on noise; how far they
move when one call is left out; and without the calls of 512 channels, to which a batch of 512
images is fitted exactly, so that their R² is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sigmascope.measure.result import Signature
from sigmascope_papers.chance import Array
from sigmascope_papers.nonlinearity.published import METRICS, TABLE_2
from sigmascope_papers.real.measuring import signatures
from sigmascope_papers.setting import BATCH, Setting

NETWORK = "resnet18"
SOURCES = ("pictures", "cifar10", "noise")


class Row(NamedTuple):
    """The correlation of the score with a metric, and what becomes of it with fewer calls."""

    whole: float
    without_one: Array
    without_widest: float


def row(one: Signature, metric: str) -> Row:
    """Return the correlations over the calls of a network."""
    both = np.array([one.scores, [site.metrics[metric] for site in one.sites]])
    narrow = np.array([site.dim < BATCH for site in one.sites])

    def r(chosen: Array) -> float:
        return float(np.corrcoef(chosen)[0, 1])

    rest = [r(np.delete(both, place, axis=1)) for place in range(both.shape[1])]
    return Row(r(both), np.array(rest), r(both[:, narrow]))


def main() -> None:
    """Print a row for each metric and each kind of images."""
    print("| metric | paper | images | here | without one call | without the last | d < 512 |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for metric, paper in zip(METRICS, TABLE_2[NETWORK], strict=True):
        for source in SOURCES:
            [one] = signatures(Setting(), [NETWORK], source=source).values()
            found = row(one, metric)
            rest = found.without_one
            told = f"{metric} | {paper:.2f} | {source} | {found.whole:.2f}"
            told += f" | {rest.min():.2f} to {rest.max():.2f} | {rest[-1]:.2f}"
            print(f"| {told} | {found.without_widest:.2f} |")


if __name__ == "__main__":
    main()
