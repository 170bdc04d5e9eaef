"""The criteria by which activations are ranked: one table of functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from sigmascope.checks import check_choice
from sigmascope.errors import OptionError
from sigmascope.linearize.evidence import Evidence
from sigmascope.linearize.gradients import gradient_costs
from sigmascope.linearize.sums import explained

Values: TypeAlias = Sequence[float]


@dataclass(frozen=True)
class Criterion:
    """A way to rank activation calls.

    Attributes:
        values: a function of the evidence that returns a number for each of its calls; NaN for a
            call that comes last.
        highest_first: whether the call with the highest number is replaced first; otherwise that
            with the lowest.
        needs_labels: whether it reads the labels of the batches.
        meaning: what the number is.

    >>> import torch
    >>> from sigmascope import linearize
    >>> last_first = linearize.Criterion(lambda evidence: torch.arange(len(evidence.calls)), True)
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> found = linearize.plan(network, torch.randn(256, 4), budget=1, by=last_first)
    >>> [site.name for site in found.chosen]
    ['2']
    """

    values: Callable[[Evidence], Values]
    highest_first: bool = False
    needs_labels: bool = False
    meaning: str = ""


def _affinity(evidence: Evidence) -> Values:
    return [one.score for one in evidence.scores("positions")]


def _pooled(evidence: Evidence) -> Values:
    return [one.score for one in evidence.scores("batch")]


def _r2(evidence: Evidence) -> Values:
    found = [evidence.sums[call.key] for call in evidence.calls]
    return [explained(sums.residual(*sums.per_channel()), sums) for sums in found]


def _entropy(evidence: Evidence) -> Values:
    shares = (evidence.sums[call.key].positive for call in evidence.calls)
    return [float(torch.special.entr(torch.stack([p, 1 - p])).sum(0).mean()) for p in shares]


def _positive(evidence: Evidence) -> Values:
    return [float(evidence.sums[call.key].positive.mean()) for call in evidence.calls]


def _oracle(evidence: Evidence) -> Values:
    return [evidence.loss_without(call) - evidence.loss for call in evidence.calls]


def _place(evidence: Evidence) -> Values:
    return [float(place) for place in range(len(evidence.calls))]


def _random(evidence: Evidence) -> Values:
    draw = random.Random(evidence.seed)
    return [draw.random() for _ in evidence.calls]


CRITERIA: dict[str, Criterion] = {
    "affinity": Criterion(
        _affinity, highest_first=True, meaning="population affinity score, every position a sample"
    ),
    "pooled": Criterion(
        _pooled, highest_first=True, meaning="population affinity score, positions averaged"
    ),
    "r2": Criterion(_r2, highest_first=True, meaning="R² of the affine fit of each channel"),
    "entropy": Criterion(_entropy, meaning="entropy of the sign of the inputs, in nats"),
    "positive": Criterion(_positive, highest_first=True, meaning="share of positive inputs"),
    "gradient": Criterion(
        gradient_costs,
        needs_labels=True,
        meaning="mean over samples of |Σ gradient · (map(x) - activation(x))|",
    ),
    "oracle": Criterion(
        _oracle, needs_labels=True, meaning="rise of the loss when this one is replaced"
    ),
    "depth": Criterion(_place, highest_first=True, meaning="place in the network, the last first"),
    "early": Criterion(_place, meaning="place in the network, the first first"),
    "random": Criterion(_random, meaning="a random number"),
}
"""Name -> criterion. A criterion of one's own is a function, or another `Criterion`.

>>> from sigmascope import linearize
>>> linearize.CRITERIA["affinity"].meaning
'population affinity score, every position a sample'
"""


def criterion_of(by: object) -> tuple[str, Criterion]:
    """Return the name and the criterion that an option stands for.

    Raises:
        OptionError: neither a name nor a function.
    """
    if isinstance(by, Criterion):
        return getattr(by.values, "__name__", "own criterion"), by
    if callable(by):
        return getattr(by, "__name__", "own criterion"), Criterion(by)
    name = check_choice("by", by, CRITERIA)
    return name, CRITERIA[name]


def ranked(criterion: Criterion, name: str, evidence: Evidence) -> tuple[list[float], list[int]]:
    """Return the value of each call, and the places of the calls from the first to replace on.

    Equal ones are replaced from the front on; those without a value last.

    Raises:
        OptionError: a criterion of one's own does not return one number for each call.
    """
    try:
        values = [float(value) for value in criterion.values(evidence)]
    except (TypeError, ValueError) as error:
        if name in CRITERIA:
            raise
        raise OptionError(
            f"by={name} failed or did not return numbers: {error}. It must return one number for "
            "each of evidence.calls."
        ) from error
    if len(values) != len(evidence.calls):
        raise OptionError(
            f"by={name} returned {len(values)} numbers for {len(evidence.calls)} activation calls. "
            "Return one for each of evidence.calls."
        )
    sign = -1.0 if criterion.highest_first else 1.0

    def order(place: int) -> tuple[bool, float, int]:
        value = values[place]
        missing = value != value
        return missing, 0.0 if missing else sign * value, place

    return values, sorted(range(len(values)), key=order)
