"""Experts with a number of slots each: those that no token reached are no samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg

BATCH, LENGTH, WIDTH, HIDDEN, EXPERTS, SLOTS = 12, 10, 6, 5, 4, 40


class Slotted(nn.Module):
    """Writes the tokens of each expert into its slots, in one of several ways."""

    def __init__(self, way: str = "blocks") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way = way
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN))
        self.bias = nn.Parameter(torch.randn(EXPERTS, 1, HIDDEN))

    def forward(self, x: Tensor, route: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        tokens, chosen = x.view(-1, WIDTH), route.view(-1)
        slots = torch.zeros(EXPERTS, SLOTS, WIDTH)
        if self.way == "new":
            slots = x.new_zeros(EXPERTS, SLOTS, WIDTH)
        if self.way == "rows":
            slots = torch.zeros(EXPERTS * SLOTS, WIDTH)
        for number in range(EXPERTS):
            rows = torch.where(chosen == number)[0][:SLOTS]
            if self.way == "rows":
                slots[number * SLOTS + torch.arange(len(rows))] = tokens[rows]
            else:
                slots[number, : len(rows)] = tokens[rows]
        slots = slots.view(EXPERTS, SLOTS, WIDTH)
        if self.way == "einsum":
            return F.relu(torch.einsum("esc,ech->esh", slots, self.up) + self.bias)
        if self.way == "filled":
            slots = slots + torch.randn(EXPERTS, SLOTS, WIDTH)
        if self.way == "changed":
            slots[:, -1].fill_(1.0)
        return F.relu(torch.bmm(slots, self.up) + self.bias)


def batch(seed: int = 0, *, padded: bool = True) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=draw)
    route = torch.randint(0, EXPERTS, (BATCH, LENGTH), generator=draw)
    mask = (torch.arange(LENGTH) < torch.arange(BATCH)[:, None] % 6 + 3).long()
    return {"x": x, "route": route, **({"attention_mask": mask} if padded else {})}


def reached(model: Slotted, given: dict[str, Tensor]) -> Tensor:
    """Return the inputs of the activation, by hand."""
    kept = given.get("attention_mask", torch.ones(BATCH, LENGTH)).bool()
    with torch.no_grad():
        return torch.cat(
            [
                given["x"][(given["route"] == number) & kept] @ model.up[number]
                + model.bias[number]
                for number in range(EXPERTS)
            ]
        )


@pytest.mark.parametrize("way", ["blocks", "new", "rows", "einsum"])
@pytest.mark.parametrize("padded", [True, False])
def test_empty_slots_are_left_out(way: str, padded: bool) -> None:
    model: Any = Slotted(way)
    given = batch(padded=padded)
    axes = {"*": 2} if way == "einsum" else {}  # it does not tell which axis are the channels
    (site,) = sg.signature(model, [given], samples="tokens", channel_axis=axes).sites
    x = reached(model, given)
    assert site.n == len(x) < EXPERTS * SLOTS
    assert site.score == pytest.approx(float(sg.affinity(x, F.relu(x))), abs=1e-6)


def test_every_batch_has_its_own_slots() -> None:
    model, batches = Slotted(), [batch(0), batch(1)]
    (site,) = sg.signature(model, batches, samples="tokens", estimator="both").sites
    x = torch.cat([reached(model, given) for given in batches])
    assert site.population_n == len(x)


@pytest.mark.parametrize("way", ["filled", "changed"])
def test_slots_that_hold_other_values_stay(way: str) -> None:
    (site,) = sg.signature(Slotted(way), [batch(padded=False)], samples="tokens").sites
    assert site.n == EXPERTS * SLOTS
