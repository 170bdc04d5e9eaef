"""Hooks that are removed wherever a Ctrl-C comes."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from sigmascope.capture import layers
from sigmascope.capture.guard import without_gradients
from sigmascope.capture.layers import hooked
from sigmascope.capture.mode import entered


class Interrupted:
    """Raises KeyboardInterrupt at the n-th line that runs in `capture/layers.py`."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != layers.__file__:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("before", [False, True])
def test_no_hook_stays_wherever_it_is_interrupted(before: bool) -> None:
    network = nn.Sequential(nn.ReLU(), nn.Tanh())
    hooks = [(module, lambda *_: None) for module in network]
    tracer = sys.gettrace()
    interrupts = 0
    for line in range(1, 200):
        trace = Interrupted(line)
        sys.settrace(trace)
        try:
            with hooked(hooks, before=before):
                pass
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            sys.settrace(tracer)
        assert not any(one._forward_hooks or one._forward_pre_hooks for one in network)
        if trace.left > 0:
            break
    assert interrupts > 10
    assert trace.left > 0  # the last one came too late


def test_modes_that_see_functions_and_gradients() -> None:
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def interrupted() -> None:
        with entered(Mode()), without_gradients():
            assert not torch.is_grad_enabled()
            torch.zeros(2).relu()
            raise KeyboardInterrupt("inside")

    with pytest.raises(KeyboardInterrupt, match="inside"):
        interrupted()
    count = len(seen)
    assert count > 0
    assert torch.is_grad_enabled()
    torch.zeros(2).relu()
    assert len(seen) == count
