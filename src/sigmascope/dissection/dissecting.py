r"""Network dissection: which concepts the units of a layer detect, in any basis (Bau et al. 2017,
Network Dissection).

A unit is active where its map, resized to the masks, exceeds the quantile $T_k$ of all its values.
Over all images, $\mathrm{IoU}(k, c) = \sum |M_k \cap L_c| \,/ \sum |M_k \cup L_c|$, the union on
images that are annotated for the category of c.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from sigmascope.checks import check_choice
from sigmascope.dissection.features import Features, as_features
from sigmascope.dissection.masks import Masks, as_masks
from sigmascope.dissection.result import Dissection
from sigmascope.dissection.settings import Dissecting, DissectOptions
from sigmascope.dissection.thresholds import kept_values
from sigmascope.dissection.work import Work
from sigmascope.errors import InputError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import current_versions
from sigmascope.symmetry.rotations import random_rotation, rotation_powers

__all__ = ["POWERS", "dissect"]

POWERS = tuple(step / 10 for step in range(11))
"""From the layer's own basis to the rotated one."""


def dissect(
    features: Features | Array | Iterable[Array],
    masks: Masks | Array,
    *,
    rotation: Array | None = None,
    seeds: Sequence[int] = (),
    powers: Sequence[float] | None = None,
    **options: Unpack[DissectOptions],
) -> Dissection:
    """Find the concepts that units detect, and how many do so when the layer's basis is rotated.

    Thresholds are exact. They need the largest 1 - quantile of each unit's values; where those of
    all units and bases do not fit into `memory`, the features are read again for each part that
    does. Everything else is counted in one more reading.

    Args:
        features: maps (n, c, h, w), a list of such batches, or `network_features(model, site,
            batches)`.
        masks: of the same images in the same order; or booleans (n, k, h, w).
        rotation: Q, (c, c), or several, (r, c, c): unit k of a rotated basis is row k of $Q^p$
            times the channels.
        seeds: draw a rotation with each of them instead.
        powers: p; 0, 0.1, …, 1 by default.
        **options: `quantile`, 0.995: above which of its values a unit is active. `least_iou`, 0.04:
            a unit is interpretable if its best IoU is larger. `memory`, 1e9: bytes for the largest
            values. `progress`, True: whether to show a bar on a terminal.

    Raises:
        InputError: features and masks of unequal numbers, values that are not finite, no rotation,
            a number out of range.
        InputTypeError: features that can be read only once.

    >>> maps = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> dissect(maps, maps > 0.995).best_concept
    tensor([[[0, 1, 2]]])
    """
    source, concepts = as_features(features), as_masks(masks)
    for name in options:
        check_choice("option", name, DissectOptions.__annotations__)
    settings = Dissecting(**options)
    maps = next(iter(source), None)
    if maps is None:
        raise InputError("features has no batch. Pass at least one.")
    bases = _bases(maps.shape[1], rotation, seeds, powers)
    work = Work(source, concepts, bases.matrices.to(maps.device, maps.dtype), tuple(maps.shape[1:]))
    total = concepts.samples * math.prod(maps.shape[2:])
    parts = work.parts(kept_values(total, settings.quantile) * maps.dtype.itemsize, settings.memory)
    with progress_bar(
        "Dissecting", (len(parts) + 1) * concepts.samples, shown=settings.progress
    ) as advance:
        thresholds = torch.cat(
            [work.thresholds(part, total, settings.quantile, advance) for part in parts]
        )
        overlap = work.overlap(thresholds, advance)
    place, width, device = bases.place, maps.shape[1], torch.device("cpu")
    tensors = {
        "iou": overlap.iou().view(-1, width, len(concepts.concepts)).to(device)[place],
        "thresholds": thresholds.view(-1, width).to(device)[place],
        "coverage": overlap.coverage().to(device),
    }
    return Dissection(
        name=source.name,
        samples=concepts.samples,
        units=width,
        concepts=concepts.concepts,
        about=concepts.about,
        size=concepts.size,
        quantile=float(settings.quantile),
        least_iou=float(settings.least_iou),
        powers=bases.powers,
        seeds=tuple(int(seed) for seed in seeds),
        notes=tuple(work.notes),
        versions=current_versions(),
        tensors=tensors,
    )


@dataclass(frozen=True)
class _Bases:
    """Matrices (b, c, c), the powers, and (r, p): which matrix belongs to a rotation and power."""

    matrices: Tensor
    powers: tuple[float, ...]
    place: Tensor


def _bases(
    width: int, rotation: Array | None, seeds: Sequence[int], powers: Sequence[float] | None
) -> _Bases:
    if rotation is not None and len(seeds):
        raise OptionError("rotation and seeds are two ways to say the same. Pass one of them.")
    if rotation is None and not len(seeds):
        if powers is not None:
            raise OptionError(
                "powers are of a rotation. Pass rotation=random_rotation(c, seed), or "
                "seeds=[0, 1, 2]."
            )
        return _Bases(
            torch.eye(width, dtype=torch.float64)[None], (0.0,), torch.zeros(1, 1, dtype=torch.long)
        )
    given = (
        [random_rotation(width, seed) for seed in seeds]
        if rotation is None
        else _stack(rotation, width)
    )
    chosen = tuple(POWERS if powers is None else powers)
    matrices = [torch.eye(width, dtype=torch.float64)]  # power 0 of all rotations
    place = torch.zeros(len(given), len(chosen), dtype=torch.long)
    for r, one in enumerate(given):
        for p, matrix in enumerate(rotation_powers(one, chosen)):
            if chosen[p] != 0:
                place[r, p] = len(matrices)
                matrices.append(matrix)
    if not bool((place == 0).any()):
        matrices, place = matrices[1:], place - 1
    return _Bases(torch.stack(matrices), tuple(float(p) for p in chosen), place)


def _stack(rotation: Array, width: int) -> list[Tensor]:
    given = torch.as_tensor(rotation)
    stacked = given[None] if given.ndim == 2 else given
    if stacked.ndim != 3 or stacked.shape[1:] != (width, width) or not len(stacked):
        raise InputError(
            f"rotation has the shape {tuple(given.shape)}, and the features have {width} "
            "channels. Pass (c, c)."
        )
    return list(stacked.double())
