"""Watching the blocks of a network: the inputs and outputs of chosen modules, as they pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from sigmascope.capture.block_finding import BlockPart
from sigmascope.capture.guard import plain_path
from sigmascope.capture.walk import modules_of

BLOCK, FEED_FORWARD = "block", "feed-forward"
Key = tuple[str, int, str]
"""The path of a block, which of its calls in a pass it is, and `BLOCK` or `FEED_FORWARD`."""
Receive = Callable[[Key, Tensor, Tensor], None]


@contextmanager
def watching_blocks(
    network: nn.Module, blocks: list[BlockPart], receive: Receive
) -> Iterator[Callable[[], None]]:
    """Pass the input and the output of each block and feed-forward part to a function.

    Yields a function to call before each batch, which numbers the calls from 0 again; a pass of the
    whole network does so itself.

    An input is copied, since a block may add to it in place. Nothing remains on the network when
    the context ends, however it ends.
    """
    modules = {plain_path(path): module for path, module in modules_of(network)}
    handles: list[Any] = []
    counts: Counter[str] = Counter()
    try:
        handles.append(network.register_forward_pre_hook(lambda *_: counts.clear()))
        for block in blocks:
            watched = [(BLOCK, block.path, block.path)]
            watched += [(FEED_FORWARD, block.start, block.end)] if block.start else []
            for part, start, end in watched:
                one = _Watched(block.path, part, counts, receive)
                handles += [
                    modules[start].register_forward_pre_hook(one.before, with_kwargs=True),
                    modules[end].register_forward_hook(one.after),
                ]
        yield counts.clear
    finally:
        for handle in handles:
            handle.remove()


class _Watched:
    """One block or feed-forward part."""

    def __init__(self, path: str, part: str, counts: Counter[str], receive: Receive) -> None:
        self._path, self._part = path, part
        self._counts, self._receive = counts, receive
        self._input: Tensor | None = None

    def before(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        found = _floating(args)
        found = _floating(kwargs.values()) if found is None else found
        self._input = None if found is None else found.detach().clone()

    def after(self, module: nn.Module, args: Any, output: Any) -> None:
        found = output.detach() if isinstance(output, Tensor) else _first(output)
        call = f"{self._path} {self._part}"
        number = self._counts[call]
        self._counts[call] += 1
        before, self._input = self._input, None
        if before is not None and found is not None:
            self._receive((self._path, number, self._part), before, found)


def _floating(values: Any) -> Tensor | None:
    """Return the first floating tensor with at least two axes."""
    return next(
        (
            one
            for one in values
            if isinstance(one, Tensor) and one.is_floating_point() and one.ndim > 1
        ),
        None,
    )


def _first(output: Any) -> Tensor | None:
    """Return the hidden states in an output of several values."""
    values = output.values() if isinstance(output, Mapping) else output
    found = _floating(values) if isinstance(values, (tuple, list)) or values is not output else None
    return None if found is None else found.detach()
