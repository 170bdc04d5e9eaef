"""One GPU shared by several processes, and the ranks of an NCCL group, of which there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import sigmascope as sg
from sigmascope.runs import Resources, Selection, load_runs, survey
from sigmascope.runs.executors import open_executor
from tests.measure.same_signature import assert_same

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_nccl = pytest.mark.skipif(
    not (dist.is_available() and dist.is_nccl_available()), reason="needs NCCL"
)
HALF = Resources(gpus=0.5)
DATA = Selection("random:8", limit=64, batch_size=16)
# Batches, of more than the one sample that shapes are read from, have to be on the GPU.
SOURCE = """
import torch
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)

class Here(nn.Module):
    def forward(self, x):
        if len(x) > 1 and not x.is_cuda:
            raise RuntimeError("this batch is not on the GPU")
        return x

def tiny(seed):
    torch.manual_seed(seed)
    return nn.Sequential(Here(), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.GELU())

def net_0(): return tiny(0)
def net_1(): return tiny(1)
def net_2(): return tiny(2)
def net_3(): return tiny(3)
"""


def names_in(folder: Path) -> list[str]:
    path = folder / "networks.py"
    path.write_text(SOURCE)
    return [f"py:{path}:net_{number}" for number in range(4)]


def network() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.GELU()]
        return nn.Sequential(*layers).double()


def images(count: int = 200) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, 8, 8, generator=generator, dtype=torch.float64)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of one rank, on NCCL."""
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=device)
    try:
        yield
    finally:
        dist.destroy_process_group()


@needs_nccl
@pytest.mark.usefixtures("alone")
class TestNccl:
    """`distributed=True` over NCCL is the signature of one process."""

    @pytest.mark.parametrize(
        "options",
        [
            {"metrics": "all"},
            {"samples": "positions", "max_positions": 5},
            {"samples": "tokens", "max_tokens": 100},
            {"estimator": "published"},
        ],
        ids=str,
    )
    def test_it_is_the_signature_of_one_process(self, options: dict[str, Any]) -> None:
        model, batches = network().cuda(), images().split(64)
        plain = sg.signature(model, batches, progress=False, **options)
        together = sg.signature(model, batches, distributed=True, progress=False, **options)
        assert together.device != "cpu"
        assert_same(together, plain)
        assert any(site.score == site.score or site.stderr > 0 for site in together.sites)

    def test_a_loader_with_a_sampler_and_ddp(self) -> None:
        model, dataset = network().cuda(), TensorDataset(images())
        sampler: Any = DistributedSampler(dataset, shuffle=False)
        own = DataLoader(dataset, batch_size=50, sampler=sampler)
        wrapped = nn.parallel.DistributedDataParallel(model, device_ids=[0])
        together = sg.signature(wrapped, own, distributed=True, progress=False)
        plain = sg.signature(model, DataLoader(dataset, batch_size=50), progress=False)
        for one, other in zip(together.sites, plain.sites, strict=True):
            assert one.population == pytest.approx(other.population, abs=1e-9)

    def test_a_failure_keeps_its_name(self) -> None:
        def batches() -> Iterator[Tensor]:
            yield images(32)
            raise ValueError("the file of batch 1 is gone")

        with pytest.raises(ValueError, match="the file of batch 1 is gone"):
            sg.signature(network().cuda(), batches(), distributed=True, progress=False)
        found = sg.signature(network().cuda(), [images(32)], distributed=True, progress=False)
        assert found.batches == 1


def test_two_processes_share_a_gpu(tmp_path: Path) -> None:
    names = names_in(tmp_path)
    found = survey(names, DATA, out=tmp_path / "runs", executor="local:2", resources=HALF)
    told = [outcome.failure and outcome.failure.message for outcome in found]
    assert ([outcome.state for outcome in found], told) == (["measured"] * 4, [None] * 4)
    shared = load_runs([tmp_path / "runs"])
    survey(names, DATA, out=tmp_path / "one", executor="local:1", resources=Resources(gpus=1))
    for one, other in zip(shared, load_runs([tmp_path / "one"]), strict=True):
        assert one.device == other.device != "cpu"
        assert_same(one, other)


def test_three_halves_are_more_than_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    names = names_in(tmp_path)
    with pytest.raises(sg.OptionError, match=r"need 2 GPUs, and this machine has 1"):
        survey(names, DATA, out=tmp_path / "runs", executor="local:3", resources=HALF)


def test_the_networks_notice_the_cpu(tmp_path: Path) -> None:
    """Negative control of the tests above."""
    [name, *_] = names_in(tmp_path)
    [outcome] = survey([name], DATA, out=tmp_path / "runs", device="cpu")
    assert outcome.failure is not None
    assert "this batch is not on the GPU" in outcome.failure.message


def test_parts_of_the_data_on_one_gpu(tmp_path: Path) -> None:
    [name, *_] = names_in(tmp_path)
    whole = sg.runs.split_signature(name, DATA, parts=1, progress=False)
    with open_executor("local:2", HALF) as executor:
        parts = sg.runs.split_signature(name, DATA, parts=4, executor=executor, progress=False)
    assert whole.device == parts.device != "cpu"
    for one, other in zip(parts.sites, whole.sites, strict=True):
        assert one.population == pytest.approx(other.population, abs=1e-9)
        assert one.score == pytest.approx(other.score, abs=1e-9)


def test_a_network_on_the_gpu_is_sent_to_processes(tmp_path: Path) -> None:
    model, batches = network().cuda(), list(images().split(50))
    plain = sg.signature(model, batches, progress=False)
    with open_executor("local:2", HALF) as executor:
        parts = sg.runs.split_signature(model, batches, parts=4, executor=executor, progress=False)
        given = survey({"net": model}, batches, out=tmp_path / "runs", executor=executor)
    assert [outcome.state for outcome in given] == ["measured"]
    [stored] = load_runs([tmp_path / "runs"])
    assert stored.device == parts.device == plain.device != "cpu"
    for one, other, third in zip(plain.sites, parts.sites, stored.sites, strict=True):
        assert other.population == pytest.approx(one.population, abs=1e-9)
        assert third.population == pytest.approx(one.population, abs=1e-9)
