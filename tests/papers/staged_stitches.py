"""Made-up stitches of the pairs of a plan, with penalties that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sigmascope_papers.symmetry.plans import Plan
from sigmascope_papers.symmetry.stitches import FOLDER, PairStitches, Stitched, Stitches

Values = Sequence[float] | np.ndarray


def with_pairs(plan: Plan, count: int) -> Plan:
    """The same experiment with so many disjoint pairs, whatever we spend on it."""
    return replace(plan, pairs=tuple((2 * number, 2 * number + 1) for number in range(count)))


def staged(
    plan: Plan,
    penalties: Mapping[str, Values],
    noise: float = 0.1,
    *,
    accuracies: tuple[float, float] = (91.0, 92.0),
    sparsities: Mapping[str, Values] | None = None,
    chosen: Mapping[str, Values] | None = None,
) -> Stitches:
    """Stitches with these penalties on average.

    Args:
        plan: the experiment; labels without penalties are left out of its results.
        penalties: label -> (k,), in the order of the plan's layers; NaN where the accuracy is not
            known.
        noise: pairs are shifted evenly by -noise … noise, all labels and layers alike.
        accuracies: of front and back, in every pair.
        sparsities: label -> (k,); by default that of a permutation of 64 channels.
        chosen: label -> (k,), the accuracies on held-out data; by default those on the test data.
    """
    shifts = np.linspace(-noise, noise, len(plan.pairs)) if len(plan.pairs) > 1 else np.zeros(1)
    pairs = []
    for pair, shift in zip(plan.pairs, shifts, strict=True):
        rows = []
        for label, values in penalties.items():
            found = np.mean(accuracies) - np.asarray(values, dtype=np.float64) - shift
            best = (chosen or {}).get(label, found)
            sparse = (sparsities or {}).get(label, np.full(len(found), 1 - 1 / 64))
            for site, accuracy, held_out, sparsity in zip(
                plan.layers, found, best, sparse, strict=True
            ):
                rows.append(
                    Stitched(
                        site, label, 64, float(accuracy), float(held_out), 1, float(sparsity), ()
                    )
                )
        pairs.append(
            PairStitches(
                experiment=plan.name,
                networks=plan.names(pair),
                accuracies=accuracies,
                settings=plan.settings(smoke=False),
                samples=(45_000, 5_000, 10_000),
                augment="flip-shift",
                machines=("made up",),
                versions={},
                stitches=tuple(rows),
            )
        )
    return Stitches(plan, tuple(pairs))


def store(stitches: Stitches, zoo: Path) -> None:
    """Write stitches as the zoo has them."""
    (zoo / FOLDER).mkdir(parents=True, exist_ok=True)
    for pair, one in zip(stitches.plan.pairs, stitches.pairs, strict=True):
        one.save(zoo / FOLDER / stitches.plan.file_name(pair))
