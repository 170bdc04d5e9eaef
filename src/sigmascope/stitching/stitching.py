"""Stitching in one call: `stitch`, `stitch_many` and `cross_validate`; see `Stitcher`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import nn

from sigmascope.choices import Family, Preset
from sigmascope.maths.samples import Array
from sigmascope.stitching.result import CrossValidation, StitchResult
from sigmascope.stitching.settings import Settings, StitchOptions
from sigmascope.stitching.setup import Task
from sigmascope.stitching.stitcher import ALPHAS, Stitcher, StitcherOptions
from sigmascope.symmetry.monomial import Monomial


class StitchKeywords(StitcherOptions, StitchOptions, total=False):
    """Further keywords of `stitch`: those of `Stitcher`, of `Stitcher.fit`, and of `Settings`."""

    checkpoint: str | Path | None


def stitch(
    front: nn.Module,
    back: nn.Module,
    batches: Any = None,
    *,
    site: str | None = None,
    family: Family = "relu-group",
    preset: Preset | Settings = "paper",
    element: Monomial | Array | None = None,
    seed: int | torch.Generator = 0,
    **options: Unpack[StitchKeywords],
) -> StitchResult:
    """Return the front of one network stitched to the back of another, and the accuracy it costs.

    Only the stitch is trained, a matrix on the channels of one site (Godfrey et al., NeurIPS 2022,
    arXiv:2205.14258). `Stitcher` has the same for several stitches.

    Args:
        front: see `Stitcher`, as for all arguments that are not explained here.
        back: see `Stitcher`.
        batches: see `Stitcher`.
        site: see `Stitcher`.
        family: what the stitch may be: any matrix ("full"), one of low rank ("low-rank", rank=), a
            sparse one ("lasso", strength=), an element of the group of ReLU through the Birkhoff
            polytope ("relu-group", alpha=) or SoftSort ("softsort"). Or not trained: the identity
            ("identity"), the matrix closest to the features of the back ("least-squares"), the best
            permutation with ratios of norms ("permutation"), a given one ("fixed", element=).
        preset: see `Stitcher`.
        element: for the family "fixed", or to begin with if start="given": a group element or
            scaled permutation (c, c), from the channels of the front to those of the back.
        seed: see `Stitcher`.
        **options: those of `Stitcher` (style, cache_front, names, progress); `checkpoint`, a file
            from which an interrupted run continues, on the same kind of device, to the same result;
            and any of `Settings` that the family reads, such as epochs=5, batch=256,
            select_on="test".

    Raises:
        NetworkError: a network that cannot be traced, or two that differ in structure.
        OptionError: an unknown site, family, preset or setting, or a setting that the family does
            not read.
        InputError, InputTypeError: data or shapes that do not fit.
        ResumeError: the checkpoint belongs to another run, or is open in one.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> x = torch.randn(64, 2)
    >>> samples = (x, (x[:, 0] > 0).long())
    >>> stitch(net, net, (samples, samples), site="1", family="identity").penalty
    0.0
    """
    given: dict[str, Any] = dict(options)
    held = {name: given.pop(name) for name in StitcherOptions.__annotations__ if name in given}
    stitcher = Stitcher(front, back, batches, site=site, preset=preset, seed=seed, **held)
    return stitcher.fit(family, element=element, **given)


def stitch_many(
    front: nn.Module,
    back: nn.Module,
    tasks: Sequence[Task],
    batches: Any = None,
    *,
    site: str | None = None,
    preset: Preset | Settings = "paper",
    seed: int | torch.Generator = 0,
    checkpoint: str | Path | None = None,
    **options: Unpack[StitcherOptions],
) -> list[StitchResult]:
    """Return `Stitcher(...).fit_many(tasks, ...)`; see there and `stitch`.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> tasks = [Task("low-rank", {"rank": rank}) for rank in (1, 2)]
    >>> found = stitch_many(net, net, tasks, (samples, samples), site="1", preset="fast")
    >>> [one.settings.rank for one in found]
    [1, 2]
    """
    stitcher = Stitcher(front, back, batches, site=site, preset=preset, seed=seed, **options)
    return stitcher.fit_many(tasks, checkpoint=checkpoint)


def cross_validate(
    front: nn.Module,
    back: nn.Module,
    batches: Any = None,
    *,
    site: str | None = None,
    alphas: Iterable[float] = ALPHAS,
    preset: Preset | Settings = "paper",
    seed: int | torch.Generator = 0,
    **options: Unpack[StitchKeywords],
) -> CrossValidation:
    """Return `Stitcher(...).cross_validate(alphas, ...)`; see there and `stitch`.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> both = (samples, samples)
    >>> found = cross_validate(net, net, both, site="1", alphas=(0.1, 1), preset="fast", epochs=1)
    >>> len(found.results)
    2
    """
    given: dict[str, Any] = dict(options)
    held = {name: given.pop(name) for name in StitcherOptions.__annotations__ if name in given}
    stitcher = Stitcher(front, back, batches, site=site, preset=preset, seed=seed, **held)
    return stitcher.cross_validate(alphas, **given)
