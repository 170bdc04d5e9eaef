"""Mixtures of experts: each scored on the tokens that reached it, without padding, by number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg

BATCH, LENGTH, WIDTH, HIDDEN, EXPERTS = 12, 10, 6, 5, 4


def by_hand(x: Tensor) -> float:
    with torch.no_grad():
        return float(sg.affinity(x, F.relu(x)))


class Mixture(nn.Module):
    """Sends each token to one expert, in one of the ways that model libraries have."""

    def __init__(self, way: str = "index") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way = way
        self.up = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH))
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN))
        self.act = nn.ReLU()

    def forward(self, x: Tensor, route: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        tokens, chosen = x.view(-1, WIDTH), route.view(-1)
        result = torch.zeros_like(tokens)
        for number in chosen.unique():
            if self.way == "index":
                rows: Any = torch.where(chosen == number)[0]
                taken = tokens[rows]
            elif self.way == "mask":
                rows = chosen == number
                taken = tokens[rows]
            elif self.way == "two masks":
                rows = (route == number).view(-1)
                taken = x[route == number]
            elif self.way == "in front":
                rows = torch.where(chosen == number)[0]
                taken = tokens[None, rows].reshape(-1, WIDTH)
            elif self.way == "select":
                rows = torch.where(chosen == number)[0]
                taken = tokens.index_select(0, rows)
            else:
                order = chosen.argsort()
                rows = order[torch.where(chosen[order] == number)[0]]
                taken = tokens[order][torch.where(chosen[order] == number)[0]]
            result[rows] = F.linear(self.act(F.linear(taken, self.up[number])), self.down[number])
        return result.view(x.shape)


def batch(experts: list[int], seed: int = 0, *, padded: bool = True) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    which = torch.randint(0, len(experts), (BATCH, LENGTH), generator=draw)
    given = {
        "x": torch.randn(BATCH, LENGTH, WIDTH, generator=draw),
        "route": torch.tensor(experts)[which],
    }
    lengths = torch.arange(BATCH) % 6 + 3
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    return {**given, "attention_mask": mask} if padded else given


def tokens_of(model: Mixture, given: dict[str, Tensor], number: int) -> Tensor:
    reached = given["route"] == number
    if "attention_mask" in given:
        reached = reached & given["attention_mask"].bool()
    return F.linear(given["x"][reached], model.up[number]).detach()


@pytest.mark.parametrize("way", ["index", "mask", "two masks", "in front", "select", "sorted"])
@pytest.mark.parametrize("samples", ["tokens", "positions"])
@pytest.mark.parametrize("padded", [True, False])
def test_an_expert_is_scored_on_the_tokens_that_reached_it(
    way: str, samples: Any, padded: bool
) -> None:
    model, given = Mixture(way), batch([0, 1, 2, 3], padded=padded)
    found = sg.signature(model, [given], samples=samples, estimator="both")
    reached = [tokens_of(model, given, number) for number in range(EXPERTS)]
    assert [site.n for site in found.sites] == [len(rows) for rows in reached]
    assert [site.population_n for site in found.sites] == [len(rows) for rows in reached]
    assert found.scores == pytest.approx([by_hand(rows) for rows in reached], abs=1e-6)


def test_tokens_repeated_for_several_experts_have_no_padding() -> None:
    class Repeated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(WIDTH, HIDDEN)

        def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
            return F.relu(self.linear(x.view(-1, WIDTH).repeat_interleave(2, dim=0)))

    model, given = Repeated(), batch([0])
    found = sg.signature(model, [given], samples="tokens")
    rows = model.linear(given["x"][given["attention_mask"].bool()].repeat_interleave(2, dim=0))
    assert found.sites[0].n == len(rows)
    assert found.scores == pytest.approx([by_hand(rows)], abs=1e-6)


def test_an_expert_keeps_its_number_in_every_batch() -> None:
    model = Mixture()
    first, second = batch([0, 2], padded=False), batch([1, 2, 3], seed=1, padded=False)
    found = sg.signature(model, [first, second], samples="tokens", estimator="published")
    sites = {site.call: site for site in found.sites}
    assert sorted(sites) == [0, 1, 2, 3]
    expected = {
        0: [by_hand(tokens_of(model, first, 0))],
        1: [by_hand(tokens_of(model, second, 1))],
        2: [by_hand(tokens_of(model, one, 2)) for one in (first, second)],
        3: [by_hand(tokens_of(model, second, 3))],
    }
    for number, scores in expected.items():
        assert sites[number].score == pytest.approx(sum(scores) / len(scores), abs=1e-6)


def test_without_tokens_as_samples_the_reason_names_the_remedy() -> None:
    found = sg.signature(Mixture(), [batch([0, 1])])
    assert {"samples='tokens'" in site.reason for site in found.sites} == {True}
