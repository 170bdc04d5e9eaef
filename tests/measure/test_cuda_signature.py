"""A GPU gives the CPU's scores and companion metrics, and batches follow the network there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.measure.companions import companions

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def normal(n: int, d: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("covariance", ["ledoit-wolf", "unbiased"])
def test_the_same_scores(covariance: str) -> None:
    # In float64, so that the two forward passes agree.
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(inplace=True), nn.Conv2d(16, 24, 3), nn.GELU()
    ).double()
    batches = [
        torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3)
    ]
    on_cpu = sg.signature(network, batches, covariance=covariance, metrics="all")
    on_gpu = sg.signature(network.cuda(), batches, covariance=covariance, metrics="all")
    assert on_gpu.scores == pytest.approx(on_cpu.scores, abs=1e-5)
    for one, other in zip(on_gpu.sites, on_cpu.sites, strict=True):
        assert one.metrics == pytest.approx(other.metrics, abs=1e-4, nan_ok=True)
    assert on_gpu.device != on_cpu.device == "cpu"


def test_the_random_state_of_the_gpu() -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout()).cuda()
    x, before = normal(40, 4), torch.cuda.get_rng_state()
    first = sg.signature(network, x, mode="as-is")
    assert torch.equal(before, torch.cuda.get_rng_state())
    again = sg.signature(network, x, mode="as-is")
    assert [site.scores for site in first.sites] == [site.scores for site in again.sites]


@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize(("n", "d"), [(200, 30), (50, 300)])
def test_the_same_companion_metrics(n: int, d: int, compat: bool) -> None:
    x = normal(n, d)
    here, there = (
        companions(x, x.relu(), compat=compat),
        companions(x.cuda(), x.relu().cuda(), compat=compat),
    )
    assert there.values == pytest.approx(here.values, abs=1e-9, nan_ok=True)
    assert there.reasons == here.reasons
