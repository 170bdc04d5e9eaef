"""Data in three parts: to tune on, to select and calibrate on, and to test on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.checks import check_seed
from sigmascope.errors import InputError
from sigmascope.linearize.data import Data
from sigmascope.measure.batches import batch_size
from sigmascope.measure.digests import digest_of, digest_of_batch

TOGETHER = 250  # samples of a batch that is made of tensors
HELD_OUT, MOST_HELD_OUT = 0.1, 5000  # of the training samples
SHARES = (0.6, 0.2, 0.2)  # of samples without a split


@dataclass(frozen=True, eq=False)
class Split:
    """Data for `sigmascope.linearize.fit`: loaders, lists of batches, or tensors (inputs, labels).

    Attributes:
        train: to tune on.
        held_out: training data that nothing is tuned on: sites are selected, maps fitted and the
            curve measured there.
        test: what the result is measured on, once; None for no test.
    """

    train: Any
    held_out: Any
    test: Any = None

    @classmethod
    def of(
        cls, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, seed: int = 0
    ) -> Split:
        """Return training and test samples, with a tenth of the former held out, at most 5,000."""
        n = len(train[1])
        kept, held_out = _parts(n, [1 - HELD_OUT, HELD_OUT], seed)
        kept = torch.cat([kept, held_out[MOST_HELD_OUT:]])
        held_out = held_out[:MOST_HELD_OUT]
        return cls(_chosen(train, kept), _chosen(train, held_out), test)

    @classmethod
    def divided(cls, samples: tuple[Tensor, Tensor], *, seed: int = 0) -> Split:
        """Return samples without a split, 60 % to tune on, 20 % held out and 20 % to test on.

        >>> x, y = torch.randn(10, 2), torch.zeros(10, dtype=torch.long)
        >>> found = Split.divided((x, y))
        >>> [len(part[1]) for part in (found.train, found.held_out, found.test)]
        [6, 2, 2]
        """
        return cls(*(_chosen(samples, part) for part in _parts(len(samples[1]), SHARES, seed)))

    def digests(self) -> dict[str, str | None]:
        """Return what tells the data from others."""
        parts = {"train": self.train, "held_out": self.held_out, "test": self.test}
        return {
            name: None if part is None else digest_of_data(part) for name, part in parts.items()
        }


def _parts(count: int, shares: Any, seed: int) -> list[Tensor]:
    """Return the places of samples in random parts of these shares."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(check_seed(seed)))
    ends = [round(count * sum(shares[: number + 1])) for number in range(len(shares))]
    parts = [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if not all(map(len, parts)):
        raise InputError(
            f"{count} samples are too few to be divided into {len(shares)} parts. Pass more."
        )
    return parts


def _chosen(samples: tuple[Tensor, Tensor], places: Tensor) -> tuple[Tensor, Tensor]:
    ordered = places.sort().values
    return samples[0][ordered], samples[1][ordered]


def are_tensors(batches: Any) -> bool:
    """Return whether data is all inputs and all labels as two tensors."""
    return (
        isinstance(batches, tuple | list)
        and len(batches) == 2
        and all(isinstance(part, Tensor) for part in batches)
        and batches[1].ndim == 1
        and len(batches[0]) == len(batches[1])
    )


def in_batches(batches: Any) -> Any:
    """Return data in batches, of which each fits into memory."""
    if not are_tensors(batches):
        return batches
    return list(zip(*(torch.split(part, TOGETHER) for part in batches), strict=True))


def digest_of_data(batches: Any) -> str:
    """Return a digest of all samples in two tensors, or of the first batch of a loader."""
    if are_tensors(batches):
        return digest_of(batches)
    return digest_of_batch(next(iter(Data(batches).items), None))


def size_of(batches: Any) -> int:
    """Return the number of samples, which takes a pass over a loader; 0 for None."""
    if batches is None:
        return 0
    if are_tensors(batches):
        return len(batches[1])
    return sum(batch_size(item, 0) for item in Data(batches).items)
