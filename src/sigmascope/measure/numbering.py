"""The numbers of batches and samples in a data set, which a process may have a part of.

Random numbers, the positions drawn and the groups of the population score follow from these
numbers, so that every division of the data over processes gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sigmascope.errors import InputError
from sigmascope.measure.batches import batch_size
from sigmascope.measure.options import Options


class Numbered(NamedTuple):
    """A batch and its place in the data.

    Attributes:
        item: the batch.
        batch: its number.
        first: the number of its first sample; None where it follows the last one of the batch
            before.
        step: from the number of a sample to that of the next.
        complete: whether it counts for the published score.
    """

    item: object
    batch: int
    first: int | None = None
    step: int = 1
    complete: bool = True


class Order(Protocol):
    """How batches are numbered."""

    def numbered(
        self, items: Iterator[object], options: Options, notes: list[str]
    ) -> Iterator[Numbered]:
        """Yield the items with their numbers; add what a reader should know to the notes."""
        ...


@dataclass(frozen=True)
class Place:
    """Where consecutive batches are in the data; by default they are all of it.

    Attributes:
        batch, sample: the numbers of the first batch and its first sample.
        full: the size of the first batch of the data; None where it is among these.
        is_last: whether no batch follows these.
    """

    batch: int = 0
    sample: int = 0
    full: int | None = None
    is_last: bool = True

    def numbered(
        self, items: Iterator[object], options: Options, notes: list[str]
    ) -> Iterator[Numbered]:
        """Yield the items with their numbers.

        A last one that is smaller than the first does not count for the published score; without a
        population score it is left out.
        """
        full, size, number = self.full, 0, self.batch
        start: int | None = self.sample
        smaller: list[object] = []  # one that may be the last
        for item in items:
            size = batch_size(item, options.batch_axis)
            full = size if full is None else full
            held = size < full and options.published
            for one in [*smaller, *[item][held:]]:
                yield Numbered(one, number, start)
                number, start = number + 1, None
            smaller = [item] if held else []
        if full is None:
            raise InputError("batches is empty. Pass a loader or a list with at least one batch.")
        if not smaller:
            return
        if not self.is_last:
            yield Numbered(smaller[0], number, start)
            return
        notes.append(smaller_last(size, full, options))
        if options.population:
            yield Numbered(smaller[0], number, start, complete=False)


def smaller_last(size: int, full: int, options: Options) -> str:
    """Return the note on a last batch that is smaller than the first."""
    last = f"the last batch of {size} sample{'s' * (size != 1)}"
    if options.population:
        return f"{last} counts for the population score only, the first has {full}"
    return f"{last} was left out, the first has {full}"
