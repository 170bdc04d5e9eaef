"""Networks of several processes: two of them train and measure together, see `distributed_worker`.

They are started once; the tests look at what both have found.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sigmascope.measure import ranks
from sigmascope.measure.ranks import Ranks, SameBatches
from sigmascope.monitoring import schedule
from sigmascope.monitoring.schedule import SharedSchedule
from tests.two_ranks import run_two_ranks

WORKER = Path(__file__).with_name("distributed_worker.py")
BOTH = pytest.mark.parametrize("rank", [0, 1])
SLOW = pytest.mark.slow
AVAILABLE = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch was built without distributed"
)
Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    directory = tmp_path_factory.mktemp("ranks")
    run_two_ranks(WORKER, directory)
    return [torch.load(directory / f"rank{rank}.pt", weights_only=False) for rank in range(2)]


@SLOW
@AVAILABLE
class TestDataParallel:
    """Networks in DistributedDataParallel."""

    @BOTH
    def test_training_is_bit_identical(self, found: Found, rank: int) -> None:
        assert found[rank]["ddp same"]

    def test_the_first_rank_has_the_track(self, found: Found) -> None:
        assert [one["ddp steps"] for one in found] == [[0, 2, 4], []]

    def test_scores_are_those_of_one_process(self, found: Found) -> None:
        assert np.array_equal(found[0]["ddp scores"], found[0]["ddp alone"])

    def test_a_signature_is_that_of_the_network_inside(self, found: Found) -> None:
        wrapped, inside, name = found[0]["ddp signature"]
        assert np.array_equal(wrapped, inside)
        assert name == "Sequential"

    @BOTH
    def test_layers_that_wait_for_all_ranks_are_refused(self, found: Found, rank: int) -> None:
        assert "'sync' is a SyncBatchNorm" in found[rank]["ddp sync"]


@SLOW
@AVAILABLE
class TestShards:
    """Networks in shards of `fully_shard`."""

    @BOTH
    def test_training_is_bit_identical(self, found: Found, rank: int) -> None:
        assert found[rank]["fsdp same"]
        assert found[rank]["fsdp auto same"]
        assert found[rank]["fsdp held"] == {"DTensor"}

    def test_the_first_rank_has_the_track(self, found: Found) -> None:
        assert [one["fsdp steps"] for one in found] == [[0, 2, 4], []]
        assert [one["fsdp logged"] for one in found] == [3, 0]

    @BOTH
    def test_scores_are_those_of_one_process(self, found: Found, rank: int) -> None:
        assert found[rank]["fsdp sites"] == ["0.2", "1", "2"]
        assert len(found[rank]["fsdp values"]) == 3
        for values, alone in zip(
            found[rank]["fsdp values"], found[rank]["fsdp alone"], strict=True
        ):
            assert alone == pytest.approx({key: values[key] for key in alone}, abs=1e-6)

    @BOTH
    def test_a_network_is_itself_in_shards(self, found: Found, rank: int) -> None:
        sharded, alone = found[rank]["fsdp identity"]
        assert sharded == alone

    def test_clocks_agree(self, found: Found) -> None:
        steps = found[0]["fsdp auto"]
        assert steps[0] == 0
        assert steps == found[1]["fsdp auto"] == found[0]["fsdp auto track"]
        assert found[1]["fsdp auto track"] == []

    @BOTH
    def test_measuring_before_a_step_or_in_vain_changes_nothing(
        self, found: Found, rank: int
    ) -> None:
        assert "shapes cannot be multiplied" in found[rank]["fsdp failed"]
        assert found[rank]["fsdp between"]

    @BOTH
    def test_a_penalty_has_the_gradient_of_one_process(self, found: Found, rank: int) -> None:
        plain, sharded = found[rank]["penalty gradients"]
        torch.testing.assert_close(sharded, plain)
        assert found[rank]["penalty sites"] == [["0.2", "1", "2"]] * 2

    @BOTH
    @pytest.mark.parametrize(
        ("case", "text"),
        [
            ("other batches", "InputError: batch 1 is not the same on all ranks"),
            ("fewer batches", "InputError: batch 2 is not the same on all ranks"),
            ("other options", "OptionError: options are not the same on all ranks"),
            ("kept", "OptionError: keep and resume are for networks of one process"),
            ("fsdp1", "NetworkError: The network is a FullyShardedDataParallel"),
        ],
    )
    def test_refusals(self, found: Found, rank: int, case: str, text: str) -> None:
        assert found[rank][case].startswith(text)

    def test_one_rank_alone_is_told(self, found: Found) -> None:
        assert "rank 0 waits for [1]" in found[0]["one rank"]
        assert [one["and then both"] for one in found] == ["", ""]


FULL = "No space left on device"


@SLOW
@AVAILABLE
class TestOneFails:
    """The first rank fails alone; the other one does not wait for it."""

    @pytest.mark.parametrize(
        ("case", "reason"),
        [
            ("options", "OptionError: mode='never' is not a valid choice"),
            ("batches", f"OSError: {FULL}"),
            ("scores", f"OSError: {FULL}"),
            ("forward", f"OSError: {FULL}"),
        ],
    )
    def test_the_other_is_told_why(self, found: Found, case: str, reason: str) -> None:
        (first, again), (other, other_again) = (one[f"alone: {case}"] for one in found)
        assert first.startswith(reason)
        assert other.startswith(f"RankError: rank 0 failed, so that no rank has a result: {reason}")
        assert (again, other_again) == ("", "")  # both can measure again

    def test_a_track_that_cannot_be_kept(self, found: Found) -> None:
        first, other = (one["alone: monitor"] for one in found)
        assert first[0] == f"OSError: {FULL}"
        assert other[0] == ""  # it has measured before the first one failed
        assert other[1].startswith("RankError: rank 0 failed, so that no rank has a result: OSErr")

    def test_callbacks_of_both_warn_and_stop(self, found: Found) -> None:
        assert [one["alone: watched"] for one in found] == [[False] * 3, [True, False, False]]
        for one, step in zip(found, (0, 1), strict=True):
            [told] = one["alone: warned"]
            assert told.startswith(f"step {step}: the network was not measured")
            assert FULL in told
        assert [one["alone: then"] for one in found] == ["", ""]


@SLOW
@AVAILABLE
@BOTH
@pytest.mark.parametrize("case", ["tensor parallel", "tensor parallel in shards"])
def test_tensor_parallel_networks_are_refused(found: Found, rank: int, case: str) -> None:
    assert len(found[rank][case]) == 3
    for said in found[rank][case]:
        assert said.startswith("NetworkError: The part '0' of the network is tensor parallel")


class Alone(Ranks):
    """One process that is asked now and then."""

    def __init__(self) -> None:
        self.asked = 0

    def meet(self) -> None:
        self.asked += 1

    def first_of(self, number: int) -> int:
        return number

    def agree(self, number: int) -> bool:
        return number != -1 or self.asked == 0


def test_ranks_are_asked_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, alone = [0.0], Alone()
    monkeypatch.setattr(schedule.time, "perf_counter", lambda: clock[0])
    shared, due, measured = SharedSchedule(alone), 0.0, []
    for step in range(500):
        clock[0] += 1.0
        if shared.is_due(due):
            measured.append(step)
            clock[0] += 5.0
            due = clock[0] + 95.0
            shared.begin()
    assert measured == [0, 95, 190, 285, 380, 475]
    assert alone.asked <= 2 * len(measured)


def test_batches_end_together() -> None:
    alone = Alone()
    assert len(SameBatches([torch.zeros(2)], alone)) == 1
    assert len([*SameBatches([torch.zeros(2)], alone)]) == 1
    alone.asked = 1
    with pytest.raises(ranks.InputError, match="batch 3 is not the same on all ranks"):
        [*SameBatches([torch.zeros(2), torch.ones(2)], alone)]


def test_those_who_do_not_come_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    came: dict[str, int] = {}

    class Store:
        def add(self, key: str, number: int) -> int:
            came[key] = came.get(key, 0) + number
            return came[key]

        def check(self, keys: list[str]) -> bool:
            return all(key in came for key in keys)

    seconds = count()
    monkeypatch.setattr(ranks.time, "monotonic", lambda: float(next(seconds) * 100))
    monkeypatch.setattr(ranks.time, "sleep", lambda _: None)
    monkeypatch.setattr(ranks.dist, "get_rank", lambda: 1)
    monkeypatch.setattr(ranks.dist.distributed_c10d, "_get_default_store", Store)
    three = Ranks([0, 1, 2], [], torch.device("cpu"))
    came["sigmascope/[0, 1, 2]/2"] = 1
    with pytest.raises(ranks.NetworkError, match=r"rank 1 waits for \[0\], which measure nothing"):
        three.meet()
    assert came["sigmascope/[0, 1, 2]/1"] == 0  # so that it can come again
    came["sigmascope/[0, 1, 2]/0"] = 1
    three.meet()
    assert not three.is_first
