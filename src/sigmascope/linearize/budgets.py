"""How many activations to replace: a number, a share, elements, or a tolerated rise of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sigmascope.checks import check_number
from sigmascope.errors import OptionError


@dataclass(frozen=True)
class Elements:
    """A budget of elements: replace sites, in the order of the ranking, until so many are gone.

    An element is one value of an activation's output for one sample: the unit in which the cost of
    ReLU under encryption is counted.

    Attributes:
        amount: a share of all elements, such as 0.5, or a number of them, such as 100_000.

    >>> Elements(0.5)
    Elements(amount=0.5)
    """

    amount: int | float

    def __post_init__(self) -> None:
        _check_amount("Elements", self.amount)

    def __str__(self) -> str:
        return f"{_amount(self.amount)} elements"


@dataclass(frozen=True)
class LossRise:
    """A budget of loss: replace sites, in the order of the ranking, while the loss rises little.

    The sites are replaced one after another, until the loss on held-out batches is more than `rise`
    above that of the original.

    Attributes:
        rise: of the mean loss, such as 0.02.
        batches: (inputs, labels) that were not used for the ranking.

    >>> import torch
    >>> from sigmascope import linearize
    >>> _ = torch.manual_seed(0)
    >>> layers = torch.nn.Linear(2, 8), torch.nn.LeakyReLU(0.99), torch.nn.ReLU()
    >>> network, x = torch.nn.Sequential(*layers), 9 * torch.randn(256, 2)
    >>> samples = (x, network(x).argmax(1))
    >>> budget = linearize.LossRise(0.02, samples)
    >>> [site.name for site in linearize.plan(network, samples, budget=budget).chosen]
    ['1']
    """

    rise: float
    batches: Any

    def __post_init__(self) -> None:
        check_number("rise", self.rise)

    def __str__(self) -> str:
        return f"loss + {self.rise:g}"


Budget: TypeAlias = int | float | Elements | LossRise


def _check_amount(name: str, amount: object) -> None:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise OptionError(f"{name} must be a number or a share, got {amount!r:.80}.")
    whole = isinstance(amount, int)
    if not (amount >= 1 if whole else 0 < amount <= 1):
        raise OptionError(
            f"{name} must be a whole number >= 1, or a share above 0 and at most 1, got {amount!r}."
        )


def _amount(amount: int | float) -> str:
    return f"{100 * amount:g} % of" if isinstance(amount, float) else f"{amount:,}"


def check_budget(budget: object) -> Budget:
    """Return a budget if it is one.

    Raises:
        OptionError: it is not.
    """
    if isinstance(budget, Elements | LossRise):
        return budget
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise OptionError(
            f"budget={budget!r:.80} is not valid. Pass a number of sites, a share such as 0.5, "
            "sigmascope.linearize.Elements or sigmascope.linearize.LossRise."
        )
    _check_amount("budget", budget)
    return budget


def budget_text(budget: Budget) -> str:
    """Return a budget in words.

    >>> [budget_text(one) for one in (1, 8, 0.5, Elements(0.25), Elements(4096))]
    ['1 site', '8 sites', '50 % of sites', '25 % of elements', '4,096 elements']
    """
    if isinstance(budget, Elements | LossRise):
        return str(budget)
    return f"{_amount(budget)} site{'s' * (budget != 1 or isinstance(budget, float))}"


def parse_budget(text: str, held_out: Any = None) -> Budget:
    """Return the budget that a text stands for, as on a command line.

    Args:
        text: "8", "50%", "50% elements", "4096 elements", or "loss+0.02".
        held_out: the batches of a budget of loss.

    Raises:
        OptionError: the text is none of these.

    >>> parse_budget("8"), parse_budget("50%"), parse_budget("25% elements")
    (8, 0.5, Elements(amount=0.25))
    """
    words = text.lower().replace("loss +", "loss+").split()
    try:
        if len(words) == 1 and words[0].startswith("loss+"):
            return LossRise(float(words[0].removeprefix("loss+")), held_out)
        if len(words) == 2 and words[1] == "elements":
            return Elements(_number(words[0]))
        if len(words) == 1:
            return check_budget(_number(words[0]))
    except ValueError as error:
        if isinstance(error, OptionError):
            raise
    raise OptionError(
        f"budget={text!r:.80} is not valid. Pass a number of sites such as 8, a share such as 50%, "
        "elements such as '50% elements', or a rise of the loss such as loss+0.02."
    )


def _number(text: str) -> int | float:
    if text.endswith("%"):
        return float(text.removesuffix("%")) / 100
    return int(text) if text.isdigit() else float(text)


def sites_within(budget: int | float | Elements, elements: Sequence[int], total: int) -> int:
    """Return how many sites a budget stands for.

    Args:
        budget: not of loss.
        elements: of the sites that can be replaced, in the order of the ranking.
        total: the elements of all sites.

    Raises:
        OptionError: more than there are.

    >>> sites_within(0.5, [8, 8, 8, 8, 8], 40), sites_within(Elements(0.5), [8, 4, 20, 8], 40)
    (2, 3)
    """
    if isinstance(budget, Elements):
        wanted = budget.amount * total if isinstance(budget.amount, float) else budget.amount
        gone = 0
        for count, here in enumerate(elements, start=1):
            gone += here
            if gone >= wanted:
                return count
        raise OptionError(
            f"budget={budget!r} asks for {wanted:,.0f} elements, but the {len(elements)} sites "
            f"that can be replaced have {gone:,} of {total:,}. Pass a smaller one."
        )
    count = max(1, int(budget * len(elements))) if isinstance(budget, float) else budget
    if count > len(elements):
        raise OptionError(
            f"budget={budget} is more than the {len(elements)} activation sites that can be "
            f"replaced. Pass at most {len(elements)}."
        )
    return count
