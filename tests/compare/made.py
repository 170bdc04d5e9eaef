"""Signatures made of given numbers, for tests that compare, draw or report them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import t as student

from sigmascope.measure.options import Options
from sigmascope.measure.result import Coverage, Scatter, Signature, Site

OPTIONS = Options(
    covariance="ledoit-wolf",
    eps=1e-6,
    degenerate="nan",
    pool="channels",
    samples="batch",
    metrics=("cka", "norm", "sparsity", "entropy", "r2"),
    compat=False,
    activations=("pointwise",),
    channel_axis={},
    batch_axis=0,
    max_batches=None,
    max_tokens=2048,
    mode="eval",
    seed=0,
    estimator="published",
)


def made(
    name: str,
    scores: Sequence[float] | np.ndarray,
    metrics: Mapping[str, Sequence[float] | np.ndarray] | None = None,
    *,
    spread: float = 0.01,
    parameters: int = 1000,
    paths: Sequence[str] | None = None,
) -> Signature:
    """Return a signature with these scores, NaN for a site without one, and metric -> one value per
    site.

    By default the sites are pairs of ReLU calls, `layer0.relu`, `layer0.relu#1`, `layer1.relu`, …
    """
    numbers = [float(score) for score in scores]
    sites = []
    for place, score in enumerate(numbers):
        values = {metric: float(column[place]) for metric, column in (metrics or {}).items()}
        path, call = (
            (paths[place], 0) if paths is not None else (f"layer{place // 2}.relu", place % 2)
        )
        sites.append(made_site(path, call, score, values, spread))
    scored = sum(map(math.isfinite, numbers))
    coverage = Coverage(len(sites), scored, len(sites) - scored, (), (), ())
    versions = {"python": "3.12.0", "sigmascope": "0.1.0", "torch": "2.6.0"}
    return Signature(
        name,
        tuple(sites),
        coverage,
        OPTIONS,
        3,
        192,
        "weights",
        "data",
        parameters,
        "cpu",
        versions,
    )


def made_site(
    path: str, call: int, score: float, metrics: Mapping[str, float], spread: float
) -> Site:
    known = math.isfinite(score)
    return Site(
        path=path,
        call=call,
        kind="relu",
        score=score,
        scatter=Scatter(spread if known else math.nan, score - 2 * spread, score + 2 * spread),
        batches=3 if known else 0,
        scores=(score - spread, score, score + spread),
        n=64,
        dim=16,
        shape=(64, 16),
        dtype="float32",
        channel_axis=1,
        axis_reason="follows linear",
        certified={"identity": 3} if known else {},
        metrics=dict(metrics),
        metric_reasons={
            metric: "made without it"
            for metric, value in metrics.items()
            if not math.isfinite(value)
        },
        reason="" if known else "the output does not vary",
    )


def populated(
    signature: Signature, *, groups: int = 8, error: float = 0.01, bias: float = 0.02, seed: int = 0
) -> Signature:
    """Return the signature with population scores: the published ones minus a bias.

    Their standard error is `error`; all sites share a fifth of the variance.
    """
    generator = np.random.default_rng(seed)
    shares = generator.standard_normal((len(signature) + 1, groups))
    shares = 0.8**0.5 * shares[1:] + 0.2**0.5 * shares[0]
    shares -= shares.mean(axis=1, keepdims=True)
    shares *= error / np.sqrt(groups / (groups - 1) * np.square(shares).sum(axis=1, keepdims=True))
    return replace(
        signature,
        options=replace(signature.options, estimator="both"),
        sites=tuple(
            populated_site(site, site.score - bias, own)
            for site, own in zip(signature.sites, shares, strict=True)
        ),
    )


def populated_site(site: Site, population: float, influence: Sequence[float] | np.ndarray) -> Site:
    """Return the site with a population score and the interval that follows from its influence."""
    groups = len(influence)
    if not math.isfinite(population):
        return replace(site, population_reason="3 samples are too few for 16 channels: 64 would do")
    stderr = math.sqrt(groups / (groups - 1) * np.square(influence).sum())
    half = float(student.ppf(0.975, groups - 1)) * stderr
    return replace(
        site,
        population=population,
        stderr=stderr,
        low=population - half,
        high=population + half,
        influence=tuple(float(share) for share in influence),
        population_n=192,
        population_reason="",
    )


def many(
    count: int = 60, *, shortest: int = 50, longest: int = 260, seed: int = 0
) -> list[Signature]:
    """Return many different networks: noisy random walks within [0, 1]."""
    generator = np.random.default_rng(seed)
    made_ones = []
    for number in range(count):
        length = int(generator.integers(shortest, longest + 1))
        walk = (
            0.8
            + 0.02 * generator.standard_normal(length).cumsum()
            + 0.03 * generator.standard_normal(length)
        )
        made_ones.append(
            made(
                f"network-{number:02d}",
                walk.clip(0, 1),
                parameters=int(generator.integers(10**5, 10**8)),
            )
        )
    return made_ones
