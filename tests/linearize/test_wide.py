"""Calls with more channels than their samples can tell apart are scored in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.linearize.wide import width_of
from sigmascope.maths.population import samples_needed


class Wide(nn.Module):
    """A narrow activation, then a wide and nearly affine one, also as a function in place."""

    def __init__(self, width: int = 120, *, inplace: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.three = nn.Linear(6, 8), nn.Linear(8, width), nn.Linear(width, 4)
        self.narrow, self.inplace = nn.ReLU(), inplace

    def forward(self, x: Tensor) -> Tensor:
        x = self.two(self.narrow(self.one(x)))
        return self.three(F.leaky_relu(x, 0.9, inplace=self.inplace))


class WideMaps(nn.Module):
    """The same with convolutions, which see 2 × 2 positions of each sample."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.act, self.head = nn.Conv2d(3, 200, 2), nn.LeakyReLU(0.9), nn.Linear(200, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.one(x)).mean((2, 3)))


def vectors(n: int = 80) -> list[Tensor]:
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return [x[: n // 3], x[n // 3 :]]


def planned(network: nn.Module, batches: Any, **options: Any) -> sg.linearize.Plan:
    return sg.linearize.plan(network.double(), batches, **{"budget": 1, **options})


def mean_of_blocks(x: Tensor, y: Tensor, index: Tensor, width: int) -> float:
    found = []
    for first in range(0, x.shape[1], width):
        moments = sg.Moments()
        columns = slice(first, first + width)
        moments.update(x[:, columns].contiguous(), y[:, columns].contiguous(), index)
        found.append(moments.score().score)
    return float(np.mean(found))


@pytest.mark.parametrize("channels", [7, 100, 513, 4096])
@pytest.mark.parametrize("rows", [31, 32, 100, 1000])
def test_blocks_are_as_wide_as_the_rows_allow(channels: int, rows: int) -> None:
    width = width_of(channels, rows)
    if rows >= samples_needed(channels) or rows < samples_needed(1):
        assert width == 0
    else:
        blocks = -(-channels // width)
        assert 4 * width <= rows
        assert 4 * -(-channels // max(1, blocks - 1)) > rows or blocks == 1


@pytest.mark.parametrize("inplace", [False, True])
def test_a_wide_call_is_ranked_by_its_blocks(inplace: bool) -> None:
    network = Wide(inplace=inplace).double().eval()
    found = planned(network, vectors())
    wide = found.chosen[0]
    assert wide.kind == "leaky_relu"
    assert wide.blocks == 6  # of 20 channels, for 80 rows
    with torch.no_grad():
        x = network.two(network.narrow(network.one(torch.cat(vectors()))))
    expected = mean_of_blocks(x, F.leaky_relu(x, 0.9), torch.arange(80), 20)
    assert wide.score == pytest.approx(expected, abs=1e-9)
    assert wide.low < wide.score < wide.high
    assert "≈ 0.9" in str(found)
    assert "which are scored in blocks" in str(found)


@pytest.mark.parametrize("by", ["affinity", "pooled"])
def test_positions_of_a_sample_are_of_one_group(by: str) -> None:
    network = WideMaps().double().eval()
    x = torch.randn(40, 3, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = planned(network, x, by=by, scores=False).sites[0]
    with torch.no_grad():
        before = network.one(x)
        pairs = [before, network.act(before)]
    if by == "pooled":
        rows, index = [one.mean((2, 3)) for one in pairs], torch.arange(40)
    else:
        rows = [one.permute(0, 2, 3, 1).reshape(-1, 200) for one in pairs]
        index = torch.arange(40).repeat_interleave(4)
    expected = mean_of_blocks(*rows, index, width_of(200, len(index)))
    assert found.value == pytest.approx(expected, abs=1e-9)


def test_a_call_with_samples_enough_is_scored_as_a_whole() -> None:
    found = planned(Wide(), vectors(400))
    assert {site.blocks for site in found.sites} == {1}
    assert "≈" not in str(found)


def test_the_scores_of_blocks_are_near_that_of_all_channels() -> None:
    few, many = (planned(Wide(), vectors(n), budget=2) for n in (200, 4000))
    assert few.sites[1].blocks > 1
    assert many.sites[1].blocks == 1
    assert abs(few.sites[1].score - many.sites[1].score) < 0.05


def test_without_samples_for_any_block_there_is_no_score() -> None:
    found = planned(Wide(), vectors(20), by="depth")
    assert all(np.isnan(site.score) for site in found.sites)


def test_blocks_survive_a_file(tmp_path: Any) -> None:
    found = planned(Wide(), vectors())
    found.save(tmp_path / "plan.json")
    assert [site.blocks for site in sg.linearize.Plan.load(tmp_path / "plan.json").sites] == [1, 6]
