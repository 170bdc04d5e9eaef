"""Two networks compared layer by layer."""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from torch import nn

from sigmascope.checks import check_choice
from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.progress import progress_bar
from sigmascope.symmetry.grams import PAIRS, check_pairs, pairs_of
from sigmascope.symmetry.layer_similarity import LayerSimilarity, Missing
from sigmascope.symmetry.options import (
    AlignmentSettings,
    CompareOptions,
    KernelSettings,
    Watching,
    sorted_out,
)
from sigmascope.symmetry.passes import Tap, items_of, tapped
from sigmascope.symmetry.rounds import Rounds
from sigmascope.symmetry.single_pass import SinglePass
from sigmascope.symmetry.streaming import GROUPS

__all__ = ["LayerSimilarity", "Missing", "compare"]


def compare(
    model_a: nn.Module,
    model_b: nn.Module,
    batches: Any,
    *,
    measure: str = "procrustes",
    group: str = "relu",
    pairs: str = "all",
    names: tuple[str, str] | None = None,
    progress: bool = True,
    **options: Unpack[CompareOptions],
) -> LayerSimilarity:
    """Compare every activation of one network with every activation of another, on the same inputs.

    Procrustes takes one pass over the data and keeps no features, only sums: 8 bytes for every
    channel of the one network times every channel of the other. CKA needs all samples of a layer at
    once; it takes as many passes as `memory` asks for, and keeps one kernel (n, n) for each layer.
    Both networks are left as they were.

    Args:
        model_a: any `nn.Module`; its activation calls become the rows.
        model_b: another one; its activation calls become the columns.
        batches: a loader, a list of batches, or one batch, as for `sigmascope.signature`. For CKA
            it is read several times and must come in one order each time.
        measure: "procrustes" or "cka"; see these functions.
        group: "relu" or "orthogonal".
        pairs: "all", or "diagonal" for layers at the same place; elsewhere is then NaN.
        names: of the networks; by default their classes.
        progress: whether to show a progress bar, on a terminal.
        **options: what is less often needed. dtype: of the products, "float32" (the default; right
            to about 1e-6, but Procrustes less for nearly equal features)
                or "float64"; all sums over batches are float64.
            normaliser: of Procrustes, "authors" or "live", see `procrustes`.
            kernel, normalise, centered: of CKA, see `cka`.
            memory: for CKA, bytes of features kept at a time, and of kernels before they go to
                files; 2e9.
            folder: for these files; by default a temporary one. They are removed at the end.
            activations: which kinds, see `sigmascope.signature`.
            channel_axis: pattern of a path -> axis, where the evidence for the axis of the channels
                is overruled.
            batch_axis: the axis of the samples in the inputs; 0.
            forward: a function of a network and a batch that runs the network, for batches of any
                other form.
            max_batches: stop after so many.
            seed: of the loader and of random networks; 0.

    Returns:
        `LayerSimilarity`. Identical layers give exactly 1; a pair that cannot be compared is NaN,
        with the reason.

    Raises:
        NetworkError: a network that hides its calls.
        NoActivationError: a network without features that could be read.
        InputError, InputTypeError, OptionError: bad input, naming the remedy; also an option of the
            other measure.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> one = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
    >>> other = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU())
    >>> compare(one, other, torch.randn(256, 8), names=("one", "other"))
    Procrustes similarity, group relu: one (rows) and other, 256 samples
    <BLANKLINE>
    similarity     1 1     2 3
    1           0.5399  0.5502
    3           0.5190  0.5311
    """
    check_choice("group", group, GROUPS)
    check_choice("pairs", pairs, PAIRS)
    watching, settings = sorted_out(measure, options)
    titles = names or (type(model_a).__name__, type(model_b).__name__)
    with ExitStack() as stack:
        taps = (
            stack.enter_context(tapped(model_a, watching)),
            stack.enter_context(tapped(model_b, watching)),
        )
        task = _Task(taps, titles, batches, watching, pairs, progress)
        if isinstance(settings, AlignmentSettings):
            found = _by_procrustes(task, group, settings)
        else:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=settings.folder)))
            found = _by_cka(task, group, settings, place)
        skipped = [Missing(site, "", reason) for site, reason in taps[0].failures.items()]
        skipped += [Missing("", site, reason) for site, reason in taps[1].failures.items()]
    missing = [
        Missing(found.sites[0][i], found.sites[1][j], reason)
        for (i, j), reason in found.reasons.items()
    ]
    return LayerSimilarity(
        measure=measure,
        group=group,
        settings=settings.shown(group),
        networks=titles,
        rows=found.sites[0],
        columns=found.sites[1],
        similarities=tuple(tuple(float(value) for value in row) for row in found.similarity),
        channels=found.channels,
        live=found.live,
        pairs=pairs,
        samples=found.samples,
        missing=(*missing, *skipped),
    )


@dataclass(frozen=True)
class _Task:
    """What is run over what."""

    taps: tuple[Tap, Tap]
    names: tuple[str, str]
    batches: Any
    watching: Watching
    pairs: str
    progress: bool


@dataclass(frozen=True)
class _Found:
    """Sites and channels of both networks, their similarities, and (row, column) -> why there is none."""

    sites: tuple[tuple[str, ...], tuple[str, ...]]
    channels: tuple[tuple[int, ...], tuple[int, ...]]
    live: tuple[tuple[int, ...], tuple[int, ...]]
    similarity: Matrix
    reasons: dict[tuple[int, int], str]
    samples: int


def _by_procrustes(task: _Task, group: str, settings: AlignmentSettings) -> _Found:
    single = SinglePass(task.taps, task.names, task.watching, task.pairs, settings)
    with progress_bar(" and ".join(task.names), _length(task), shown=task.progress) as advance:
        for item in items_of(task.batches, task.watching):
            single.take(item)
            advance()
    live = single.sums.live()
    similarity, reasons = single.similarities(group)
    rows, columns = (tuple(side) for side in single.channels)
    channels = (tuple(single.channels[0].values()), tuple(single.channels[1].values()))
    return _Found((rows, columns), channels, live, similarity, reasons, single.samples)


def _by_cka(task: _Task, group: str, settings: KernelSettings, folder: Path) -> _Found:
    rounds = Rounds(
        task.taps,
        task.names,
        task.batches,
        task.watching,
        settings,
        settings.reduction(group),
        folder,
    )
    steps = rounds.prepare()
    check_pairs(task.pairs, *map(len, rounds.layers))
    with progress_bar(" and ".join(task.names), steps, shown=task.progress) as advance:
        rounds.run(advance)
    similarity, reasons = rounds.similarities()
    asked = set(pairs_of(task.pairs, *similarity.shape))
    for pair in np.ndindex(*similarity.shape):
        if pair not in asked:
            similarity[pair] = math.nan
    rows, columns = (tuple(layer.site for layer in side) for side in rounds.layers)
    channels = tuple(tuple(layer.shape[0] for layer in side) for side in rounds.layers)
    known = {pair: reason for pair, reason in reasons.items() if pair in asked}
    live = tuple(tuple(rounds.live.get(layer, 0) for layer in side) for side in rounds.layers)
    return _Found(
        (rows, columns),
        (channels[0], channels[1]),
        (live[0], live[1]),
        similarity,
        known,
        rounds.samples,
    )


def _length(task: _Task) -> int | None:
    limit = task.watching.max_batches
    try:
        count = len(task.batches)
    except TypeError:  # a generator, or a loader that has a length in name only
        return limit
    return count if limit is None else min(count, limit)
