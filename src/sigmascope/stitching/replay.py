"""A step that is run many times: on a GPU it is captured once and replayed, so that launching its parts costs nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["Step"]

WARM_UP = 3


class Step:
    """Runs a function of tensors, whose shapes do not change, for its effect on a state.

    Args:
        run: the function. One that waits for the numbers in a tensor cannot be captured and is run as it is.
        state: returns all tensors that it changes. Those that the first run makes, such as the moments of an optimizer, must
            begin at zero.
    """

    def __init__(self, run: Callable[..., None], state: Callable[[], list[Tensor]]) -> None:
        self._run, self._state = run, state
        self._graph: torch.cuda.CUDAGraph | None = None
        self._is_begun = False
        self._inputs: tuple[Tensor, ...] = ()

    def __call__(self, *inputs: Tensor) -> None:
        """Run it once."""
        if not inputs[0].is_cuda:
            self._run(*inputs)
            return
        with torch.cuda.device(inputs[0].device):  # streams and graphs belong to the current one
            if not self._is_begun:
                self._graph, self._is_begun = self._captured(inputs), True
            if self._graph is None:
                self._run(*inputs)
                return
            for place, value in zip(self._inputs, inputs, strict=True):
                place.copy_(value)
            self._graph.replay()

    def _captured(self, inputs: tuple[Tensor, ...]) -> torch.cuda.CUDAGraph | None:
        """Warm up, so that everything has its tensors, capture if that can be, and undo what the warm-up changed."""
        self._inputs = tuple(value.clone() for value in inputs)
        before = {id(tensor): tensor.detach().clone() for tensor in self._state()}
        drawn = torch.cuda.get_rng_state()
        graph = self._graph_of_one() if self._warmed_up() else None
        with torch.no_grad():
            for tensor in self._state():
                if id(tensor) in before:
                    tensor.copy_(before[id(tensor)])
                else:
                    tensor.zero_()
        torch.cuda.set_rng_state(drawn)
        return graph

    def _graph_of_one(self) -> torch.cuda.CUDAGraph | None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                self._run(*self._inputs)
        except RuntimeError:  # something waits that the warm-up did not notice
            torch.cuda.set_stream(stream)
            return None
        return graph

    def _warmed_up(self) -> bool:
        """Run it a few times beside the main stream; say whether it never waits for the GPU.

        That is found out here, since a capture that breaks off leaves torch with memory that it cannot use.
        """
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP - 1):
                self._run(*self._inputs)
            waits = False
            with _waiting_is_an_error():
                try:
                    self._run(*self._inputs)
                except RuntimeError:  # what is wrong with the function itself was raised before
                    waits = True
        torch.cuda.current_stream().wait_stream(stream)
        return not waits


@contextmanager
def _waiting_is_an_error() -> Iterator[None]:
    """Let torch raise where the host would wait for the GPU; that this is a prototype need not be told."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
