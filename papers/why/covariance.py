"""Why are unbiased scores of layers with many channels per image lower, not higher?

    python papers/why/covariance.py DATA

DATA holds `cifar10/test_images.npy` and the like, see `zoo/README.md`.

The item `beyond-covariance` expected that unbiased scores exceed those with the Ledoit-Wolf
covariance the more, the more channels d a layer has per image n, as for independent normal inputs
(fig9). Two things could be in doubt. Our networks: they have 1.5 n channels at most. Then networks
of ImageNet, with up to 4 n, would show what was expected. Or the claim: channels of a layer are not
independent. Then normal inputs whose eigenvalues decay as those of layers do would show what our
networks show. The first was written down before a network of ImageNet was scored with unbiased
covariances; normal inputs had been scored once, in a pilot.

Fetches both networks and pictures, 250 MB, once. A few minutes on one core.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
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
OURS = tuple(f"sigmascope/{name}:0" for name in ("convnext", "vit", "mobilenetv2", "efficientnet"))
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
    """Print the shift of calls, and the decay of their eigenvalues, by channels per image."""
    ratios, found, decays = (
        np.array([row.get(key, np.nan) for row in rows]) for key in (RATIO, "shift", "decay")
    )
    print(f"\n{title}: {len(rows)} calls")
    if len(np.unique(ratios)) > 1:
        rho = float(spearmanr(ratios, found).statistic)
        print(f"\nRank correlation of the shift with d / n: {rho:.3f}")
    print("\n| d / n | calls | mean shift | lowest | highest | decay |")
    print("|---|--:|--:|--:|--:|--:|")
    for low, high in itertools.pairwise(BINS):
        inside = (ratios > low) & (ratios <= high)
        if len(part := found[inside]):
            told = f"{part.mean():+.4f} | {part.min():+.4f} | {part.max():+.4f}"
            print(
                f"| {low:g} to {high:g} | {len(part)} | {told} | {np.median(decays[inside]):.1f} |"
            )


def decays_in(kept: str) -> dict[str, float]:
    """Return the decay of the inputs of every call on all samples, by the call's name."""
    found = {}
    for calls in zip(*kept_calls(kept), strict=True):
        rows = [np.asarray(one.x, dtype=float) for one in calls if one.x is not None]
        found[calls[0].call.name] = decay_of(np.concatenate(rows))
    return found


def measured(name: str, net: Any, batches: Any, together: int) -> list[dict[str, Any]]:
    """Return the shift and the decay of every call of a network on 512 samples."""
    given: dict[str, Any] = {"estimator": "published", "metrics": (), "progress": False, "eps": EPS}
    with tempfile.TemporaryDirectory() as kept:
        signature(net, batches, name=name, keep=kept, **given)
        shrunk, unbiased = (
            rescore(kept, together=together, covariance=covariance, **given)
            for covariance in ("ledoit-wolf", "unbiased")
        )
        decays = decays_in(kept)
    rows = shift_rows(Estimates((shrunk,), (unbiased,), {}))
    return [{**row, "decay": decays[row["site"]]} for row in rows]


def of_imagenet(name: str) -> None:
    """Measure a network of ImageNet on pictures, and print."""
    one = network(name)
    samples = Samples("pictures", BATCH, RUN, one.side, one.prepare)
    by_ratio(f"{one.title} on {BATCH} crops", measured(name, one.trained(), samples, BATCH // RUN))


def of_ours(name: str, root: str) -> None:
    """Measure a network of the zoo on images of CIFAR-10, and print."""
    entry = model(name)
    images = data("cifar10", root=root, transform=entry.transform, limit=BATCH, batch_size=BATCH)
    by_ratio(f"{name} on {BATCH} images", measured(name, entry.network, images, 1))


def main(root: str) -> None:
    """Print everything."""
    normal_inputs()
    by_ratio("The networks of the item", shift_rows(measure(Setting())))
    for name in OURS:
        of_ours(name, root)
    for name in NETWORKS:
        of_imagenet(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
