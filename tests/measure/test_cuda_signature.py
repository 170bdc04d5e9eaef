"""A GPU gives the CPU's scores and companion metrics, and batches follow the network there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def convolutional() -> tuple[nn.Module, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.GELU())
    images = torch.randn(200, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    return network.double(), images


@pytest.mark.parametrize(
    "options",
    [{}, {"samples": "positions", "max_positions": 5}, {"samples": "tokens", "max_tokens": 500}],
    ids=str,
)
def test_the_same_population_scores(options: dict[str, Any]) -> None:
    network, images = convolutional()
    on_cpu = sg.signature(network, images.split(64), estimator="population", **options)
    for items in (images.split(64), images.cuda().split(64)):
        on_gpu = sg.signature(network.cuda(), items, estimator="population", **options)
        assert on_gpu.data == on_cpu.data
        for one, other in zip(on_gpu.sites, on_cpu.sites, strict=True):
            assert one.population_n == other.population_n
            assert (one.population, one.stderr) == pytest.approx(
                (other.population, other.stderr), abs=1e-8
            )


def test_many_batches_on_the_gpu() -> None:
    """More than those whose fingerprints are fetched together."""
    network, images = convolutional()
    on_cpu = sg.signature(network, images.split(2), estimator="population")
    on_gpu = sg.signature(network.cuda(), images.cuda().split(2), estimator="population")
    assert on_gpu.data == on_cpu.data
    assert on_gpu.scores == pytest.approx(on_cpu.scores, abs=1e-8)


@pytest.mark.parametrize("after", [1, 3])
def test_a_run_on_the_gpu_continues(after: int, tmp_path: Path) -> None:
    network, images = convolutional()
    network.cuda()

    def stopping() -> Iterator[Tensor]:
        yield from images.split(40)[:after]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        sg.signature(network, stopping(), resume=tmp_path / "run.jsonl")
    found = sg.signature(network, images.split(40), resume=tmp_path / "run.jsonl")
    whole = sg.signature(network, images.split(40))
    assert found.scores_by("population") == pytest.approx(whole.scores_by("population"), abs=1e-12)
    assert found.data == whole.data


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
