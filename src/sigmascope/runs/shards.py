"""The shard of a process, from the variables that schedulers and launchers set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sigmascope.errors import OptionError
from sigmascope.runs.request import Shard


@dataclass(frozen=True)
class Variables:
    """The variables of one scheduler.

    Attributes:
        scheduler: its name.
        index: the number of this job or process.
        first: the smallest number, a variable or a text; "" if numbers count from the first one on.
        last: the largest number, or "" if `count` is given.
        count: how many there are; "" if neither is told.
        step: the distance of two numbers; "" for 1.
    """

    scheduler: str
    index: str
    first: str = ""
    last: str = ""
    count: str = ""
    step: str = ""


# In this order: an array says more about the work than the processes within one of its jobs.
SCHEDULERS = (
    Variables(
        "Slurm",
        "SLURM_ARRAY_TASK_ID",
        first="SLURM_ARRAY_TASK_MIN",
        count="SLURM_ARRAY_TASK_COUNT",
        step="SLURM_ARRAY_TASK_STEP",
    ),
    Variables("PBS", "PBS_ARRAY_INDEX", first="1"),
    Variables("PBS", "PBS_ARRAYID", first="1"),
    Variables("LSF", "LSB_JOBINDEX", first="1", last="LSB_JOBINDEX_END", step="LSB_JOBINDEX_STEP"),
    Variables(
        "Grid Engine",
        "SGE_TASK_ID",
        first="SGE_TASK_FIRST",
        last="SGE_TASK_LAST",
        step="SGE_TASK_STEPSIZE",
    ),
    Variables("torchrun", "RANK", first="0", count="WORLD_SIZE"),
)
NOWHERE = ("", "0", "undefined")  # the index of LSF and Grid Engine outside of an array


def shard_here(count: int | None = None, environment: Mapping[str, str] | None = None) -> Shard:
    """Return the shard of this process in a job array, or among the ranks of a launcher.

    Args:
        count: the number of shards, where the scheduler does not tell it, as PBS.
        environment: the variables; by default those of this process.

    Raises:
        OptionError: there are no such variables; or they do not tell how many shards there are.

    >>> shard_here(environment={"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5",
    ...     "SLURM_ARRAY_TASK_COUNT": "4"})
    Shard(index=3, count=4)
    >>> shard_here(environment={"RANK": "0", "WORLD_SIZE": "2"})
    Shard(index=1, count=2)
    """
    there = os.environ if environment is None else environment
    for known in SCHEDULERS:
        is_rank = known.index == "RANK"
        if there.get(known.index, "") not in (NOWHERE if not is_rank else ("",)):
            return _shard(known, count, there)
    names = ", ".join(known.index for known in SCHEDULERS)
    raise OptionError(
        f"shard='auto' finds no job array: none of {names} is set. Pass I/N, such as 1/4."
    )


def _shard(known: Variables, count: int | None, there: Mapping[str, str]) -> Shard:
    index = _number(known.index, there[known.index])
    step = _number(known.step, there.get(known.step) or "1")
    first = known.first if known.first.isdigit() else there.get(known.first) or "1"
    place = (index - _number(known.first, first)) // max(1, step) + 1
    total = count
    if total is None and there.get(known.count):
        total = _number(known.count, there[known.count])
    elif total is None and there.get(known.last):
        last = _number(known.last, there[known.last])
        total = (last - _number(known.first, first)) // max(1, step) + 1
    if total is None:
        raise OptionError(
            f"shard='auto': {known.scheduler} does not say how many jobs its array has. Pass "
            "auto/N, such as auto/16, with indices from 1 to N."
        )
    if not 1 <= place <= total:
        raise OptionError(
            f"shard='auto': {known.index}={index} is not one of {total} shards. Pass I/N."
        )
    return Shard(place, total)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"shard='auto': {name}={text!r:.40} is not a number. Pass I/N.") from None
