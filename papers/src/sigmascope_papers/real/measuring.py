"""Signatures of the networks: read from the package, or measured in batches that fit into memory.

A network runs in batches of 32, whose pooled features are kept, and is scored in batches of 512, as
the paper's are. The same features give the population scores.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from sigmascope.measure.kept_features import rescore
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope.measure.site import Scatter
from sigmascope_papers.item import OURS, Check
from sigmascope_papers.real.images import Samples
from sigmascope_papers.real.networks import Network, network
from sigmascope_papers.real.proofs import prove
from sigmascope_papers.setting import BATCH, EPS, NOWHERE, Setting

RUN = 32  # images in a forward pass
OF_IMAGENET, OF_CIFAR = BATCH, 3 * BATCH
"""How many samples networks of either kind see."""
ENOUGH = 0.8  # the share of sites whose population scores stand for the network
POPULATION = f"{OURS} with population scores: "


@dataclass(frozen=True)
class RealSetting(Setting):
    """A setting whose signatures lie in a directory of their own, `real`."""

    @classmethod
    def of(cls, setting: Setting) -> RealSetting:
        """Return a setting with the same directories.

        Raises:
            InputError: it asks for networks or data, which these items have themselves.
        """
        setting.refuse_others("real-…")
        return cls(**vars(setting))

    @property
    def _home(self) -> Path:
        home = super()._home
        return home if home == NOWHERE else home.with_name("real")


def samples_of(name: str, source: str) -> int:
    """Return how many samples a network sees."""
    return OF_CIFAR if source == network(name).source == "cifar10" else OF_IMAGENET


class Beside(nn.Module):
    """An activation that lets ReLU see its input too."""

    def __init__(self) -> None:
        super().__init__()
        self.relu, self.relu6 = nn.ReLU(), nn.ReLU6()

    def forward(self, x: Tensor) -> Tensor:
        """Return ReLU6 of the input."""
        self.relu(x)
        out: Tensor = self.relu6(x)
        return out


def with_relu_beside(model: nn.Module) -> nn.Module:
    """Replace every ReLU6 by one beside which ReLU sees the same inputs, and return the network."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.ReLU6):
                setattr(parent, name, Beside())
    return model


def _proved(one: Network) -> nn.Module:
    model = one.trained()
    prove(one, model)
    return model


FORMS: dict[str, Callable[[Network], nn.Module]] = {
    "trained": _proved,
    "untrained": lambda one: one.untrained(),
    "beside": lambda one: with_relu_beside(_proved(one)),
}
"""Form of a network -> function that makes it."""


def measured(name: str, source: str, form: str, *, progress: bool = True) -> Signature:
    """Measure a network, which proves itself first."""
    one = network(name)
    count = samples_of(name, source)
    shown: Any = {"progress": progress}
    # The sparsity is that of whole feature maps, which only the first pass sees.
    first: Any = {"metrics": ("sparsity",), "compat": True, "eps": EPS, "estimator": "published"}
    second: Any = {"metrics": "all", "estimator": "both"}
    with tempfile.TemporaryDirectory() as kept:
        samples = Samples(source, count, RUN, one.side, one.prepare)
        signature(FORMS[form](one), samples, name=name, keep=kept, **first, **shown)
        found = rescore(kept, together=BATCH // RUN, **second, **shown)
    # histograms, which no item reads, would make the stored files three times as large
    return replace(found, sites=tuple(replace(site, histogram=None) for site in found.sites))


def signatures(
    setting: Setting, names: Sequence[str], *, source: str | None = None, form: str = "trained"
) -> dict[str, Signature]:
    """Read or measure signatures by name, on images like those of training or on other ones."""
    own, found = RealSetting.of(setting), {}
    for name in names:
        seen = source or network(name).source
        work = partial(measured, name, seen, form, progress=setting.progress)
        found[name] = own.signature(name, seen if form == "trained" else f"{seen} {form}", work)
    return found


def is_scored(one: Signature) -> bool:
    """Return whether enough sites have population scores to stand for the network."""
    return bool(np.isfinite(one.scores_by("population")).mean() >= ENOUGH)


def by_population(one: Signature) -> Signature:
    """Return a signature with the population scores in place of the published ones.

    Rules and drawings take the published scores of a signature. Single batches have none here.
    """
    sites = tuple(
        replace(
            site,
            score=site.population,
            population=math.nan,
            scatter=Scatter(site.stderr, site.low, site.high),
            scores=(),
            reason=site.population_reason,
        )
        for site in one.sites
    )
    return replace(one, sites=sites, options=replace(one.options, estimator="published"))


def judged_twice(
    judge: Callable[[Any], list[Check]], population: Callable[[Any], Any]
) -> Callable[[Any], list[Check]]:
    """Return a judge of the published scores, and by the same rules of the population scores.

    The latter are claims of ours, which do not count for the verdict on the item.
    """

    def both(found: Any) -> list[Check]:
        again = [one for one in judge(population(found)) if not one.claim.startswith(OURS)]
        return [*judge(found), *(replace(one, claim=POPULATION + one.claim) for one in again)]

    both.__doc__ = judge.__doc__
    return both
