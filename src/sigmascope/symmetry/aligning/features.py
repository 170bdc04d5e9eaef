"""How alike the channels of two networks are by what they compute, summed up over batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from sigmascope.capture.activations import kind_of_layer
from sigmascope.capture.guard import preserve_state
from sigmascope.capture.layers import hooked
from sigmascope.errors import InputError
from sigmascope.measure.batches import batches_of, run_forward, to_model
from sigmascope.measure.copies import copy_of, is_empty
from sigmascope.measure.progress import progress_bar, steps_of
from sigmascope.symmetry.aligning.blocks import Block, Cell, Observed

MOST = 6  # calls of modules by which a cell is seen
Key: TypeAlias = tuple[int, int]
"""A block, and which of its observed calls."""
Sink: TypeAlias = Callable[[Key, Tensor], None]

IDLE = (nn.Dropout, nn.Identity)


def unlikeness(
    networks: tuple[nn.Module, nn.Module], batches: Any, blocks: Sequence[Block], *, progress: bool
) -> dict[int, Tensor]:
    """Return, for each cell that is seen, 1 - the correlation of its channels: (n, n), a by b.

    Where signs are free, absolute correlations. A silent channel has the correlation 0 with all.
    The correlations of several calls are averaged. Features are kept for one batch at a time.

    Raises:
        InputError: batches is empty, or features are NaN or infinite.
    """
    chosen = {
        (number, place): seen
        for number, block in enumerate(blocks)
        if isinstance(block, Cell) and block.permuted
        for place, seen in enumerate(_chosen(block, networks[0]))
    }
    sums = {key: _Correlation() for key in chosen}
    count = 0
    with progress_bar("features of both networks", steps_of(batches, None), shown=progress) as step:
        for item in batches_of(batches):
            kept: dict[Key, Tensor] = {}
            count += _run(networks[0], item, chosen, kept.__setitem__)
            _run(networks[1], item, chosen, partial(_add, sums, kept))
            step()
    if not count:
        raise InputError("batches is empty. Pass a loader or a list with at least one sample.")
    found: dict[int, list[Tensor]] = {}
    for (number, _), one in sums.items():
        seen = chosen[number, _]
        if not one.is_finite:
            raise InputError(
                f"what the layer {seen.call[0]!r} returns on the batches is NaN or infinite. Pass "
                'inputs for which it is not, or by="weights".'
            )
        found.setdefault(number, []).append(1 - one.matrix(absolute=seen.signed))
    return {number: torch.stack(own).mean(dim=0) for number, own in found.items()}


def _add(sums: dict[Key, _Correlation], kept: dict[Key, Tensor], key: Key, y: Tensor) -> None:
    x = kept.pop(key, None)
    if x is None or x.shape != y.shape:
        raise InputError(
            "a module returns features of other shapes in the two networks. Pass networks of one "
            "architecture."
        )
    # also of networks on two devices, or in half precision, whose sums would be infinite
    dtype = torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)
    sums[key].add(x.to(dtype), y.to(x.device, dtype))


def _chosen(cell: Cell, network: nn.Module) -> list[Observed]:
    """Return where to look at a cell: at activations, if there are any, else at any layer."""
    modules = dict(network.named_modules())
    leaves = [
        one
        for one in cell.observed
        if not any(modules[one.call[0]].children()) and not isinstance(modules[one.call[0]], IDLE)
    ]
    active = [one for one in leaves if kind_of_layer(modules[one.call[0]]) is not None]
    found = active or leaves or list(cell.observed)
    fewest = min((one.index.shape[1] for one in found), default=0)
    found = [one for one in found if one.index.shape[1] == fewest]  # not flattened
    if len(found) <= MOST:
        return found
    return [found[round(place * (len(found) - 1) / (MOST - 1))] for place in range(MOST)]


def _run(network: nn.Module, item: object, chosen: dict[Key, Observed], sink: Sink) -> bool:
    """Run a network on a batch and show the features (n, f) of the chosen calls.

    Returns False for a batch without samples, which is left out.
    """
    batch = to_model(copy_of(item), network, batch_axis=0)
    if is_empty(batch):
        return False
    with preserve_state(network, mode="eval"), _hooked(network, chosen, sink):
        run_forward(network, batch.content)
    return True


@contextmanager
def _hooked(network: nn.Module, chosen: dict[Key, Observed], sink: Sink) -> Iterator[None]:
    calls: Counter[str] = Counter()
    modules = dict(network.named_modules())

    def show(path: str, _: nn.Module, __: object, output: object) -> None:
        number = calls[path]
        calls[path] += 1
        for key, seen in chosen.items():
            if seen.call == (path, number) and isinstance(output, Tensor):
                part = output.detach().movedim(seen.axis, 0)
                part = part if _is_all(seen.index, len(part)) else part[seen.index.flatten()]
                rows = part.reshape(len(seen.index), -1)
                if rows.untyped_storage().data_ptr() == output.untyped_storage().data_ptr():
                    rows = rows.clone()  # the network may overwrite its own
                sink(key, rows)

    paths = dict.fromkeys(seen.call[0] for seen in chosen.values())
    with hooked(((modules[path], partial(show, path)) for path in paths), prepend=True):
        yield


def _is_all(index: Tensor, length: int) -> bool:
    return bool(torch.equal(index.flatten(), torch.arange(length)))


class _Correlation:
    """Sums from which the correlations of the channels x (n, f) and y (n, f) follow."""

    def __init__(self) -> None:
        self._shifts: tuple[Tensor, Tensor] | None = None
        self._count = 0
        self._sums: list[Tensor] = []

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add a batch, shifted by the means of the first one, for the sake of rounding.

        The batch is changed in place.
        """
        if self._shifts is None:
            self._shifts = x.mean(dim=1, keepdim=True), y.mean(dim=1, keepdim=True)
        sums, squares = [], []
        for one, shift in zip((x, y), self._shifts, strict=True):
            one -= shift
            sums.append(one.sum(dim=1))
            squares.append(torch.linalg.vector_norm(one, dim=1).double().square())
        own = [*sums, *squares, x @ y.T]
        doubles = [one.double().cpu() for one in own]
        earlier = self._sums or [torch.zeros_like(one) for one in doubles]
        self._sums = [a + b for a, b in zip(earlier, doubles, strict=True)]
        self._count += x.shape[1]

    @property
    def is_finite(self) -> bool:
        """Whether all sums are."""
        return all(bool(one.isfinite().all()) for one in self._sums)

    def matrix(self, *, absolute: bool) -> Tensor:
        """Return (n, n), the correlations; 0 for channels that do not vary."""
        x, y, xx, yy, xy = self._sums
        covariance = xy - x[:, None] * y[None, :] / self._count
        spread = [
            torch.where(var > 1e-12 * square.max().clamp(min=1e-300), var, torch.inf).sqrt()
            for square, var in (
                (xx, xx - x.square() / self._count),
                (yy, yy - y.square() / self._count),
            )
        ]
        found = covariance / (spread[0][:, None] * spread[1][None, :])
        return found.abs() if absolute else found
