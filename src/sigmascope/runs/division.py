"""How data is divided among tasks: into runs of whole batches, whose places are known."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from sigmascope.capture.guard import randomness_kept
from sigmascope.catalog.datasets import Data
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.batches import batch_size, batches_of
from sigmascope.measure.digests import digest_of_batch
from sigmascope.measure.numbering import Place
from sigmascope.measure.options import Options

Span = tuple[int, int]
"""The number of the first batch, and that after the last."""

REMEDY = (
    "Pass a list of batches, a DataLoader over a data set that has a length, or the name of data "
    "in the catalog"
)


def divided(total: int, parts: int, covered: Iterable[Span] = ()) -> list[Span]:
    """Return spans of batches, as equal as can be, without those that are covered already.

    Args:
        total: the number of batches; with fewer than parts, each part is one batch.
        parts: how many spans.
        covered: spans that do not overlap, in order, also of another division.

    >>> divided(10, 4), divided(2, 4)
    ([(0, 2), (2, 5), (5, 7), (7, 10)], [(0, 1), (1, 2)])
    >>> divided(10, 4, [(2, 5), (6, 8)])
    [(0, 2), (5, 6), (8, 10)]
    """
    count = min(parts, total)
    borders = [number * total // count for number in range(count + 1)]
    spans = []
    for start, end in pairwise(borders):
        for first, after in covered:
            if first < end and after > start:
                spans += [(start, first)] if first > start else []
                start = after
        spans += [(start, end)] if start < end else []
    return spans


@dataclass(frozen=True)
class Source:
    """Batches that can be read from any one on.

    Attributes:
        starts: the number of the first sample of each batch, and the number of all samples.
        batches: what the batches are read from.
    """

    starts: tuple[int, ...]
    batches: ListedBatches | LoadedBatches | Data

    @property
    def total(self) -> int:
        """The number of batches."""
        return len(self.starts) - 1

    def place(self, span: Span) -> Place:
        """Return where a span is in the data."""
        first, end = span
        return Place(first, self.starts[first], self.starts[1], end == self.total)

    def values(self) -> str:
        """Return a digest of batches in memory; "" where they would have to be read."""
        if not isinstance(self.batches, ListedBatches):
            return ""
        return digest_of_batch(self.batches.items[: self.total])

    def between(self, first: int, end: int) -> Iterable[Any]:
        """Return the batches of a span, to be sent to a task."""
        if isinstance(self.batches, Data):
            return self.batches.between(first, end)
        return self.batches.between(first, end)


def source_of(batches: object, options: Options) -> Source:
    """Return batches that can be divided.

    Raises:
        InputTypeError: they come one after the other only.
        InputError: there is none, or one does not tell its number of samples.
    """
    found: ListedBatches | LoadedBatches | Data
    if isinstance(batches, DataLoader):
        found = _loaded(batches, options.seed)
        sizes = [len(one) for one in found.indices]
    elif isinstance(batches, Data):
        found, sizes = batches, sizes_of(batches)
    else:
        found = ListedBatches(_listed(batches))
        sizes = [batch_size(one, options.batch_axis) for one in found.items]
    sizes = sizes[: options.max_batches]
    if not sizes:
        raise InputError("batches is empty. Pass a loader or a list with at least one batch.")
    if not all(sizes):
        raise InputError(
            f"batch {sizes.index(0)} does not tell its number of samples, so that those after it "
            "have no place in the data. Pass tensors, tuples (inputs, labels) or dicts of tensors."
        )
    return Source((0, *accumulate(sizes)), found)


def sizes_of(data: Data) -> list[int]:
    """Return the size of each batch of data in the catalog."""
    rest = data.size % data.batch_size
    return [data.batch_size] * (data.size // data.batch_size) + [rest] * bool(rest)


@dataclass(frozen=True)
class ListedBatches:
    """Batches in memory."""

    items: Sequence[Any]

    def between(self, first: int, end: int) -> Sequence[Any]:
        """Return some of them, without what they are views of, which would be sent along."""
        return [_alone(one) for one in self.items[first:end]]


@dataclass(frozen=True)
class LoadedBatches:
    """The batches of a DataLoader; each is known by the numbers of its samples.

    Attributes:
        dataset, collate: of the loader.
        workers: processes that load samples.
        indices: the samples of each batch.
    """

    dataset: Any
    collate: Any
    workers: int
    indices: tuple[tuple[Any, ...], ...]

    def between(self, first: int, end: int) -> LoadedBatches:
        """Return some of them."""
        return LoadedBatches(self.dataset, self.collate, self.workers, self.indices[first:end])

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Any]:
        # a daemon, as some executors use, may start no process
        workers = 0 if multiprocessing.current_process().daemon else self.workers
        chosen: Any = [list(one) for one in self.indices]
        return iter(
            DataLoader(
                self.dataset, batch_sampler=chosen, collate_fn=self.collate, num_workers=workers
            )
        )


def _loaded(loader: DataLoader[Any], seed: int) -> LoadedBatches:
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        kind = type(loader.dataset).__name__
        raise InputTypeError(
            f"the DataLoader over {kind} gives one batch after the other, and no task can begin in "
            f"the middle. {REMEDY}."
        )
    # in the order of one process: with its seed, and drawn by a loader of the same kind
    with randomness_kept():
        torch.manual_seed(seed)
        numbers: Any = _Numbers()
        order: Any = DataLoader(
            numbers,
            batch_sampler=loader.batch_sampler,
            collate_fn=tuple,
            generator=loader.generator,
        )
        indices = tuple(order)
    return LoadedBatches(loader.dataset, loader.collate_fn, loader.num_workers, indices)


class _Numbers:
    """A data set whose samples are their numbers."""

    def __getitem__(self, number: Any) -> Any:
        return number


def _alone(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_nested:
        held = value.untyped_storage().nbytes()
        return value.clone() if held > value.numel() * value.element_size() else value
    if isinstance(value, dict):
        return {name: _alone(one) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_alone(one) for one in value)
    return value


def _listed(batches: object) -> Sequence[Any]:
    found = batches_of(batches)
    if not isinstance(found, (list, tuple)):
        raise InputTypeError(
            f"a {type(batches).__name__} gives one batch after the other, and cannot be divided "
            f"among tasks. {REMEDY}."
        )
    return found
