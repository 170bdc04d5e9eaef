"""Population scores in place of the published ones: a setting that reads or measures them.

Nothing here needs more than the library itself, so that `papers/population.py` runs anywhere.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.maths.grouped_sums import GROUPS
from sigmascope.measure.result import Signature, Site
from sigmascope.measure.signature import signature
from sigmascope.runs import Run, Selection
from sigmascope_papers.cast import ZOO
from sigmascope_papers.chance import Array
from sigmascope_papers.nonlinearity.lineup import BATCHES, SEEDS, batch_statistics
from sigmascope_papers.nonlinearity.published import NETWORKS
from sigmascope_papers.setting import BATCH, IMAGES, Setting

ALL = 10_000
"""The test images of CIFAR-10."""
CHANGES: dict[str, Any] = {"estimator": "population", "eps": None, "metrics": ()}
# Options of the published score alone.
WITHOUT = ("degenerate", "covariance", "compat", *CHANGES)
MOVING = 0.05  # of the sampled rows; where fewer move, the pairing hardly matters
WIDTHS = tuple(2**k for k in range(3, 12))
INDEPENDENT, CORRELATED = LAWS = "independent channels", "correlated channels"
FEWEST, PER_CHANNEL, ROWS = 4096, 8, 2048  # samples: at least, per channel, in a batch


@dataclass(frozen=True)
class PopulationSetting(Setting):
    """A setting whose signatures have population scores, on all images unless an item says else.

    Attributes:
        draw: 0 for the scores; from 1 on for a draw from their sampling distribution.
        without: the group of samples to leave out, to first order; None for none.
        keeps_moved: whether sites where the identity coupling is not optimal, on more than 5 % of
            the sampled rows, keep the published score.
        read: what was read or measured before.
    """

    draw: int = 0
    without: int | None = None
    keeps_moved: bool = False
    read: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, setting: Setting) -> PopulationSetting:
        """Return a setting with the same networks, data and directories."""
        return cls(**vars(setting))

    def runs(
        self,
        names: Sequence[str],
        *,
        data: str | None = None,
        images: int = ALL,
        batch: int = BATCH,
        **options: Any,
    ) -> list[Run]:
        """Return the signatures of networks, with facts; options of published scores are left."""
        chosen: Any = {"data": data, "batch": batch}
        own = {key: value for key, value in options.items() if key not in WITHOUT}

        def population() -> list[Run]:
            return Setting.runs(self, names, images=images, **chosen, **own, **CHANGES)

        def published() -> list[Run]:
            usual = IMAGES if images == ALL else images
            return Setting.runs(self, names, images=usual, **chosen, **options)

        what = (*names, data, images, batch, *own.items())
        found = self.remember(("population", *what), population)
        if not self.keeps_moved:
            return [replace(run, signature=self.varied(run.signature)) for run in found]
        others = self.remember(("published", *what, *options), published)
        return [
            replace(run, signature=_mixed(run.signature, other.signature))
            for run, other in zip(found, others, strict=True)
        ]

    def signature(self, name: str, kind: str, measure: Callable[..., Signature]) -> Signature:
        """Return a signature that an item measures by a procedure of its own, or that is stored."""

        def population() -> Signature:
            work = lambda: measure(images=ALL, **CHANGES)  # noqa: E731
            return Setting.signature(self, name, f"{kind} population", work)

        found = self.remember((name, kind), population)
        if not self.keeps_moved:
            return self.varied(found)
        return _mixed(found, Setting.signature(self, name, kind, measure))

    def varied(self, found: Signature, samples: str = "images") -> Signature:
        """Return a signature with the scores of this draw, or without this group of samples.

        `samples` names what the network was run on.
        """
        if self.without is not None:
            scores = [reduced(site, self.without) for site in found.sites]
        elif self.draw:
            named = [(site, f"{found.name} {site.name}") for site in found.sites]
            scores = [drawn(site, self.draw, samples, name) for site, name in named]
        else:
            return found
        pairs = zip(found.sites, scores, strict=True)
        sites = tuple(replace(site, population=score) for site, score in pairs)
        return replace(found, sites=sites)

    def _folder(self, chosen: Selection, options: Mapping[str, Any]) -> Path:
        if options.get("estimator") != "population":
            return super()._folder(chosen, options)
        own = {key: value for key, value in options.items() if key not in CHANGES}
        return super()._folder(chosen, {**own, "population": ""})

    def remember(self, key: tuple[object, ...], work: Callable[[], Any]) -> Any:
        """Return what was read or measured before under this key, or do it now."""
        words = tuple(map(str, key))
        if words not in self.read:
            self.read[words] = work()
        return self.read[words]


def moves(site: Site) -> bool:
    """Return whether more than 5 % of the sampled rows of a site move."""
    return site.moved > MOVING * site.tested


def _mixed(population: Signature, published: Signature) -> Signature:
    """Return population scores, and the published ones where rows move."""
    scores = {(site.name, site.kind): site.score for site in published.sites}
    sites = [
        replace(site, population=scores[site.name, site.kind]) if moves(site) else site
        for site in population.sites
    ]
    return replace(population, sites=tuple(sites))


def reduced(site: Site, group: int) -> float:
    """Return the score without a group of samples, to first order."""
    share = site.influence[group] if site.influence else 0.0
    return site.population - share * GROUPS / (GROUPS - 1)


def drawn(found: Any, draw: int, samples: str, name: str) -> float:
    """Return the score that another set of samples might have given, by Student's t.

    Groups of samples deviate alike for all that was measured on the same samples, so that most of a
    difference between networks cancels. What the influence of the groups does not explain of the
    standard error is drawn for each site alone.

    Args:
        found: a `Site` or a `PopulationScore`.
        draw: its number.
        samples: what the samples are.
        name: of the site.
    """
    score = float(getattr(found, "population", getattr(found, "score", math.nan)))
    if not found.influence:
        return score
    shared, stretch = _deviations(draw, samples)
    linear = math.sqrt(GROUPS / (GROUPS - 1)) * np.array(found.influence)
    rest = math.sqrt(max(0.0, found.stderr**2 - float(linear @ linear)))
    own = np.random.default_rng([draw, zlib.crc32(name.encode())]).standard_normal()
    return min(1.0, score + stretch * float(linear @ shared + rest * own))


@cache
def _deviations(draw: int, samples: str) -> tuple[Array, float]:
    """Return a standard normal number for each group, and the factor of Student's t."""
    generator = np.random.default_rng([draw, zlib.crc32(samples.encode())])
    groups, degrees = generator.standard_normal(GROUPS), GROUPS - 1
    return groups, math.sqrt(degrees / generator.chisquare(degrees))


