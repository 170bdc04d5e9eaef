"""A step that is run many times: on a GPU it is captured once and replayed, so that launching its
parts costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Step"]

WARM_UP = 3


class Step:
    """Runs a function of tensors, whose shapes do not change, for its effect on a state.

    Args:
        run: the function. One that decides by the numbers in a tensor cannot be captured and is run
            as it is.
        state: returns all tensors that it changes. Those that the first run makes, such as the
            moments of an optimizer, must begin at zero.
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
        """Warm up, so that everything has its tensors, capture if that can be, and undo what the
        warm-up changed.
        """
        self._inputs = tuple(value.clone() for value in inputs)
        before = {id(tensor): tensor.detach().clone() for tensor in self._state()}
        drawn = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._run(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = self._graph_of_one()
        with torch.no_grad():
            for tensor in self._state():
                if id(tensor) in before:
                    tensor.copy_(before[id(tensor)])
                else:
                    tensor.zero_()
        torch.cuda.set_rng_state(drawn)
        return graph

    def _graph_of_one(self) -> torch.cuda.CUDAGraph | None:
        """Capture one run; None if it cannot be captured. What is wrong with the function itself
        was raised before.
        """
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                self._run(*self._inputs)
        except RuntimeError:
            torch.cuda.set_stream(stream)  # a capture that breaks off stays on its own
            torch.cuda.synchronize()
            return None
        return graph
