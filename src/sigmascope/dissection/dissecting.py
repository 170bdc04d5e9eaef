r"""Network dissection: which concepts the units of a layer detect, in any basis.

The method is that of Bau et al., CVPR 2017, arXiv:1704.05796, with the rotations of Godfrey et al.,
NeurIPS 2022, arXiv:2205.14258. A unit is active where its map, resized to the masks, exceeds the
quantile $T_k$ of all its values. Over all images, $\mathrm{IoU}(k, c) = \sum |M_k \cap L_c| \,/
\sum |M_k \cup L_c|$, with the union over images that are annotated for the category of c.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor, nn

from sigmascope.checks import options_from
from sigmascope.dissection.masks import Masks, as_masks
from sigmascope.dissection.network_maps import Features, as_features, network_features
from sigmascope.dissection.readings import Readings, kept_values
from sigmascope.dissection.result import Dissection
from sigmascope.dissection.settings import DissectOptions, DissectSettings
from sigmascope.errors import InputError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import current_versions
from sigmascope.symmetry.rotations import random_rotation, rotation_powers

POWERS = tuple(step / 10 for step in range(11))
"""From the layer's own basis to the rotated one.

>>> from sigmascope import dissection
>>> dissection.POWERS[0], dissection.POWERS[-1]
(0.0, 1.0)
"""


def dissect(
    features: Features | Array | Iterable[Array],
    masks: Masks | Array,
    *,
    rotation: Array | None = None,
    seeds: Sequence[int] = (),
    powers: Sequence[float] | None = None,
    settings: DissectSettings | None = None,
    **options: Unpack[DissectOptions],
) -> Dissection:
    r"""Return the concepts that units detect, in the layer's own basis or in rotated ones.

    A unit and a concept are compared by $|A \cap M| / |A \cup M|$ over all images, where A are the
    pixels at which the unit is above its threshold, a quantile of its values, and M those of the
    concept (Bau et al., CVPR 2017, arXiv:1704.05796). Rotated bases are those of Godfrey et al.,
    NeurIPS 2022, arXiv:2205.14258.

    Thresholds are exact. They need the largest 1 - quantile of each unit's values; where those of
    all units and bases exceed `memory`, the features are read once for each part that fits.
    Everything else is counted in one more reading.

    Args:
        features: maps (n, c, h, w), a list of such batches, or `network_features(model, site,
            batches)`.
        masks: of the same images in the same order, see `pixel_masks`; or booleans (n, k, h, w).
        rotation: Q (c, c), or several (r, c, c): unit k of a rotated basis is row k of $Q^p$ times
            the channels.
        seeds: of random rotations to use instead.
        powers: p; 0, 0.1, …, 1 by default.
        settings: the quantile and other settings.
        **options: changes of the settings, such as quantile=0.99; see `DissectSettings`.

    Raises:
        InputError: features and masks of different numbers of images, values that are not finite,
            or a matrix that is not a rotation.
        InputTypeError: features that can be read only once.
        OptionError: an invalid option, or powers without a rotation.

    >>> generator = torch.Generator().manual_seed(0)
    >>> maps = torch.rand(20, 3, 8, 8, generator=generator, dtype=torch.float64)
    >>> dissect(maps, maps > 0.995).best_concept
    tensor([[[0, 1, 2]]])
    """
    source, concepts = as_features(features), as_masks(masks)
    chosen = options_from(DissectSettings, options, settings)
    maps = next(iter(source), None)
    if maps is None:
        raise InputError("features has no batch. Pass at least one.")
    width, device = maps.shape[1], torch.device("cpu")
    bases = _bases(width, rotation, seeds, powers)
    matrices = bases.matrices.to(maps.device, maps.dtype)
    readings = Readings(source, concepts, matrices, tuple(maps.shape[1:]))
    total = concepts.samples * math.prod(maps.shape[2:])
    row_bytes = kept_values(total, chosen.quantile) * maps.dtype.itemsize
    parts = readings.parts(row_bytes, chosen.memory)
    steps = (len(parts) + 1) * concepts.samples
    with progress_bar("Dissecting", steps, shown=chosen.progress) as advance:
        thresholds = torch.cat(
            [readings.thresholds(part, total, chosen.quantile, advance) for part in parts]
        )
        overlap = readings.overlap(thresholds, advance)
    iou = overlap.iou().view(-1, width, len(concepts.concepts)).to(device)
    return Dissection(
        name=source.name,
        samples=concepts.samples,
        units=width,
        concepts=concepts.concepts,
        about=concepts.about,
        size=concepts.size,
        quantile=float(chosen.quantile),
        least_iou=float(chosen.least_iou),
        powers=bases.powers,
        seeds=tuple(int(seed) for seed in seeds),
        notes=tuple(readings.notes),
        versions=current_versions(),
        tensors={
            "iou": iou[bases.place],
            "thresholds": thresholds.view(-1, width).to(device)[bases.place],
            "coverage": overlap.coverage().to(device),
        },
    )


def rotation_experiment(
    model: nn.Module,
    sites: Sequence[str | tuple[str, str]],
    batches: Any,
    masks: Masks,
    *,
    seeds: Sequence[int] = range(5),
    powers: Sequence[float] = POWERS,
    **options: Unpack[DissectOptions],
) -> dict[str, Dissection]:
    """Return dissections of sites of a network, in its own basis and in rotated ones.

    The experiment is that of Godfrey et al., NeurIPS 2022, arXiv:2205.14258. All sites of one width
    share their rotations. The control, as published, is a network trained without the activation,
    not the input of an activation.

    Args:
        model: a network with feature maps (n, c, h, w) at the sites.
        sites: names as in `network_features`, or pairs (name, "input" or "output").
        batches: of the images of the masks, in the same order.
        masks: of concepts.
        seeds: of the rotations.
        powers: of each rotation.
        **options: see `DissectSettings`.

    Returns:
        Name of the features -> dissection, in the order of the sites; see `Dissection.fraction`.

    >>> import torch
    >>> from sigmascope.dissection.masks import pixel_masks
    >>> images = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU())
    >>> masks = pixel_masks(images[:, :1] > 0.9, [("red", "color")])
    >>> found = rotation_experiment(network, ["1"], images, masks, seeds=[0, 1], powers=[0, 1])
    >>> found["1"].powers, found["1"].seeds, found["1"].iou.shape
    ((0.0, 1.0), (0, 1), torch.Size([2, 2, 4, 1]))
    """
    if not sites or isinstance(sites, str):
        raise InputError(f"sites must be a list of names such as ['blocks.2.act2'], got {sites!r}.")
    results = {}
    for site in sites:
        name, side = (site, "output") if isinstance(site, str) else site
        features = network_features(model, name, batches, side=side)
        found = dissect(features, masks, seeds=list(seeds), powers=powers, **options)
        results[features.name] = found
    return results


class _Bases(NamedTuple):
    """Matrices (b, c, c), the powers, and (r, p): the matrix of each rotation and power."""

    matrices: Tensor
    powers: tuple[float, ...]
    place: Tensor


def _bases(
    width: int, rotation: Array | None, seeds: Sequence[int], powers: Sequence[float] | None
) -> _Bases:
    if rotation is not None and len(seeds):
        raise OptionError("rotation and seeds both give rotations. Pass one of them.")
    identity = torch.eye(width, dtype=torch.float64)
    if rotation is None and not len(seeds):
        if powers is not None:
            raise OptionError("powers need a rotation. Pass rotation=Q, or seeds=[0, 1, 2].")
        return _Bases(identity[None], (0.0,), torch.zeros(1, 1, dtype=torch.long))
    drawn = [random_rotation(width, seed) for seed in seeds]
    rotations = drawn if rotation is None else _stack(rotation, width)
    chosen = tuple(POWERS if powers is None else powers)
    matrices = [identity]  # power 0 of all rotations
    place = torch.zeros(len(rotations), len(chosen), dtype=torch.long)
    for r, one in enumerate(rotations):
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
            f"rotation must be ({width}, {width}), the channels of the features, or several of "
            f"them, got the shape {tuple(given.shape)}."
        )
    return list(stacked.double())
