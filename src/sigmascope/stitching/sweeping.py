"""Many stitches: every pair of networks, at every site, of every family, one file each, so that a
sweep can be continued.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from sigmascope.errors import InputError
from sigmascope.measure.progress import progress_bar
from sigmascope.stitching.data import as_data
from sigmascope.stitching.result import StitchResult
from sigmascope.stitching.run import Task, stitch_many
from sigmascope.stitching.settings import Settings
from sigmascope.stitching.work import circumstances, settings_of
from sigmascope.store.documents import dump

__all__ = ["sweep"]

Networks = Mapping[str, nn.Module] | Callable[[str], nn.Module]


def sweep(
    networks: Networks,
    pairs: Sequence[tuple[str, str]],
    sites: Sequence[str],
    tasks: Sequence[Task],
    *,
    data: Any,
    folder: str | Path,
    preset: str | Settings = "paper",
    style: str = "auto",
    seed: int = 0,
    progress: bool = True,
) -> list[StitchResult]:
    """Stitch every pair at every site with every task; those whose file is there are read and not
    trained again.

    The name of a file depends on the weights of both networks, the data, the kind of device and all
    options, so that others get other files.

    The tasks of one pair and site are trained together, on the same batches. A network stays where
    it is, so a GPU is used if the networks are on it.

    Args:
        networks: name -> network, a mapping or a function.
        pairs: names of the front and the back.
        sites: as `at` of `stitch`.
        tasks: the stitches.
        data: see `stitch`.
        folder: for one JSON and one safetensors file per stitch.
        preset: see `stitch`.
        style: see `stitch`.
        seed: see `stitch`.
        progress: whether to show a progress bar over pairs and sites, on a terminal.

    Returns:
        The results, in the order of pairs, sites and tasks.

    Raises:
        InputError: a fixed element, which has no name for a file.
    """
    if any(task.element is not None for task in tasks):
        raise InputError("a sweep has no place for fixed elements. Use stitch_many.")
    samples = as_data(data)
    network = networks if callable(networks) else networks.__getitem__
    found: dict[Path, StitchResult] = {}
    wanted: list[Path] = []
    with progress_bar("stitches", len(pairs) * len(sites), shown=progress) as advance:
        for pair in pairs:
            front, back = map(network, pair)
            common = circumstances(front, back, samples) | {"seed": seed, "style": style}
            for site in sites:
                paths = [
                    Path(folder) / _name(pair, site, task, settings_of(task, preset), common)
                    for task in tasks
                ]
                wanted += paths
                found |= {path: StitchResult.load(path) for path in paths if path.exists()}
                missing = {
                    path: task for path, task in zip(paths, tasks, strict=True) if path not in found
                }
                if missing:
                    chosen = list(missing.values())
                    results = stitch_many(
                        front,
                        back,
                        chosen,
                        at=site,
                        data=samples,
                        preset=preset,
                        style=style,
                        seed=seed,
                        names=pair,
                        progress=False,
                    )
                    for path, result in zip(missing, results, strict=True):
                        result.save(path)
                        found[path] = result
                advance()
    return [found[path] for path in wanted]


def _name(
    pair: tuple[str, str], site: str, task: Task, settings: Settings, common: Mapping[str, object]
) -> str:
    """Return the name of a stitch's file, with a digest of all that it depends on."""
    key = {
        "pair": list(pair),
        "site": site,
        "family": task.family,
        "settings": asdict(settings),
        **common,
    }
    digest = hashlib.sha256(dump(key)).hexdigest()[:12]
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", "--".join([*pair, site, task.family]))[:120]
    return f"{readable}-{digest}.json"
