"""A training step that runs many times: on a GPU it is captured once and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

WARM_UP = 3


class Step:
    """Runs a function of tensors, whose shapes do not change, for its effect on a state.

    Args:
        run: the function. One that branches on the values of a tensor cannot be captured and runs
            without.
        state: returns all tensors that it changes. Those that the first run creates, such as the
            moments of an optimizer, must start at zero.
    """

    def __init__(self, run: Callable[..., None], state: Callable[[], list[Tensor]]) -> None:
        self._run, self._state = run, state
        self._graph: torch.cuda.CUDAGraph | None = None
        self._is_tried = False
        self._inputs: tuple[Tensor, ...] = ()

    def __call__(self, *inputs: Tensor) -> None:
        """Run the function once."""
        if not inputs[0].is_cuda:
            self._run(*inputs)
            return
        with torch.cuda.device(inputs[0].device):  # streams and graphs belong to the current one
            if not self._is_tried:
                self._graph, self._is_tried = self._captured(inputs), True
            if self._graph is None:
                self._run(*inputs)
                return
            torch._foreach_copy_(self._inputs, inputs)
            self._graph.replay()

    def _captured(self, inputs: tuple[Tensor, ...]) -> torch.cuda.CUDAGraph | None:
        """Warm up, so that all tensors exist; capture if possible; undo the effects of both."""
        self._inputs = tuple(value.clone() for value in inputs)
        # by their place in memory: a state dict makes other objects of them every time
        before = {tensor.data_ptr(): tensor.detach().clone() for tensor in self._state()}
        drawn = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._run(*self._inputs)
            capturable = self._never_waits()
        torch.cuda.current_stream().wait_stream(stream)
        graph = self._graph_of_one() if capturable else None
        with torch.no_grad():
            for tensor in self._state():
                tensor.copy_(before.get(tensor.data_ptr(), torch.zeros_like(tensor)))
        torch.cuda.set_rng_state(drawn)
        return graph

    def _never_waits(self) -> bool:
        """Run once more; return whether the host never waited for the GPU.

        A run that waits, for example to read a number, cannot be captured. Finding out here spares
        a capture that breaks off and leaves torch's allocator and generator in capture mode.
        """
        try:
            with _waiting_raises():
                self._run(*self._inputs)
        except RuntimeError:
            return False
        return True

    def _graph_of_one(self) -> torch.cuda.CUDAGraph | None:
        """Return one captured run; None if it cannot be captured.

        Errors of the function itself were raised in the warm-up.
        """
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                self._run(*self._inputs)
        except RuntimeError:
            torch.cuda.set_stream(stream)  # a capture that breaks off stays on its own
            torch.cuda.synchronize()
            self._leave_capture_mode()
            return None
        return graph

    def _leave_capture_mode(self) -> None:
        """Reset the random generator after a capture that broke off.

        In torch < 2.12 the end of a failed capture never reaches the generator, and every later
        draw raises "Offset increment outside graph capture". The end of the next capture that
        succeeds resets it, for graphs captured earlier too, so capture something that cannot fail.
        """
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            self._inputs[0].clone()


@contextmanager
def _waiting_raises() -> Iterator[None]:
    """Make operations that wait for the GPU raise a RuntimeError."""
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # torch says once that it does not detect all of them
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return the tensors of an optimizer's state, such as its moments."""
    values = [value for state in optimizer.state.values() for value in state.values()]
    return [value for value in values if isinstance(value, Tensor)]
