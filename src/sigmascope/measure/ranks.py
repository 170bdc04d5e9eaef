"""The processes that hold shards of a network, and measure it together.

Each gathers weights from the others in every forward pass, so that all of them have to run the same
passes. Where they do not, torch waits until its time is up. What can be found out before is an
error with the reason: that another process has not come at all, that it has other batches, or that
it has failed. Only one that fails alone within a forward pass cannot tell the others at once: they
wait in torch for weights that do not come, for as long as the process group allows, and then find
its note. Nothing ends such a wait earlier: gloo does not abort.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from sigmascope.capture.sharded import is_distributed, sharded_parts
from sigmascope.errors import InputError, NetworkError, OptionError, RankError
from sigmascope.measure.batches import fingerprint_of_batch
from sigmascope.measure.options import Options

LIMIT = 300.0  # seconds to wait for the others; they may be writing a checkpoint
LOOK = 0.005  # seconds between looks
ASK = 0.1  # seconds between questions whether another one has failed
FAILED = -2  # what a process that has failed agrees to
LONGEST = 2_000  # characters of an error that others are told


class Ranks:
    """The processes that hold shards of a network.

    Args:
        members: their ranks; the first decides where one has to.
        groups: process groups that connect them, one for each axis of their mesh.
        device: where tensors for these groups are.
        own: whether what they note is not read by those who meet elsewhere; all processes have to
            make as many of this kind.
    """

    why = "the network is in shards on {count} ranks"  # they have to come
    _number = 0  # of what they do together, while they do
    _joins = False  # whether the next thing that they do together is to agree

    def __init__(
        self, members: list[int], groups: list[Any], device: torch.device, *, own: bool = False
    ) -> None:
        self._scope = f"{next(_scopes)}/" if own else ""
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
        store = _store()
        if store is None:
            return
        keys = {rank: self._key(rank) for rank in self._members}
        mine, end = store.add(keys[self._me], 1), time.monotonic() + LIMIT
        missing = [rank for rank in self._members if rank != self._me]
        while missing := [rank for rank in missing if store.add(keys[rank], 0) < mine]:
            if time.monotonic() > end:
                store.add(keys[self._me], -1)
                why = self.why.format(count=len(self._members))
                raise _known_to_others(
                    NetworkError(
                        f"{why}, and rank {self._me} waits for {missing}, which measure nothing. "
                        "Measure on all ranks, not only on the first."
                    )
                )
            time.sleep(LOOK)
        self._number = mine
        self.check_failed()

    def part(self) -> None:
        """End what they do together: the next thing is to meet again."""
        self._number, self._joins = 0, False

    def alone(self) -> None:
        """Begin what each does for itself until they agree again."""
        self._joins = True

    def together(self) -> None:
        """Begin a forward pass, in which they exchange weights."""
        self._joins = False

    def tell(self, error: BaseException) -> None:
        """Tell the others that this process has failed, so that they need not wait for it.

        Where they are to agree next, it takes part once more. Otherwise they find a note, in the
        store of the process group, when they meet or while they wait to agree.
        """
        if isinstance(error, RankError) or getattr(error, KNOWN, False):
            return
        store, joins = _store(), self._joins
        self._joins = False
        _known_to_others(error)
        with suppress(RuntimeError):  # the others or the store may have gone
            if store is not None:
                number = self._number or store.add(self._key(self._me), 0) + 1
                if store.add(self._key(f"failures {number}"), 1) == 1:
                    store.set(self._key(f"failed {number}"), f"{self._me} {told(error)}")
                if not joins:
                    store.set(self._key(f"gone {number}"), "")
                if not self._number:
                    store.add(self._key(self._me), 1)  # come, so that nobody waits
            if joins:
                self.agree(FAILED)
        self.part()

    def check_others(self) -> None:
        """Find out, before they go on together, whether another one has failed.

        Raises:
            RankError: it has; the reason is told.
        """
        if not self.agree(0):
            self.check_failed()
        self._joins = False

    def check_failed(self, kind: str = "failed") -> None:
        """Raise a RankError if another one has left a note."""
        store = _store()
        if store is None or not store.check([self._key(f"{kind} {self._number}")]):
            return
        text = store.get(self._key(f"failed {self._number}")).decode(errors="replace")
        rank, _, said = text.partition(" ")
        self.part()
        raise RankError(FAILURE.format(rank, said))

    def lost(self, error: BaseException) -> RankError:
        """Return what to raise where others cannot be reached: why, if one has left a note."""
        try:
            self.check_failed()
        except (RankError, RuntimeError) as reason:  # the store may have gone too
            if isinstance(reason, RankError):
                return reason
        return RankError(UNREACHABLE.format(self._me, str(error).partition("\n")[0]))

    def _key(self, about: object) -> str:
        return f"sigmascope/{self._scope}{self._members}/{about}"

    def _finish(self, work: Any) -> None:
        """Wait for the others, unless one of them has failed and does not come."""
        pause, asked = LOOK / 64, time.monotonic()
        while not work.is_completed():
            time.sleep(pause)
            pause = min(2 * pause, LOOK)
            if self._number and time.monotonic() > asked + ASK:
                asked = time.monotonic()
                self.check_failed("gone")
        work.wait()

    def first_of(self, number: int) -> int:
        """Return the number that the first process has given."""
        value = torch.tensor(number, device=self._device)
        for group in self._groups:
            first = dist.get_global_rank(group, 0)
            self._finish(dist.broadcast(value, first, group=group, async_op=True))
        return int(value)

    def agree(self, number: int) -> bool:
        """Return whether all processes have given the same number."""
        same = torch.tensor(int(self.first_of(number) == number), device=self._device)
        for group in self._groups:
            least = dist.ReduceOp.MIN
            self._finish(dist.all_reduce(same, least, group=group, async_op=True))
        return bool(same)


UNREACHABLE = (
    "rank {} cannot reach the others any more ({}). One of them has ended: look at its output, and "
    "start all of them again."
)
_scopes = count()
KNOWN = "_known_to_other_ranks"
FAILURE = (
    "rank {} failed, so that no rank has a result: {} Mend it there, and measure again on all "
    "ranks."
)


def _known_to_others(error: BaseException) -> BaseException:
    """Return an error after noting that nobody has to be told of it."""
    setattr(error, KNOWN, True)
    return error


def told(error: BaseException) -> str:
    """Return what others are told of an error: a sentence, without what leads up to it."""
    text = " ".join(str(error).split())[:LONGEST]
    return f"{type(error).__name__}: {text.rstrip('.')}."


def _store() -> Any:
    """Return the store of the process group, which processes reach at any moment; or None."""
    try:
        return getattr(dist.distributed_c10d, "_get_default_store", lambda: None)()
    except ValueError:  # there is no process group
        return None


def ranks_of(network: nn.Module, *, own: bool = False) -> Ranks | None:
    """Return the processes that hold shards of a network; None where it has none.

    For `own` see `Ranks`.

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
        return Ranks(everybody, [dist.group.WORLD], _device_for(kind), own=own)
    mesh = shard.device_mesh
    groups = [mesh.get_group(axis) for axis in range(mesh.ndim)]
    return Ranks(mesh.mesh.flatten().tolist(), groups, _device_for(mesh.device_type), own=own)