def normal(samples: int, width: int, *, law: str = INDEPENDENT, seed: int = 0) -> Array:
    """Return normal rows (n, d), each channel of variance about 1.

    If the channels are correlated, the k-th eigenvalue of their covariance is proportional to 1/k,
    and its axes are random.
    """
    rows = np.random.default_rng([seed, width]).standard_normal((samples, width))
    return rows if law == INDEPENDENT else rows @ _mixing(width)


@cache
def _mixing(width: int) -> Array:
    eigenvalues = 1 / np.arange(1, width + 1)
    axes, _ = np.linalg.qr(np.random.default_rng(width).standard_normal((width, width)))
    mixing: Array = np.sqrt(eigenvalues / eigenvalues.mean())[:, None] * axes.T
    return mixing


class Functions(nn.Module):
    """The functions of Figure 9, each applied to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.ReLU, self.Tanh, self.Sigmoid = nn.ReLU(), nn.Tanh(), nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """Return the input, after every function has seen it."""
        for function in self.children():
            function(x)
        return x


def functions_of(setting: Setting, law: str, width: int) -> Signature:
    """Read or measure the population scores of the functions of Figure 9 at a width."""
    name = f"{law}, d = {width}"

    def work(**options: Any) -> Signature:
        samples = max(FEWEST, PER_CHANNEL * width)
        rows = torch.from_numpy(normal(samples, width, law=law, seed=samples))
        chosen: Any = {**CHANGES, **options, "name": name, "progress": setting.progress}
        return signature(Functions(), list(torch.split(rows, ROWS)), **chosen)

    return Setting.signature(setting, name, "widths population", work)


def measure_everything(setting: PopulationSetting, words: Sequence[str] = ()) -> Iterator[str]:
    """Measure all that the item reads, and yield the name of each when it is done.

    Args:
        setting: one that measures and keeps.
        words: measure only what has one of these in its name; by default everything.
    """
    more = [name for names in NETWORKS["classifiers"].values() for name in names]
    first = [f"vgg16:{seed}-init" for seed in SEEDS]
    work: dict[str, Callable[[], object]] = {
        name: partial(setting.runs, [name]) for name in [*ZOO.names(), *more, *first]
    }
    for size in BATCHES:
        work[f"vgg16:1, batches of {size}"] = partial(
            setting.runs, ["vgg16:1"], images=5120, batch=size
        )
    work |= {
        f"{name}, batch statistics": partial(batch_statistics, setting, name) for name in first
    }
    work |= {
        f"{law}, d = {width}": partial(functions_of, setting, law, width)
        for law in LAWS
        for width in WIDTHS
    }
    for name, measure in work.items():
        if not words or any(word in name for word in words):
            measure()
            yield name
