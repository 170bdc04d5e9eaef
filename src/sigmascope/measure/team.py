"""The ranks of a process group that measure together, each on its own batches.

Before everything that they do together they exchange a few numbers, also whether one of them has
failed. So no rank waits for one that does not come: all of them get an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, Self

import torch
import torch.distributed as dist
from torch import Tensor

from sigmascope.errors import OptionError, RankError, SigmascopeError
from sigmascope.measure.ranks import FAILURE, UNREACHABLE, Ranks, told

NUMBERS = 3  # that are exchanged, besides the state of each rank


class Team(Ranks):
    """All processes of the default process group.

    Attributes:
        count: how many there are.
        me: the rank of this one.
    """

    why = "distributed=True lets {count} ranks measure together"

    def __init__(self, count: int, device: torch.device) -> None:
        super().__init__(list(range(count)), [dist.group.WORLD], device)
        self.count, self.me = count, self._me
        self._parted = False  # whether all know that there is nothing more to do together

    @classmethod
    def joined(cls) -> Self:
        """Return the processes, after all of them have come.

        Raises:
            OptionError: there is no process group.
            NetworkError: some have not come in time.
        """
        if not dist.is_available() or not dist.is_initialized():
            raise OptionError(
                "distributed=True needs a process group. Start the script with torchrun and call "
                "torch.distributed.init_process_group() first, or leave distributed out."
            )
        on_gpu = "nccl" in str(dist.get_backend())
        device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu"
        team = cls(dist.get_world_size(), torch.device(device))
        team.meet()
        return team

    @contextmanager
    def working(self) -> Iterator[None]:
        """Tell the others where the block raises an error that they do not know of."""
        try:
            yield
        except BaseException as error:
            if not self._parted:
                with suppress(RankError):
                    self._exchange([], told(error))
            raise

    def refuse(self, error: SigmascopeError) -> NoReturn:
        """Raise an error that all ranks find, each for itself."""
        self._parted = True
        raise error

    def exchange(self, *numbers: int) -> list[list[int]]:
        """Return the numbers that each rank has given.

        Raises:
            RankError: one of them has failed, or cannot be reached.
        """
        return self._exchange(numbers, None)

    def texts(self, text: bytes) -> list[bytes]:
        """Return the texts that each rank has given."""
        lengths = [length for length, *_ in self.exchange(len(text))]
        rows = self._rows(_as_tensor(text)[:, None], lengths)
        return [bytes(one[:, 0].numpy()) for one in rows]

    def rows(self, own: Tensor) -> list[Tensor]:
        """Return the rows (n, w) of each rank, on the CPU; all are of one width and type."""
        return self._rows(own, [count for count, *_ in self.exchange(len(own))])

    def summed(self, own: Tensor) -> Tensor:
        """Return the sum over all ranks, of use on the first only; `own` may be overwritten."""
        self.exchange()
        total = own.to(self._device).contiguous()
        with self._reaching():
            dist.reduce(total, 0)
        return total

    def given_by(self, rank: int, own: Tensor) -> Tensor:
        """Return what one rank gives; those of the others are of the same shape and type."""
        self.exchange()
        value = own.to(self._device, copy=True)
        with self._reaching():
            dist.broadcast(value, rank)
        return value.cpu()

    def _rows(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:
        longest = max(counts)
        padded = own.new_zeros(longest, own.shape[1], device=self._device)
        padded[: len(own)] = own.to(self._device)
        if not longest:
            return [own.cpu()] * self.count
        together = torch.cat(self._gathered(padded)).cpu()
        starts = range(0, longest * self.count, longest)
        return [together[start : start + n] for start, n in zip(starts, counts, strict=True)]

    def _exchange(self, numbers: Sequence[int], error: str | None) -> list[list[int]]:
        text = b"" if error is None else error.encode(errors="backslashreplace")
        row = [*numbers, *[0] * (NUMBERS - len(numbers)), int(error is not None), len(text)]
        table = [one.tolist() for one in self._gathered(torch.tensor(row, device=self._device))]
        failed = [rank for rank, one in enumerate(table) if one[NUMBERS]]
        if failed:
            self._parted = True
            texts = self._rows(_as_tensor(text)[:, None], [one[-1] for one in table])
            if error is None:
                said = bytes(texts[failed[0]][:, 0].numpy()).decode(errors="replace")
                raise RankError(FAILURE.format(failed[0], said))
        return [one[:NUMBERS] for one in table]

    def _gathered(self, own: Tensor) -> list[Tensor]:
        found = [torch.empty_like(own) for _ in range(self.count)]
        with self._reaching():
            dist.all_gather(found, own)
        return found

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ConnectionError) as error:  # as torch says that a process is gone
            self._parted = True
            said = str(error).partition("\n")[0]
            raise RankError(UNREACHABLE.format(self._me, said)) from error


def _as_tensor(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text or b"\0"), dtype=torch.uint8)[: len(text)]
