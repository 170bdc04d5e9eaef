"""The processes that hold shards of a network, and measure it together.

Each gathers weights from the others in every forward pass, so that all of them have to run the same
passes. Where they do not, torch waits until its time is up. What can be found out before is an
error with the reason: that another process has not come at all, and that it has other batches.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from sigmascope.capture.sharded import is_distributed, sharded_parts
from sigmascope.errors import InputError, NetworkError, OptionError
from sigmascope.measure.batches import fingerprint_of_batch
from sigmascope.measure.options import Options

LIMIT = 300.0  # seconds to wait for the others; they may be writing a checkpoint
LOOK = 0.005  # seconds between looks


class Ranks:
    """The processes that hold shards of a network.

    Args:
        members: their ranks; the first decides where one has to.
        groups: process groups that connect them, one for each axis of their mesh.
        device: where tensors for these groups are.
    """

    why = "the network is in shards on {count} ranks"  # they have to come

    def __init__(self, members: list[int], groups: list[Any], device: torch.device) -> None:
        self._members, self._groups, self._device = members, groups, device
        self._me = dist.get_rank()

    @property
    def is_first(self) -> bool:
        """Whether this process is the first of them."""
        return self._me == self._members[0]

    def meet(self) -> None:
        """Wait until all have come.

        Through the store of the process group: a collective that the others do not take part in
        would be taken for one of theirs.

        Raises:
            NetworkError: some have not come in time.
        """
        store: Any = getattr(dist.distributed_c10d, "_get_default_store", lambda: None)()
        if store is None:
            return
        keys = {rank: f"sigmascope/{self._members}/{rank}" for rank in self._members}
        mine, end = store.add(keys[self._me], 1), time.monotonic() + LIMIT
        missing = [rank for rank in self._members if rank != self._me]
        while missing := [rank for rank in missing if store.add(keys[rank], 0) < mine]:
            if time.monotonic() > end:
                store.add(keys[self._me], -1)
                why = self.why.format(count=len(self._members))
                raise NetworkError(
                    f"{why}, and rank {self._me} waits for {missing}, which measure nothing. "
                    "Measure on all ranks, not only on the first."
                )
            time.sleep(LOOK)

    def first_of(self, number: int) -> int:
        """Return the number that the first process has given."""
        value = torch.tensor(number, device=self._device)
        for group in self._groups:
            dist.broadcast(value, dist.get_global_rank(group, 0), group=group)
        return int(value)

    def agree(self, number: int) -> bool:
        """Return whether all processes have given the same number."""
        same = torch.tensor(int(self.first_of(number) == number), device=self._device)
        for group in self._groups:
            dist.all_reduce(same, dist.ReduceOp.MIN, group=group)
        return bool(same)


def ranks_of(network: nn.Module) -> Ranks | None:
    """Return the processes that hold shards of a network; None where it has none.

    Raises:
        NetworkError: the process group is closed.
    """
    parts = sharded_parts(network)
    if not parts:
        return None
    if not dist.is_initialized():
        raise NetworkError(
            "the network is in shards, and the process group that connects them is closed. Measure "
            "before destroy_process_group."
        )
    known = (one for own in parts.values() for one in own if is_distributed(one))
    shard: Any = next(known, None)
    if shard is None:  # all weights are gathered at the moment
        everybody = list(range(dist.get_world_size()))
        kind = next(one.device.type for own in parts.values() for one in own if one is not None)
        return Ranks(everybody, [dist.group.WORLD], _device_for(kind))
    mesh = shard.device_mesh
    groups = [mesh.get_group(axis) for axis in range(mesh.ndim)]
    return Ranks(mesh.mesh.flatten().tolist(), groups, _device_for(mesh.device_type))


def _device_for(kind: str) -> torch.device:
    return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)


def batches_of_all(
    network: nn.Module, batches: Iterable[object], options: Options
) -> Iterable[object]:
    """Return batches to measure a network on; of one in shards, after all processes have come.

    Raises:
        NetworkError: some have not come.
        OptionError: some have come with other options.
    """
    ranks = ranks_of(network)
    if ranks is None:
        return batches
    ranks.meet()
    if not ranks.agree(_number(hashlib.sha256(repr(options).encode()).hexdigest())):
        raise OptionError("options are not the same on all ranks. Pass the same on each.")
    return SameBatches(batches, ranks)


def _number(digest: str) -> int:
    return int(digest[:15], 16)


class SameBatches:
    """Batches that all processes have in common.

    Raises:
        InputError: while they are read, in all processes, where they differ.
    """

    def __init__(self, batches: Iterable[object], ranks: Ranks) -> None:
        self._batches, self._ranks = batches, ranks

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[object]:
        number = 0
        for number, batch in enumerate(self._batches, start=1):
            self._check(number, _number(fingerprint_of_batch(batch)))
            yield batch
        self._check(number + 1, -1)

    def _check(self, number: int, value: int) -> None:
        if not self._ranks.agree(value):
            raise InputError(
                f"batch {number} is not the same on all ranks, or some have no more. A network in "
                "shards runs on all of them together: pass the same batches on each, not those of "
                "a DistributedSampler."
            )
