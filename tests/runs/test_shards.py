"""The shard of a process, from the variables of schedulers and launchers."""

from __future__ import annotations

import pytest

import sigmascope as sg
from sigmascope.runs import Shard
from sigmascope.runs.shards import shard_here

SLURM = {"SLURM_ARRAY_TASK_MIN": "2", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_STEP": "4"}
LSF = {"LSB_JOBINDEX_END": "8", "LSB_JOBINDEX_STEP": "1"}
SGE = {"SGE_TASK_FIRST": "3", "SGE_TASK_LAST": "9", "SGE_TASK_STEPSIZE": "2"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SLURM_ARRAY_TASK_ID": "10", **SLURM}, Shard(3, 3)),
        ({"SLURM_ARRAY_TASK_ID": "2", "RANK": "5", "WORLD_SIZE": "8", **SLURM}, Shard(1, 3)),
        ({"LSB_JOBINDEX": "8", **LSF}, Shard(8, 8)),
        ({"LSB_JOBINDEX": "0", "RANK": "1", "WORLD_SIZE": "2"}, Shard(2, 2)),
        ({"SGE_TASK_ID": "7", **SGE}, Shard(3, 4)),
        ({"SGE_TASK_ID": "undefined", "RANK": "0", "WORLD_SIZE": "1"}, Shard(1, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, Shard(4, 4)),
    ],
)
def test_variables_tell_the_shard(variables: dict[str, str], expected: Shard) -> None:
    assert shard_here(environment=variables) == expected


def test_pbs_needs_the_number_of_shards() -> None:
    for name in ("PBS_ARRAY_INDEX", "PBS_ARRAYID"):
        assert shard_here(16, environment={name: "5"}) == Shard(5, 16)
        with pytest.raises(sg.OptionError, match=r"PBS does not say how many .* Pass auto/N"):
            shard_here(environment={name: "5"})


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, r"finds no job array: none of SLURM_ARRAY_TASK_ID, .* RANK is set"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, r"RANK=4 is not one of 4 shards"),
        ({"RANK": "x", "WORLD_SIZE": "4"}, r"RANK='x' is not a number"),
        ({"SLURM_ARRAY_TASK_ID": "1", **SLURM}, r"SLURM_ARRAY_TASK_ID=1 is not one of 3 shards"),
    ],
)
def test_other_variables_are_refused(variables: dict[str, str], told: str) -> None:
    with pytest.raises(sg.OptionError, match=told):
        shard_here(environment=variables)


def test_every_network_is_in_one_shard() -> None:
    names = [f"network {number}" for number in range(11)]
    ranks = [{"RANK": str(rank), "WORLD_SIZE": "4"} for rank in range(4)]
    shards = [shard_here(environment=rank).of(names) for rank in ranks]
    assert sorted(name for shard in shards for name in shard) == sorted(names)
