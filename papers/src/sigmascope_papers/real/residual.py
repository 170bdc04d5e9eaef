"""Figures 7 and 15 on residual networks that others have trained."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sigmascope.compare.density import densities
from sigmascope.figures import Drawn
from sigmascope.measure.result import Signature
from sigmascope_papers.item import Finding, Item, judge_by
from sigmascope_papers.nonlinearity import places
from sigmascope_papers.nonlinearity.fig7 import CLEAR, NONE
from sigmascope_papers.nonlinearity.leads import DEEP, modes
from sigmascope_papers.nonlinearity.places import END, INSIDE, by_place, places_in, separation
from sigmascope_papers.nonlinearity.sizes import CLOSE_TO_1
from sigmascope_papers.real.measuring import by_population, judged_twice, signatures
from sigmascope_papers.real.networks import CIFAR_DEPTHS, NETWORKS
from sigmascope_papers.setting import Setting

IMAGENET = ("resnet18", "resnet50")
CIFAR = tuple(f"cifar-resnet{depth}" for depth in CIFAR_DEPTHS)
PLAIN = ("mobilenet_v1",)
KINDS = {"imagenet": "on ImageNet", "cifar": "on CIFAR-10"}


@dataclass(frozen=True, eq=False)
class Residual:
    """Signatures by name: residual networks of two data sets, the shallowest first, and a plain."""

    imagenet: dict[str, Signature]
    cifar: dict[str, Signature]
    plain: dict[str, Signature]

    def lacks(self, *kinds: str) -> str:
        """Say why networks of some kinds cannot be judged; empty if they can."""
        for found in (getattr(self, kind) for kind in kinds):
            few = [name for name, one in found.items() if min(map(len, by_place(one).values())) < 2]
            if few:
                return f"too few scores in {', '.join(NETWORKS[name].title for name in few)}"
        return ""


def measure(setting: Setting) -> Residual:
    """Read or measure all signatures."""
    return Residual(*(signatures(setting, names) for names in (IMAGENET, CIFAR, PLAIN)))


def measure_depths(setting: Setting) -> Residual:
    """Read or measure the signatures of the residual networks."""
    return Residual(signatures(setting, IMAGENET), signatures(setting, CIFAR), {})


def _population(found: Residual) -> Residual:
    kinds = (found.imagenet, found.cifar, found.plain)
    return Residual(*({name: by_population(one) for name, one in kind.items()} for kind in kinds))


def _told(values: Mapping[str, float], digits: int = 2) -> str:
    return ", ".join(f"{NETWORKS[name].title} {value:.{digits}f}" for name, value in values.items())


def _each(
    found: Residual, kind: str, value: Callable[[Signature], float]
) -> tuple[dict[str, float], list[float]]:
    values = {name: value(one) for name, one in getattr(found, kind).items()}
    return values, list(values.values())


def _split(found: Residual, kind: str, words: str) -> Finding:
    named, shares = _each(found, kind, separation)
    return _told(named), min(shares) > NONE, min(shares) >= CLEAR


def _not_split(found: Residual) -> Finding:
    named, shares = _each(found, "plain", separation)
    return _told(named), all(1 - NONE <= share <= NONE for share in shares)


def _modes(found: Residual, kind: str, words: str) -> Finding:
    def count(one: Signature) -> float:
        return len(modes(densities([one], boundary="unbounded").curves[0], DEEP))

    named, counts = _each(found, kind, count)
    right = counts.count(2)
    return _told(named, 0), 2 * right > len(counts), right == len(counts)


def _gap(one: Signature) -> float:
    """Return how far the median at the end of a block is above that inside."""
    own = by_place(one)
    return float(np.median(own[END]) - np.median(own[INSIDE]))


def _grows(values: Sequence[float]) -> bool:
    return all(one < other for one, other in itertools.pairwise(values))


def _gap_grows(found: Residual, kind: str, words: str) -> Finding:
    named, gaps = _each(found, kind, _gap)
    return _told(named, 3), gaps[-1] > gaps[0], _grows(gaps)


def _approaches_1(found: Residual, kind: str, words: str) -> Finding:
    named, levels = _each(found, kind, lambda one: float(np.median(by_place(one)[END])))
    clear = _grows(levels) and levels[-1] >= CLOSE_TO_1
    return _told(named, 3), levels[-1] > levels[0], clear


def _stays_apart(found: Residual, kind: str, words: str) -> Finding:
    named, shares = _each(found, kind, separation)
    return _told(named), min(shares) > NONE, min(shares) >= CLEAR


def _panels(found: dict[str, Signature]) -> Drawn:
    titles = [NETWORKS[name].title for name in found]
    return places.draw_panels(
        list(found.values()), [places_in(one) for one in found.values()], titles
    )


def _draw_split(found: Residual) -> dict[str, Drawn]:
    """Draw the ResNets of ImageNet and a plain network, and those of CIFAR-10."""
    return {"": _panels(found.imagenet | found.plain), "cifar": _panels(found.cifar)}


def _draw_depths(found: Residual) -> dict[str, Drawn]:
    """Draw all depths, those on ImageNet first; population scores are in gray."""
    return {"": _panels(found.imagenet | found.cifar)}


def _both(rule: Callable[..., Finding]) -> list[partial[Finding]]:
    return [partial(rule, kind=kind, words=words) for kind, words in KINDS.items()]


FIGURE_7 = judge_by("real.real_fig7", *_both(_split), _not_split, *_both(_modes))
DEPTHS = [part for rule in (_gap_grows, _approaches_1, _stays_apart) for part in _both(rule)]
FIGURE_15 = judge_by("real.real_fig15", *DEPTHS)
ITEMS = {
    "real-fig7": Item(measure, judged_twice(FIGURE_7, _population), _draw_split),
    "real-fig15": Item(measure_depths, judged_twice(FIGURE_15, _population), _draw_depths),
}
