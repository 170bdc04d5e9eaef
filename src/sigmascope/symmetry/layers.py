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

from sigmascope import choices
from sigmascope.checks import check_choice, with_old_names
from sigmascope.maths.procrustes import Matrix
from sigmascope.measure.progress import progress_bar, steps_of
from sigmascope.symmetry.cross_grams import check_pairs, pairs_of
from sigmascope.symmetry.layer_similarity import LayerSimilarity, Missing
from sigmascope.symmetry.passes import Tap, items_of, tapped
from sigmascope.symmetry.rounds import Rounds
from sigmascope.symmetry.similarity_options import (
    CkaOptions,
    CompareKeywords,
    ProcrustesOptions,
    compare_options,
)
from sigmascope.symmetry.single_pass import SinglePass


@with_old_names(model_a="a", model_b="b")
def compare(
    a: nn.Module,
    b: nn.Module,
    batches: Any,
    *,
    measure: choices.Measure = "procrustes",
    group: choices.SimilarityGroup = "relu",
    pairs: choices.Pairs = "all",
    options: ProcrustesOptions | CkaOptions | None = None,
    **more: Unpack[CompareKeywords],
) -> LayerSimilarity:
    """Return the similarity of every activation of network a with every activation of network b.

    Procrustes takes one pass over the data and keeps no features, only sums: 8 bytes for every
    channel of one network times every channel of the other. CKA needs all samples of a layer at
    once; it takes as many passes as `memory` asks for, and keeps one kernel (n, n) for each layer.
    The state of both networks is preserved. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        a: any `nn.Module`; its activation calls become the rows.
        b: another one; its activation calls become the columns.
        batches: a loader, a list of batches, or one batch, as for `sigmascope.signature`. For CKA
            it is read several times and must come in one order each time.
        measure: "procrustes" or "cka"; see these functions.
        group: "relu" or "orthogonal".
        pairs: "all", or "diagonal" for layers at the same place only; other pairs are then NaN.
        options: all further options as one object; keywords take precedence.
        **more: further options:
            names: of the networks; by default their classes.
            progress: whether to show a progress bar, on a terminal; True.
            dtype: of the products, "float32" (the default; accurate to about 1e-6, for Procrustes
                less with nearly equal features) or "float64"; sums over batches are float64.
            normalizer: of Procrustes, "authors" or "live", see `procrustes`.
            kernel, normalize, centered: of CKA, see `cka`.
            memory: for CKA, bytes of features in memory at a time, and of kernels before they are
                written to files; 2e9.
            folder: directory for these files, which are removed at the end; by default temporary.
            activations: which kinds, see `sigmascope.signature`.
            channel_axis: pattern of a path -> axis of the channels, where the detected one is
                wrong.
            batch_axis: the axis of the samples in the inputs; 0.
            forward: a function of a network and a batch that runs the network, for batches of any
                other form.
            max_batches: stop after so many.
            seed: of the loader and of random networks, a whole number or a torch.Generator; 0.

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
    check_choice("group", group, choices.SimilarityGroup)
    check_choice("pairs", pairs, choices.Pairs)
    chosen = compare_options(measure, more, options)
    names = chosen.names or ("", "")
    with ExitStack() as stack:
        rows = stack.enter_context(tapped(a, chosen, names[0]))
        columns = stack.enter_context(tapped(b, chosen, names[1]))
        if isinstance(chosen, ProcrustesOptions):
            found = _by_procrustes((rows, columns), batches, chosen, group, pairs)
        else:
            found = _by_cka((rows, columns), batches, chosen, group, pairs)
    missing = [
        Missing(found.sites[0][i], found.sites[1][j], reason)
        for (i, j), reason in found.reasons.items()
    ]
    missing += [Missing(site, "", reason) for site, reason in rows.failures.items()]
    missing += [Missing("", site, reason) for site, reason in columns.failures.items()]
    return LayerSimilarity(
        measure=measure,
        group=group,
        settings=chosen.shown(group),
        networks=(rows.name, columns.name),
        rows=found.sites[0],
        columns=found.sites[1],
        similarities=tuple(tuple(float(value) for value in row) for row in found.similarity),
        channels=found.channels,
        live=found.live,
        pairs=pairs,
        samples=found.samples,
        missing=tuple(missing),
    )


@dataclass(frozen=True)
class _Found:
    """Sites of both networks, their similarities, and (row, column) -> why there is none."""

    sites: tuple[tuple[str, ...], tuple[str, ...]]
    channels: tuple[tuple[int, ...], tuple[int, ...]]
    live: tuple[tuple[int, ...], tuple[int, ...]]
    similarity: Matrix
    reasons: dict[tuple[int, int], str]
    samples: int


def _by_procrustes(
    taps: tuple[Tap, Tap], batches: Any, options: ProcrustesOptions, group: str, pairs: str
) -> _Found:
    single = SinglePass(taps, options, pairs)
    steps = steps_of(batches, options.max_batches)
    with progress_bar(_title(taps), steps, shown=options.progress) as advance:
        for item in items_of(batches, options):
            single.take(item)
            advance()
    live = single.sums.live()
    similarity, reasons = single.similarities(group)
    rows, columns = single.channels
    channels = (tuple(rows.values()), tuple(columns.values()))
    sites = (tuple(rows), tuple(columns))
    return _Found(sites, channels, live, similarity, reasons, single.samples)


def _by_cka(
    taps: tuple[Tap, Tap], batches: Any, options: CkaOptions, group: str, pairs: str
) -> _Found:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rounds = Rounds(taps, batches, options, options.reduction(group), Path(folder))
        steps = rounds.prepare()
        check_pairs(pairs, *map(len, rounds.layers))
        with progress_bar(_title(taps), steps, shown=options.progress) as advance:
            rounds.run(advance)
        similarity, reasons = rounds.similarities()
    asked = set(pairs_of(pairs, *similarity.shape))
    for pair in np.ndindex(*similarity.shape):
        if pair not in asked:
            similarity[pair] = math.nan
    known = {pair: reason for pair, reason in reasons.items() if pair in asked}
    rows, columns = rounds.layers
    sites = tuple(one.site for one in rows), tuple(one.site for one in columns)
    channels = tuple(one.shape[0] for one in rows), tuple(one.shape[0] for one in columns)
    x, y = (tuple(rounds.live.get(one, 0) for one in side) for side in rounds.layers)
    return _Found(sites, channels, (x, y), similarity, known, rounds.samples)


def _title(taps: tuple[Tap, Tap]) -> str:
    return " and ".join(tap.name for tap in taps)
