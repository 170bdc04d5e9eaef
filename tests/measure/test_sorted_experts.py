"""Experts that get their tokens sorted and cut into pieces: without padding, each row its token."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg

BATCH, LENGTH, WIDTH, HIDDEN, EXPERTS, CHOSEN = 12, 10, 6, 5, 4, 2


def repeated(tokens: Tensor, order: Tensor, way: str) -> Tensor:
    """Return every token once for each of its experts, in the order of the experts."""
    if way == "interleaved":
        return tokens.repeat_interleave(CHOSEN, dim=0)[order]
    if way == "expanded":
        return tokens[:, None].expand(-1, CHOSEN, -1).reshape(-1, WIDTH).index_select(0, order)
    if way == "divided":
        return tokens[order // CHOSEN]
    if way == "repeated":
        return tokens.repeat(CHOSEN, 1)[order]
    return tokens[None].expand(CHOSEN, -1, -1).reshape(-1, WIDTH)[order]


def cut(rows: Tensor, counts: list[int], way: str) -> list[Tensor]:
    """Return the rows of each expert."""
    if way == "split":
        return [*rows.split(counts)]
    ends = torch.tensor([0, *counts]).cumsum(0).tolist()
    if way == "slice":
        return [rows[start:end] for start, end in pairwise(ends)]
    if way == "tensor_split":
        return [*rows.tensor_split(ends[1:-1], dim=0)]
    return [rows.narrow(0, start, end - start) for start, end in pairwise(ends)]


class Sorted(nn.Module):
    """Sends each token to two experts; all rows of an expert lie together."""

    def __init__(self, repeats: str = "interleaved", cuts: str = "split") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.repeats, self.cuts = repeats, cuts
        self.up = nn.ModuleList(nn.Linear(WIDTH, HIDDEN) for _ in range(EXPERTS))
        self.down = nn.ModuleList(nn.Linear(HIDDEN, WIDTH) for _ in range(EXPERTS))
        self.acts = nn.ModuleList(nn.ReLU() for _ in range(EXPERTS))

    def forward(self, x: Tensor, route: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        tokens, whole = x.view(-1, WIDTH), self.repeats in ("repeated", "in front")
        chosen = route.flatten(0, 1)
        experts = (chosen.t() if whole else chosen).flatten()
        order = experts.argsort()
        rows = repeated(tokens, order, self.repeats)
        parts = cut(rows, experts.bincount(minlength=EXPERTS).tolist(), self.cuts)
        layers = zip(parts, self.up, self.acts, self.down, strict=True)
        done = torch.cat([down(act(up(part))) for part, up, act, down in layers])
        result = torch.zeros_like(done)
        result[order] = F.relu(done)
        shape = (CHOSEN, -1, WIDTH) if whole else (-1, CHOSEN, WIDTH)
        return result.view(shape).sum(0 if whole else 1).view(x.shape)


def batch(*, padded: bool = True) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=draw)
    route = torch.rand(BATCH, LENGTH, EXPERTS, generator=draw).topk(CHOSEN).indices
    mask = (torch.arange(LENGTH) < torch.arange(BATCH)[:, None] % 6 + 3).long()
    return {"x": x, "route": route, **({"attention_mask": mask} if padded else {})}


def expected(model: Any, given: dict[str, Tensor]) -> tuple[list[int], list[float]]:
    """Return the numbers of rows and the scores of the experts and of what they return."""
    kept = given.get("attention_mask", torch.ones(BATCH, LENGTH)).bool()
    inputs, results = [], []
    with torch.no_grad():
        for number in range(EXPERTS):
            reached = (given["route"] == number).any(2) & kept
            inputs.append(model.up[number](given["x"][reached]))
            results.append(model.down[number](F.relu(inputs[-1])))
        inputs.append(torch.cat(results))
        return [len(x) for x in inputs], [float(sg.affinity(x, F.relu(x))) for x in inputs]


@pytest.mark.parametrize("repeats", ["interleaved", "expanded", "divided", "repeated", "in front"])
@pytest.mark.parametrize(
    ("samples", "padded"), [("tokens", True), ("tokens", False), ("positions", True)]
)
def test_sorted_tokens_are_scored_without_padding(repeats: str, samples: Any, padded: bool) -> None:
    model, given = Sorted(repeats), batch(padded=padded)
    found = sg.signature(model, [given], samples=samples, estimator="both")
    counts, scores = expected(model, given)
    assert [site.n for site in found.sites][:EXPERTS] == counts[:EXPERTS]
    assert found.scores[:EXPERTS] == pytest.approx(scores[:EXPERTS], abs=1e-6)
    if samples == "tokens":  # of positions not all are drawn from so many rows
        assert [site.n for site in found.sites] == counts
        assert found.scores == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize("cuts", ["split", "slice", "tensor_split", "narrow"])
def test_every_way_to_cut_the_sorted_rows_is_followed(cuts: str) -> None:
    model, given = Sorted(cuts=cuts), batch()
    found = sg.signature(model, [given], samples="tokens")
    counts, scores = expected(model, given)
    assert [site.n for site in found.sites] == counts
    assert found.scores == pytest.approx(scores, abs=1e-6)


def test_the_second_batch_has_its_own_rows() -> None:
    model, first = Sorted(), batch()
    second = {**batch(), "route": batch()["route"].flip(0), "x": first["x"] * 2}
    found = sg.signature(model, [first, second], samples="tokens", estimator="both")
    pairs = zip(expected(model, first)[0], expected(model, second)[0], strict=True)
    assert [site.population_n for site in found.sites] == [sum(pair) for pair in pairs]


def test_columns_of_sorted_rows_are_no_pieces_of_them() -> None:
    class Columns(nn.Module):
        def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
            rows = x.view(-1, WIDTH)
            value, gate = rows[rows[:, 0].argsort()].chunk(2, dim=-1)
            return F.relu(value) * F.relu(gate[:, :2]).sum()

    given = batch()
    found = sg.signature(
        Columns(), [{key: given[key] for key in ("x", "attention_mask")}], samples="tokens"
    )
    assert [site.n for site in found.sites] == [int(given["attention_mask"].sum())] * 2
