"""Which activations should go first: how far affinity is ahead of other criteria, and the rule."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from sigmascope_papers.item import Check, Finding, conclude

Unit = tuple[str, int]  # network, seed
MARGINS = {"untuned": 3.0, "tuned": 1.0}  # points within which two criteria tie
CHEAP = ("r2", "depth", "early", "positive")
NEEDED = {"untuned": 4, "tuned": 2}  # networks that the experiment compares
TITLES = {
    "random": "random",
    "r2": "R² of the map",
    "depth": "late ones first",
    "early": "early ones first",
    "positive": "share of positive inputs",
    "gradient": "gradient",
    "oracle": "loss, one at a time",
    "pooled": "affinity of averages",
    "entropy": "entropy of signs (EASIER)",
}
WORDS = {"untuned": "without tuning", "tuned": "tuned for half an epoch"}


@dataclass(frozen=True)
class Advantage:
    """How far affinity is ahead of a rival in a network of one seed.

    Attributes:
        stage: `untuned` or `tuned`.
        maps: what takes the place of the activations: `affine` or `identity`.
        rival: the other criterion; `random` is the mean of its draws.
        network, seed: the unit.
        points: the mean difference of the accuracies over the numbers removed.
    """

    stage: str
    maps: str
    rival: str
    network: str
    seed: int
    points: float


def interval(values: Iterable[float]) -> tuple[float, float, float]:
    """Return mean and the ends of the 95 % t-interval; infinite ones for a single value."""
    held = list(values)
    mean = statistics.fmean(held)
    if len(held) < 2:
        return mean, -math.inf, math.inf
    half = student.ppf(0.975, len(held) - 1) * statistics.stdev(held) / math.sqrt(len(held))
    return mean, mean - half, mean + half


def verdict(rival: str, gained: Mapping[Unit, float], stage: str) -> str:
    """Apply the rule in the docstring of `zoo/linearize_experiment.py`."""
    _, low, high = interval(gained.values())
    networks = {name for name, _ in gained}
    above = sum(
        statistics.fmean(v for (name, _), v in gained.items() if name == one) > 0
        for one in networks
    )
    if rival == "random":
        enough = above >= (3 if len(networks) >= 4 else len(networks))
        return "helps" if low > 0 and enough else "hurts" if high < 0 else "undecided"
    if low > 0 or high < 0:
        return "beats" if low > 0 else "loses"
    margin = MARGINS[stage]
    return "ties" if -margin <= low and high <= margin else "undecided"


def gained(
    advantages: Sequence[Advantage], stage: str, rival: str, maps: str = "affine"
) -> dict[Unit, float]:
    """Return the advantages over a rival by unit."""
    asked = stage, maps, rival
    found = (one for one in advantages if (one.stage, one.maps, one.rival) == asked)
    return {(one.network, one.seed): one.points for one in found}


def judged(advantages: Sequence[Advantage]) -> list[Check]:
    """Judge affinity against random draws and against rivals as cheap, without and with tuning."""
    checks = []
    for stage, words in WORDS.items():
        claim = f"ours: {words}, affinity chooses better than chance"
        expected = f"an interval of the advantage above 0, over {NEEDED[stage]} networks"
        checks.append(conclude(claim, expected, _chance(advantages, stage)))
        claim = f"ours: {words}, affinity beats R², both orders of depth, and the share of positive"
        expected = f"intervals above 0, over {NEEDED[stage]} networks; undecided is not judged"
        checks.append(conclude(f"{claim} inputs", expected, _cheap(advantages, stage)))
    return checks


def _chance(advantages: Sequence[Advantage], stage: str) -> Finding:
    units = gained(advantages, stage, "random")
    told = _told("random", units, stage)
    if lack := _lack(units, stage):
        return f"{lack}{told}"
    word = verdict("random", units, stage)
    return told if word == "undecided" else (told, word == "helps")


def _cheap(advantages: Sequence[Advantage], stage: str) -> Finding:
    units = {rival: gained(advantages, stage, rival) for rival in CHEAP}
    told = "; ".join(_told(rival, own, stage) for rival, own in units.items() if own)
    if lack := _lack(units[CHEAP[0]], stage):
        return f"{lack}{told}"
    words = [verdict(rival, own, stage) for rival, own in units.items()]
    if {"ties", "loses"} & {*words}:
        return told, False
    return told if "undecided" in words else (told, True)


def _lack(units: Mapping[Unit, float], stage: str) -> str:
    """Return how many networks are measured, if that is too few; else an empty text."""
    networks = len({name for name, _ in units})
    needed = NEEDED[stage]
    if networks >= needed:
        return ""
    return f"{networks} of {needed} networks are measured" + ("; so far: " if networks else "")


def _told(rival: str, units: Mapping[Unit, float], stage: str) -> str:
    if not units:
        return ""
    mean, low, high = interval(units.values())
    ends = f" ({low:+.2f} to {high:+.2f})" if math.isfinite(low) else ""
    return f"{TITLES[rival]} {mean:+.2f}{ends}: {verdict(rival, units, stage)}"
