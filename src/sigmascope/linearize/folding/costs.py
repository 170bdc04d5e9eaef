"""What a pass of a network takes: layers, parameters, multiply-adds."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from sigmascope.capture.walk import modules_of, parameters_of
from sigmascope.linearize.folding.arguments import Arguments
from sigmascope.linearize.folding.layers import MergedConv
from sigmascope.linearize.folding.result import Cost
from sigmascope.linearize.maps import Affine

LAYERS = {
    *(F.linear, F.conv1d, F.conv2d, F.conv3d),
    *(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
}
NORMS = {F.batch_norm, torch.batch_norm}


class _Calls(TorchFunctionMode):
    """Counts layers and maps where they are computed.

    A layer that calls the function itself is a module in a network and none in its graph. Modules
    of our own count once, whatever they call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = self.maps = 0
        self._inside = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self._inside:
            self.layers += func in LAYERS
            self.maps += func in NORMS
        return func(*args, **(kwargs or {}))

    def enter(self, module: nn.Module, *_: object) -> None:
        """Note that a module of our own starts: a hook."""
        self.layers += isinstance(module, MergedConv)
        self.maps += isinstance(module, Affine)
        self._inside += 1

    def leave(self, *_: object) -> None:
        """Note that it has ended: a hook."""
        self._inside -= 1


def cost_of(network: nn.Module, arguments: Arguments) -> Cost:
    """Return what a pass takes, but for the seconds."""
    modules, calls = modules_of(network), _Calls()
    with ExitStack() as stack, torch.no_grad():
        for _, module in modules:
            if isinstance(module, MergedConv | Affine):
                stack.callback(module.register_forward_pre_hook(calls.enter).remove)
                leaving = module.register_forward_hook(calls.leave, always_call=True)
                stack.callback(leaving.remove)
        counter = stack.enter_context(FlopCounterMode(display=False))
        before = torch.backends.mha.get_fastpath_enabled()
        # a fused attention is one operator, whose multiply-adds are not counted
        stack.callback(torch.backends.mha.set_fastpath_enabled, before)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.enter_context(calls)
        network(*arguments.args, **arguments.kwargs)
    numbers = sum(one.numel() for one in parameters_of(modules))
    flops = int(counter.get_total_flops())
    return Cost(calls.layers, calls.maps, numbers, flops // 2, math.nan)