def _device_for(kind: str) -> torch.device:
    return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)


@contextmanager
def telling(ranks: Ranks | None) -> Iterator[None]:
    """Tell the other processes where the block fails in this one.

    Raises:
        RankError: torch has lost the connection to another one.
    """
    try:
        yield
    except BaseException as error:
        if ranks is not None and _is_lost(error):
            raise ranks.lost(error) from error
        if ranks is not None:
            ranks.tell(error)
        raise


def _is_lost(error: BaseException) -> bool:
    """Return whether a collective broke off since a process has ended, as torch says it."""
    kinds = (ConnectionError, dist.DistError)
    return isinstance(error, kinds) or (type(error) is RuntimeError and "gloo" in str(error))


def begin_together(ranks: Ranks, options: Options) -> None:
    """Let all processes that hold shards of a network begin to measure it.

    Raises:
        NetworkError: some have not come.
        OptionError: some have come with other options.
        RankError: one has failed.
    """
    ranks.meet()
    if not ranks.agree(_number(hashlib.sha256(repr(options).encode()).hexdigest())):
        error = OptionError("options are not the same on all ranks. Pass the same on each.")
        raise _known_to_others(error)


def _number(digest: str) -> int:
    return int(digest[:15], 16)


class SameBatches:
    """Batches that all processes have in common.

    Raises:
        InputError: while they are read, in all processes, where they differ.
        RankError: another process has failed.
    """

    def __init__(self, batches: Iterable[object], ranks: Ranks) -> None:
        self._batches, self._ranks = batches, ranks

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[object]:
        number = 0
        self._ranks.alone()
        for number, batch in enumerate(self._batches, start=1):
            self._check(number, _number(fingerprint_of_batch(batch)))
            self._ranks.together()
            yield batch
        self._check(number + 1, -1)

    def _check(self, number: int, value: int) -> None:
        if not self._ranks.agree(value):
            self._ranks.check_failed()
            error = InputError(
                f"batch {number} is not the same on all ranks, or some have no more. A network in "
                "shards runs on all of them together: pass the same batches on each, not those of "
                "a DistributedSampler."
            )
            raise _known_to_others(error)
