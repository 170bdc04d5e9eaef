"""What a pass of a network takes: layers, parameters, multiply-adds."""

from __future__ import annotations

import math
from contextlib import ExitStack

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.utils.flop_counter import FlopCounterMode

from sigmascope.capture.walk import modules_of, parameters_of
from sigmascope.linearize.folding.arguments import Arguments
from sigmascope.linearize.folding.layers import MergedConv
from sigmascope.linearize.folding.result import Cost
from sigmascope.linearize.maps import Affine

LAYERS = (_ConvNd, nn.Linear, MergedConv)
MAPS = (_BatchNorm, Affine)


def cost_of(network: nn.Module, arguments: Arguments) -> Cost:
    """Return what a pass takes, but for the seconds."""
    modules = modules_of(network)
    counts = {"layers": 0, "maps": 0}
    with ExitStack() as stack, torch.no_grad():
        for _, module in modules:
            kind = "layers" if isinstance(module, LAYERS) else "maps"
            if kind == "layers" or isinstance(module, MAPS):

                def count(*_: object, kind: str = kind) -> None:
                    counts[kind] += 1

                handle = module.register_forward_hook(count)
                stack.callback(handle.remove)
        counter = stack.enter_context(FlopCounterMode(display=False))
        before = torch.backends.mha.get_fastpath_enabled()
        # a fused attention is one operator, whose multiply-adds are not counted
        stack.callback(torch.backends.mha.set_fastpath_enabled, before)
        torch.backends.mha.set_fastpath_enabled(False)
        network(*arguments.args, **arguments.kwargs)
    numbers = sum(one.numel() for one in parameters_of(modules))
    flops = int(counter.get_total_flops())
    return Cost(counts["layers"], counts["maps"], numbers, flops // 2, math.nan)
