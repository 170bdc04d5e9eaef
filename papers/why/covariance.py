"""Why are unbiased scores of layers with many channels per image lower, not higher?

    python papers/why/covariance.py

The item `beyond-covariance` expected that unbiased scores exceed those with the Ledoit-Wolf
covariance the more, the more channels d a layer has per image n, as for independent normal inputs
(fig9). Two things could be in doubt. Our networks: they have 1.5 n channels at most. Then networks
of ImageNet, with up to 4 n, would show what was expected. Or the claim: channels of a layer are not
independent. Then normal inputs whose eigenvalues decay as those of layers do would show what our
networks show. Both were written down before ResNet-50 was scored with unbiased covariances.

Fetches both networks and pictures, 250 MB, once. A few minutes on one core.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sigmascope.measure.affinity import affinity
from sigmascope.measure.kept_features import kept_calls, rescore
from sigmascope.measure.signature import signature
from sigmascope_papers.chance import Array
from sigmascope_papers.nonlinearity.beyond_covariance import RATIO, Estimates, measure, shift_rows
from sigmascope_papers.real.images import Samples
from sigmascope_papers.real.measuring import RUN
from sigmascope_papers.real.networks import network
from sigmascope_papers.setting import BATCH, EPS, Setting

NETWORKS = ("resnet50", "mobilenet_v1")
SAMPLES, DRAWS, RATIOS = 256, 3, (0.125, 0.25, 0.5, 1, 1.5, 2)
DECAYS = (0.0, 0.5, 1.0, 1.5, 2.0)  # a: the eigenvalues are k to the power of -a
FITTED = 64  # the first eigenvalues, from which the decay of a layer is read
BINS = (0.0, 0.25, 0.5, 1.0, 2.0, np.inf)  # of d / n


def correlated(dim: int, decay: float, seed: int) -> Array:
    """Return normal samples (n, d) of variance 1 in every channel, their eigenvalues decaying."""
    random = np.random.default_rng(seed)
    basis = np.linalg.qr(random.standard_normal((dim, dim)))[0]
    scales = np.arange(1, dim + 1) ** (-decay / 2)
    rows: Array = (random.standard_normal((SAMPLES, dim)) * scales) @ basis.T
    standard: Array = rows / rows.std(axis=0)
    return standard


def shift(x: Array) -> float:
    """Return by how much the unbiased score of ReLU exceeds the other."""
    y = np.maximum(x, 0)
    unbiased = affinity(x, y, covariance="unbiased", eps=EPS)
    return float(unbiased) - float(affinity(x, y, covariance="ledoit-wolf", eps=EPS))


def decay_of(x: Array) -> float:
    """Return how fast the first eigenvalues of the covariance fall: minus their log-log slope."""
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)[:FITTED] ** 2
    values = values[values > 1e-12 * values[0]]
    ranks = np.log(np.arange(1, len(values) + 1))
    return -float(np.polyfit(ranks, np.log(values), 1)[0])


def normal_inputs() -> None:
    """Print the shift for normal inputs, by decay and channels per sample."""
    print(f"Normal inputs of {SAMPLES} samples, ReLU: unbiased minus Ledoit-Wolf, {DRAWS} draws\n")
    print(f"| eigenvalues | {' | '.join(f'd = {ratio:g} n' for ratio in RATIOS)} |")
    print(f"|---|{'--:|' * len(RATIOS)}")
    for decay in DECAYS:
        means = [
            np.mean([shift(correlated(int(ratio * SAMPLES), decay, seed)) for seed in range(DRAWS)])
            for ratio in RATIOS
        ]
        listed = " | ".join(f"{mean:+.3f}" for mean in means)
        print(f"| k^-{decay:g} | {listed} |", flush=True)


def by_ratio(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the shift of calls, by channels per image."""
    ratios, found = (np.array([row[key] for row in rows]) for key in (RATIO, "shift"))
    rho = float(spearmanr(ratios, found).statistic)
    print(f"\n{title}: {len(rows)} calls, rank correlation of the shift with d / n {rho:.2f}\n")
    print("| d / n | calls | mean shift | lowest | highest |\n|---|--:|--:|--:|--:|")
    for low, high in itertools.pairwise(BINS):
        part = found[(ratios > low) & (ratios <= high)]
        if len(part):
            told = f"{part.mean():+.4f} | {part.min():+.4f} | {part.max():+.4f}"
            print(f"| {low:g} to {high:g} | {len(part)} | {told} |")


def first_calls(kept: str) -> Iterator[Array]:
    """Return the inputs of every call on all samples, (n, d)."""
    batches = kept_calls(kept)
    for calls in zip(*batches, strict=True):
        yield np.concatenate([np.asarray(one.x, dtype=float) for one in calls])


def of_imagenet(name: str) -> None:
    """Measure a network of ImageNet with both estimators, and print."""
    one = network(name)
    samples: Any = Samples("pictures", BATCH, RUN, one.side, one.prepare)
    given: dict[str, Any] = {"estimator": "published", "metrics": (), "progress": False, "eps": EPS}
    with tempfile.TemporaryDirectory() as kept:
        signature(one.trained(), samples, name=name, keep=kept, **given)
        shrunk, unbiased = (
            rescore(kept, together=BATCH // RUN, covariance=covariance, **given)
            for covariance in ("ledoit-wolf", "unbiased")
        )
        decays = [decay_of(x) for x in first_calls(kept)]
    rows = shift_rows(Estimates((shrunk,), (unbiased,), {}))
    by_ratio(f"{one.title} on {BATCH} crops", rows)
    low, middle, high = np.quantile(decays, (0.1, 0.5, 0.9))
    print(f"\nEigenvalues of the inputs fall as k^-{middle:.1f} (80 %: {low:.1f} to {high:.1f}).")


if __name__ == "__main__":
    normal_inputs()
    by_ratio("The networks of the item", shift_rows(measure(Setting())))
    for each in NETWORKS:
        of_imagenet(each)
