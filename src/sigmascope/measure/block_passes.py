"""Two passes over the data: linear maps are fitted to half of the sequences, then all are judged.

Sequences are numbered in the order of the data. Those with even numbers are fitted to, those with
odd numbers are held out. Within a half, sequences form groups for the jackknife, since the tokens
of a sequence depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor, nn

from sigmascope.capture.block_finding import BlockPart
from sigmascope.capture.block_watching import BLOCK, Key, watching_blocks
from sigmascope.capture.guard import preserve_state
from sigmascope.errors import InputError
from sigmascope.maths.linear_map import LinearMap, RegressionSums, ResidualSums, as_double
from sigmascope.measure.batches import Batch, Forward, to_model
from sigmascope.measure.options import Options
from sigmascope.measure.progress import progress_bar, steps_of

GROUPS = 16
"""Groups of sequences in each half."""
UNPLACED = "the axis of the samples was not found in {} of a batch of {}"


@dataclass
class Judged:
    """What is known of one block or feed-forward part after both passes.

    Attributes:
        fitted: the map.
        inputs, outputs: the number of channels.
        on_fit, held_out: sums over either half of the sequences.
    """

    fitted: LinearMap
    inputs: int
    outputs: int
    on_fit: ResidualSums
    held_out: ResidualSums


@dataclass
class BlockPasses:
    """The passes of a network over data.

    Attributes:
        notes: what a reader of the result should know.
        reasons: of calls without a map, why.
        calls: of blocks, by path and number, in order of execution.
        sequences: how many there were.
    """

    network: nn.Module
    parts: list[BlockPart]
    forward: Forward
    options: Options
    notes: dict[str, None] = field(default_factory=dict)
    reasons: dict[Key, str] = field(default_factory=dict)
    calls: dict[tuple[str, int], None] = field(default_factory=dict)
    sequences: int = 0
    shown: bool = True

    def fit(self, items: Iterable[object]) -> dict[Key, LinearMap]:
        """Return the least squares map of every call, in order of execution."""
        sums: dict[Key, RegressionSums] = {}

        def take(key: Key, x: Tensor, y: Tensor, sequence: Tensor) -> None:
            chosen = sequence % 2 == 0
            sums.setdefault(key, RegressionSums()).add(x[chosen], y[chosen])

        self._run(items, take, "fit")
        if not self.sequences:
            raise InputError("batches is empty. Pass a loader or a list with at least one batch.")
        if not sums and not self.reasons:
            raise InputError(
                f"none of the {len(self.parts)} blocks ran on these batches. Name others: "
                "blocks='layers.*'."
            )
        return self._solved(sums)

    def _solved(self, sums: dict[Key, RegressionSums]) -> dict[Key, LinearMap]:
        maps: dict[Key, LinearMap] = {}
        for key, one in sums.items():
            if one.count < 2:
                self.reasons[key] = f"{one.count} tokens to fit a map to"
                continue
            if not one.is_finite():
                self.reasons[key] = "its inputs or outputs are not finite"
                continue
            maps[key] = one.solve()
        return maps

    def judge(self, items: Iterable[object], maps: dict[Key, LinearMap]) -> dict[Key, Judged]:
        """Return what the maps explain, of the sequences they were fitted to and of the others."""
        found = {key: _judged(one) for key, one in maps.items()}

        def take(key: Key, x: Tensor, y: Tensor, sequence: Tensor) -> None:
            if key not in found:
                return
            group, is_fit = sequence // 2 % GROUPS, sequence % 2 == 0
            halves = [(found[key].held_out, ~is_fit)]
            # the other half is asked only for what is measured on it
            halves += [(found[key].on_fit, is_fit)] if key[2] == BLOCK else []
            for sums, chosen in halves:
                sums.add(x[chosen], y[chosen], group[chosen])

        self._run(items, take, "judge")
        return found

    def _run(
        self,
        items: Iterable[object],
        take: Callable[[Key, Tensor, Tensor, Tensor], None],
        what: str,
    ) -> None:
        """Run the network, and hand on the rows of each call with their sequences' numbers."""
        batch: Batch
        first = 0

        def receive(key: Key, x: Tensor, y: Tensor) -> None:
            self.calls[key[:2]] = None
            rows = self._rows(key, x, y, batch)
            if rows is not None:
                take(key, *rows[:2], rows[2] + first)

        total = steps_of(items, self.options.max_batches)
        with (
            preserve_state(self.network, mode=self.options.mode),
            progress_bar(f"blocks: {what}", total, shown=self.shown) as advance,
            watching_blocks(self.network, self.parts, receive) as restart,
        ):
            torch.manual_seed(self.options.seed)  # the same order of a shuffling loader each time
            for item in islice(items, self.options.max_batches):
                batch = to_model(item, self.network, batch_axis=self.options.batch_axis)
                restart()
                self.forward(self.network, batch.content)
                first += batch.size
                advance()
        self.sequences = first

    def _rows(
        self, key: Key, x: Tensor, y: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return the tokens (m, d) and (m, e) that are not padding, and their sequences (m,)."""
        if x.shape[:-1] != y.shape[:-1]:
            self.reasons[key] = f"it turns {list(x.shape)} into {list(y.shape)}"
            return None
        sequence = _sequences(x, batch.size, self.options.batch_axis)
        if sequence is None:
            self.reasons[key] = UNPLACED.format(list(x.shape), batch.size)
            return None
        x, y = (as_double(one).flatten(0, -2) for one in (x, y))
        sequence = sequence.flatten().to(x.device)
        mask = self._mask(key[0], sequence, batch)
        if mask is None:
            return x, y, sequence
        kept = mask.to(x.device)
        return x[kept], y[kept], sequence[kept]

    def _mask(self, path: str, sequence: Tensor, batch: Batch) -> Tensor | None:
        """Return which rows are not padding, if the batch tells."""
        part = "decoder" if "decoder" in batch.masks and "decoder" in path else ""
        mask = batch.masks.get(part)
        if mask is None:
            return None
        if mask.numel() != len(sequence):
            self.notes[
                f"the attention mask {list(mask.shape)} does not fit the tokens of {path}, so that "
                "padding was not left out there"
            ] = None
            return None
        runs_along = bool((sequence[1:] >= sequence[:-1]).all())  # samples come first
        return (mask if runs_along else mask.T).reshape(-1)


def _judged(fitted: LinearMap) -> Judged:
    outputs, inputs = fitted.weight.shape
    sums = [ResidualSums(fitted, GROUPS, steps=inputs == outputs) for _ in range(2)]
    return Judged(fitted, inputs, outputs, *sums)


def _sequences(x: Tensor, size: int, batch_axis: int) -> Tensor | None:
    """Return the number of the sequence of each token, of the shape of x without channels."""
    lead = x.shape[:-1]
    numbers = torch.arange(max(size, 1))
    for axis in dict.fromkeys((batch_axis, 0, 1)):
        if axis < len(lead) and lead[axis] == size:
            shape = [1] * len(lead)
            shape[axis] = size
            return numbers.view(shape).expand(lead)
    if size and lead[0] % size == 0:  # the tokens or windows of one after those of the other
        shape = [lead[0], *[1] * (len(lead) - 1)]
        return numbers.repeat_interleave(lead[0] // size).view(shape).expand(lead)
    return None
