"""Ranks that measure one network together, each on its own batches, see `distributed_ranks`.

Two are started once; the tests look at what both have found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sigmascope as sg
from tests.measure.same_signature import assert_same
from tests.two_ranks import run_two_ranks

WORKER = Path(__file__).with_name("distributed_ranks.py")
Found = list[dict[str, Any]]
BOTH = pytest.mark.parametrize("rank", [0, 1])
AVAILABLE = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch was built without distributed"
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    directory = tmp_path_factory.mktemp("ranks")
    run_two_ranks(WORKER, directory)
    return [torch.load(directory / f"rank{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.slow
@AVAILABLE
class TestTwoRanks:
    """What two ranks find."""

    @BOTH
    @pytest.mark.parametrize(
        "case",
        ["both", "positions", "sums", "tokens", "published", "some", "ddp", "unequal", "empty"],
    )
    def test_it_is_the_signature_of_one_process(self, found: Found, rank: int, case: str) -> None:
        alone, together = found[0][case][0], found[rank][case][1]
        assert_same(together, alone)
        assert any(site.score == site.score or site.stderr > 0 for site in together.sites)

    def test_ranks_agree_to_the_bit(self, found: Found) -> None:
        first, second = (repr([*map(vars, one["both"][1].sites)]) for one in found)
        assert first == second

    def test_the_cases_are_what_they_say(self, found: Found) -> None:
        both, sums = found[0]["both"][1], found[0]["sums"][1]
        assert any("the last batch of 11 samples counts" in one for one in both.coverage.notes)
        assert {"cka", "entropy"} <= both.sites[0].metrics.keys()
        assert (both.batches, both.samples) == (8, 320)
        assert sums.sites[0].population_n == 331 * 36
        assert (found[0]["some"][1].batches, found[0]["unequal"][1].batches) == (3, 5)
        experts = [site for site in both.sites if site.path.startswith("7")]
        assert len(experts) == 2
        assert max(site.tested for site in both.sites) == 128

    @BOTH
    def test_samples_of_a_sampler_have_their_numbers(self, found: Found, rank: int) -> None:
        alone, together = found[0]["sampler"][0], found[rank]["sampler"][1]
        for one, other in zip(together.sites, alone.sites, strict=True):
            assert_same(
                (one.population, one.stderr, one.influence, one.moved, one.tested),
                (other.population, other.stderr, other.influence, other.moved, other.tested),
            )
            assert one.population_n == other.population_n > 0
        assert together.coverage.notes == alone.coverage.notes

    def test_repeated_samples_are_told(self, found: Found) -> None:
        notes = found[1]["odd"].coverage.notes
        assert any("the DistributedSampler repeats 1 of the 331 samples" in one for one in notes)

    @pytest.mark.parametrize(
        ("case", "rank", "own", "text"),
        [
            ("loader fails", 1, "ValueError: the file of batch 1 is gone", "the file of batch 1"),
            ("network fails", 0, "RuntimeError: Calculated padded input", "Calculated padded"),
            ("bad option", 1, "OptionError: samples='none'", "OptionError: samples='none'"),
            ("no size", 1, "InputError: a batch does not tell its number", "number of samples"),
        ],
    )
    def test_a_rank_that_fails_is_named(
        self, found: Found, case: str, rank: int, own: str, text: str
    ) -> None:
        assert found[rank][case].startswith(own)
        others = found[1 - rank][case]
        assert others.startswith(f"RankError: rank {rank} failed, so that no rank has a result: ")
        assert text in others

    @BOTH
    @pytest.mark.parametrize(
        ("case", "text"),
        [
            ("other options", "OptionError: options are not the same on all ranks"),
            ("other networks", "NetworkError: the network is not the same on all ranks"),
            ("all empty", "InputError: no rank has a batch"),
            ("training", "OptionError: mode='as-is' with layers in training mode"),
            ("resume", "OptionError: keep and resume are for one process"),
        ],
    )
    def test_refusals(self, found: Found, rank: int, case: str, text: str) -> None:
        assert found[rank][case].startswith(text)
        assert found[rank]["and then"] == ""

    def test_a_rank_that_does_not_come_is_named(self, found: Found) -> None:
        expected = "NetworkError: distributed=True lets 2 ranks measure together, and rank 0 waits"
        assert found[0]["one rank"].startswith(expected)

    def test_a_rank_that_dies_does_not_keep_the_others(self, found: Found) -> None:
        assert found[0]["lost"].startswith("RankError: rank 0 cannot reach the others any more")


@AVAILABLE
@pytest.mark.skipif(
    not torch.cuda.is_available() or not torch.distributed.is_nccl_available(),
    reason="NCCL needs a CUDA device, and there is none",
)
def test_nccl(tmp_path: Path) -> None:  # pragma: no cover
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh()).cuda()
        batches = torch.randn(300, 8).split(64)
        alone = sg.signature(network, batches, progress=False)
        assert_same(sg.signature(network, batches, distributed=True, progress=False), alone)
    finally:
        torch.distributed.destroy_process_group()


def test_without_a_process_group_it_is_refused() -> None:
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
    with pytest.raises(sg.OptionError, match="distributed=True needs a process group"):
        sg.signature(network, torch.randn(64, 8), distributed=True)
    with pytest.raises(sg.OptionError, match="distributed must be True or False, got 'yes'"):
        sg.signature(network, torch.randn(64, 8), distributed="yes")  # type: ignore[typeddict-item]
