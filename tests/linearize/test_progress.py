"""Progress bars of plan and fold: what they count is what is done."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sigmascope.linearize import CRITERIA, LossRise, fold, plan
from tests.linearize.test_fold_chains import no_clock

BATCHES, SITES = 3, 4


class Bars:
    """Stands in for `progress_bar`, and counts."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int | None, bool, list[None]]] = []

    @contextmanager
    def __call__(self, title: str, total: int | None, *, shown: bool) -> Iterator[Any]:
        steps: list[None] = []
        self.found.append((title, total, shown, steps))
        yield lambda: steps.append(None)


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Bars:
    made = Bars()
    for name in ("planning", "folding.part"):
        module = importlib.import_module(f"sigmascope.linearize.{name}")
        monkeypatch.setattr(module, "progress_bar", made)
    return made


def network() -> nn.Sequential:
    torch.manual_seed(0)
    hidden = [layer for _ in range(SITES) for layer in (nn.Linear(4, 4), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(4, 4)).double().eval()


def batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    x = [torch.randn(32, 4, generator=generator, dtype=torch.float64) for _ in range(BATCHES)]
    return [(one, torch.arange(32) % 4) for one in x]


@pytest.mark.parametrize("iterative", [False, True])
@pytest.mark.parametrize("by", list(CRITERIA))
@pytest.mark.parametrize("scores", [False, True])
def test_the_bar_of_a_plan_ends_at_its_total(
    bars: Bars, by: str, iterative: bool, scores: bool
) -> None:
    for budget, step in ((3, 1), (0.5, 1), (3, 2)):
        plan(
            *(network(), batches()),
            budget=budget,
            by=by,
            iterative=iterative,
            step=step,
            scores=scores,
        )
        title, total, shown, steps = bars.found.pop()
        assert title == "plan Sequential, batches read"
        assert total == len(steps) >= BATCHES
        assert shown


def test_a_total_that_is_not_known(bars: Bars) -> None:
    data = batches()
    plan(network(), data, budget=LossRise(1.0, data), iterative=True, progress=False)
    plan(network(), data, budget=1, by=lambda evidence: torch.arange(SITES))
    assert [(total, shown) for _, total, shown, _ in bars.found] == [(None, False), (None, True)]
    assert all(steps for _, _, _, steps in bars.found)


def test_the_bar_of_a_fold_counts_chains(bars: Bars) -> None:
    layers = [nn.Linear(4, 4), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Identity()]
    fold(nn.Sequential(*layers, nn.ReLU()).eval(), torch.ones(2, 4), timer=no_clock)
    title, total, shown, steps = bars.found.pop()
    assert (title, total, shown) == ("fold Sequential, chains of layers", 2, True)
    assert len(steps) == total
