"""Signatures for the report: many of them, with the paths of real networks, and some that mean
harm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sigmascope.measure.result import Coverage, Scatter, Signature, Skipped
from tests.compare.made import made

METRICS = (
    "cka",
    "norm",
    "norm_per_sample",
    "sparsity_before",
    "sparsity_after",
    "sparsity",
    "entropy",
    "r2",
)

# Each sets window.harmed, or fetches, if it is ever read as anything but text.
HOSTILE = (
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 1'>",
    '"><svg onload="window.harmed = 1">',
    "<!--<script>window.harmed = 1//",
    "]]><style>*{display:none}</style>",
    "</title></head><body onload=window.harmed=1>",
    "javascript:window.harmed=1",
    "{{data}}{{scripts}}",
    "${window.harmed = 1}",
    "\\u003cscript\\u003ewindow.harmed = 1\\u003c/script\\u003e",
    "&lt;img src=x onerror=window.harmed=1&gt;",
    "\u2028window.harmed = 1\u2029",
    "\u202egnihtyreve sesrever\u202c",
    "__proto__",
    "constructor",
    "lone \ud800 surrogate, \U0001f9e0\U0001f9e0 and \x00\x07 controls",
    "url(https://example.invalid/leak)",
    "x" * 400,
    "",
)


def residual_paths(blocks: int) -> list[tuple[str, int]]:
    """The calls of a residual network as torchvision names them: three calls of one module in every
    block.
    """
    return [
        ("relu", 0),
        *(
            (f"layer{1 + 4 * block // blocks}.{block}.relu", call)
            for block in range(blocks)
            for call in range(3)
        ),
    ]


def transformer_paths(layers: int) -> list[tuple[str, int]]:
    return [(f"encoder.layers.encoder_layer_{layer}.mlp.1", 0) for layer in range(layers)]


def example(
    name: str,
    calls: Sequence[tuple[str, int]],
    *,
    kind: str = "relu",
    seed: int = 0,
    metrics: bool = True,
) -> Signature:
    """A signature whose scores alternate within a block and drift with depth, as those of real
    networks do.
    """
    generator = np.random.default_rng(seed)
    depth = np.linspace(0, 1, len(calls))
    scores = (
        0.82
        - 0.15 * depth
        - 0.22 * np.array([call % 3 == 1 for _, call in calls])
        + 0.03 * generator.standard_normal(len(calls))
    )
    columns = (
        {
            metric: generator.random(len(calls)) * (40 if metric == "norm" else 1)
            for metric in METRICS
        }
        if metrics
        else {}
    )
    plain = made(
        name,
        scores.clip(0, 1),
        columns,
        paths=[path for path, _ in calls],
        parameters=int(generator.integers(10**6, 10**8)),
    )
    sites = tuple(
        replace(
            site,
            call=call,
            kind=kind,
            scatter=replace(site.scatter, std=0.002 + 0.01 * float(generator.random())),
            dim=64 * 2 ** (4 * place // len(calls)),
            n=64,
        )
        for place, (site, (_, call)) in enumerate(zip(plain.sites, calls, strict=True))
    )
    return replace(plain, sites=sites, data=f"{seed:032x}", model=f"{seed + 1:032x}")


def gapped() -> Signature:
    """A network of which some calls have no score, some are skipped and some modules never ran."""
    found = example("gapped", residual_paths(6), seed=5)
    lost = replace(
        found.sites[4],
        score=math.nan,
        scatter=Scatter(math.nan, math.nan, math.nan),
        reason="the output does not vary (3 of 3 batches)",
    )
    skipped = (Skipped("mask", 1, "dropout", "no score is defined for it"),)
    coverage = Coverage(
        len(found) + 1,
        len(found) - 1,
        1,
        skipped,
        ("classifier.unused",),
        ("the gates of lstm are not seen",),
    )
    return replace(found, sites=(*found.sites[:4], lost, *found.sites[5:]), coverage=coverage)


def without_scores() -> Signature:
    return made("nothing measured", [math.nan, math.nan])


def survey(count: int = 60, *, metrics: bool = True, longest: int = 260) -> list[Signature]:
    """As many networks as the report must carry, of 50 to 260 sites each."""
    generator = np.random.default_rng(0)
    found = []
    for number in range(count):
        sites = int(generator.integers(50, longest + 1))
        residual = bool(generator.integers(2))
        calls = residual_paths(sites // 3) if residual else transformer_paths(sites)
        kind = "resnet" if residual else "vit_b"
        name = f"torchvision/{kind}{sites}-trained-on-imagenet1k-v{number % 3}"
        found.append(
            example(name, calls, kind="relu" if residual else "gelu", seed=number, metrics=metrics)
        )
    return found


def hostile() -> list[Signature]:
    """Networks that carry a hostile text wherever a file can carry one."""
    found = []
    for number, text in enumerate(HOSTILE):
        base = example(
            text,
            [(text, 0), (f"block.0.{text}", 0), (f"block.1.{text}", 1)],
            kind=text,
            seed=number,
        )
        sites = tuple(
            replace(site, reason=text, certified={text: 1}, metrics=site.metrics | {text: 0.5})
            for site in base.sites
        )
        coverage = Coverage(4, 3, 0, (Skipped(text, 0, text, text),), (text,), (text,))
        options = replace(
            base.options, pool=f"function {text}", channel_axis={text: 1}, activations=(text,)
        )
        versions = base.versions | {text: text}
        found.append(
            replace(
                base,
                sites=sites,
                coverage=coverage,
                options=options,
                device=text,
                versions=versions,
                data=text,
                model=text,
            )
        )
    return found
