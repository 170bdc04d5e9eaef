"""Two processes that train and measure together, see `ranks_worker`.

They are started once; the tests look at what both have found.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

import sigmascope as sg
from tests.integrations.networks import PROBE, network
from tests.integrations.trainings import LIGHTNING
from tests.two_ranks import run_two_ranks

WORKER = Path(__file__).with_name("ranks_worker.py")
ROOT = Path(__file__).resolve().parents[2]
BOTH = pytest.mark.parametrize("rank", [0, 1])
Found = list[dict[str, Any]]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not torch.distributed.is_available(), reason="torch was built without distributed"
    ),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    directory = tmp_path_factory.mktemp("ranks")
    paths = [str(ROOT), str(Path(str(sg.__file__)).parents[1])]
    variables = {
        "ACCELERATE_USE_CPU": "true",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",  # asked for, but they meet in a file
        "PYTHONPATH": os.pathsep.join(paths),
        "TORCHELASTIC_RUN_ID": "test",
        "WORLD_SIZE": "2",
    }
    run_two_ranks(WORKER, directory, torchrun=True, **variables)
    return [torch.load(directory / f"rank{rank}.pt", weights_only=False) for rank in range(2)]


def scores_of(weights: dict[str, Any]) -> dict[str, float]:
    model = network()
    model.load_state_dict(weights)
    found = sg.signature(model, PROBE, estimator="population", progress=False)
    return found.to_dict("sigmascope/")


@BOTH
@pytest.mark.parametrize("name", [*LIGHTNING, "accelerate", "huggingface", "shards"])
def test_training_is_bit_identical(found: Found, name: str, rank: int) -> None:
    assert found[rank][name]["same"]


@pytest.mark.parametrize("name", [*LIGHTNING, "huggingface"])
def test_the_first_rank_measures_the_network_inside_and_logs(found: Found, name: str) -> None:
    assert found[0][name]["wrapper"] == found[1][name]["wrapper"] == "DistributedDataParallel"
    assert [one[name]["steps"] for one in found] == [[0, 3, 6], None]
    assert [step for step, _, _ in found[0][name]["logged"]] == [0, 3, 6]
    assert found[1][name]["logged"] == []
    for _, values, weights in found[0][name]["logged"]:
        wanted = scores_of(weights)
        assert {key: values[key] for key in wanted} == wanted


@BOTH
@pytest.mark.parametrize("name", LIGHTNING)
def test_all_ranks_can_monitor_the_last_numbers(found: Found, name: str, rank: int) -> None:
    last = found[0][name]["logged"][-1][1]["sigmascope/mean"]
    assert found[rank][name]["monitored"] == pytest.approx(last, rel=1e-6)


@pytest.mark.parametrize("name", LIGHTNING)
def test_a_checkpoint_has_the_history_of_the_first_rank(found: Found, name: str) -> None:
    assert [one[name]["resumed"] for one in found] == [[0, 3, 6, 9, 12], None]


def test_accelerate_measures_in_the_first_process(found: Found) -> None:
    assert {one["accelerate"]["wrapper"] for one in found} == {"DistributedDataParallel"}
    assert [one["accelerate"]["steps"] for one in found] == [[3, 6], []]
    assert [one["accelerate"]["resumed"] for one in found] == [[3, 6], [3, 6]]


def test_shards_are_measured_by_all_ranks_together(found: Found) -> None:
    assert all(one["shards"]["held"] == {"DTensor"} for one in found)
    assert [one["shards"]["steps"] for one in found] == [[0, 3], []]
    assert [one["shards"]["logged"] for one in found] == [[0, 3], []]
    wanted = scores_of(network().state_dict())
    scores = found[0]["shards"]["scores"][0].tolist()
    assert scores == pytest.approx([wanted["sigmascope/body.2"], wanted["sigmascope/head.1"]])
    monitored = [one["shards"]["monitored"] for one in found]
    assert monitored[0] == monitored[1]


@BOTH
class TestMetric:
    """`AffinityScore`."""

    def test_two_processes_have_the_score_of_one(self, found: Found, rank: int) -> None:
        results = found[rank]["torchmetrics"]
        assert results["two"] == pytest.approx(results["one"], abs=1e-9)
        assert results["n"] == 400

    def test_the_state_is_not_changed_by_computing(self, found: Found, rank: int) -> None:
        score, n = found[rank]["torchmetrics"]["twice"]
        assert n == 800
        assert score == pytest.approx(found[rank]["torchmetrics"]["one"], abs=1e-3)

    def test_a_process_without_samples_has_the_score_of_the_others(
        self, found: Found, rank: int
    ) -> None:
        results = found[rank]["torchmetrics"]
        assert results["idle"] == pytest.approx(results["one"], abs=1e-9)

    def test_collections(self, found: Found, rank: int) -> None:
        results = found[rank]["torchmetrics"]
        assert results["step"][0] == pytest.approx(results["step"][1], abs=1e-9)
        plain, wide, wanted = results["collection"]
        assert plain == pytest.approx(results["one"], abs=1e-9)
        assert wide == pytest.approx(wanted, abs=1e-9)
        assert abs(wide - plain) > 0.05
