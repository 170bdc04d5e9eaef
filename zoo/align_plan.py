"""How much the experiment on lines computes, counted and not measured."""

from __future__ import annotations

from collections import Counter

import torch
from align_jobs import BATCH, COMPARED, FEATURES, SHARES, WAYS, Job, Options, build
from recipes import RECIPES
from torch.utils.flop_counter import FlopCounterMode

from sigmascope.symmetry.interpolation import has_batch_norm

TRAINED = 50000  # images of an epoch; forward and backward pass count three times


def plan(jobs: list[Job], options: Options) -> list[str]:
    """Return a table of the forward passes and their operations."""
    lines = ["| network | jobs | images, forward | GFLOP each | TFLOP in all |"]
    lines += ["|---|--:|--:|--:|--:|"]
    total = 0.0
    for (family, width, pairs), count in Counter(map(_kind, jobs)).items():
        with torch.random.fork_rng(devices=[]):
            network = build(family, width).eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network(torch.zeros(1, 3, 32, 32))
        each = counter.get_total_flops() / 1e9
        epochs = options.epochs or RECIPES[family].epochs
        images = _forward(network, options.images) if pairs else 3 * TRAINED * epochs
        own = count * images * each / 1e3
        total += own
        what = "pairs" if pairs else "trainings"
        lines.append(
            f"| {family}{f' x{width}' if width > 1 else ''}, {what} | {count} | {images:,} | "
            f"{each:.3f} | {own:,.0f} |"
        )
    return [*lines, "", f"{total:,.0f} TFLOP in all."]


def _kind(job: Job) -> tuple[str, int, bool]:
    return job.family, job.width, len(job.seeds) > 1


def _forward(network: torch.nn.Module, images: int) -> int:
    """Return how many images go through a network for a pair: both corrections take two passes, and
    statistics of the ends one or, of scaled ends too, two.
    """
    ends = 1 + len(WAYS)
    passes = 1 + ends * (3 * len(SHARES) + (1 if has_batch_norm(network) else 2))
    features = 2 * 2 * FEATURES  # of both networks, for both groups
    return passes * images + features + 2 * (COMPARED + BATCH)
