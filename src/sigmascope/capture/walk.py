"""All modules and tensors of a network, in one quick walk.

`named_modules`, `parameters` and `buffers` of torch each walk through all levels of a network for
every item. Before a GPU has anything to do, that takes longer than a batch of a small network.
"""

from __future__ import annotations

from torch import Tensor, nn


def modules_of(network: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return what `network.named_modules()` yields.

    >>> [path for path, _ in modules_of(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())))]
    ['', '0', '1', '1.0']
    """
    found: dict[nn.Module, str] = {}
    waiting: list[tuple[str, nn.Module]] = [("", network)]
    while waiting:
        path, module = waiting.pop()
        if module in found:
            continue
        found[module] = path
        prefix = f"{path}." if path else ""
        inside = [
            (prefix + name, child) for name, child in module._modules.items() if child is not None
        ]
        waiting += reversed(inside)
    return [(path, module) for module, path in found.items()]


def parameters_of(modules: list[tuple[str, nn.Module]]) -> list[nn.Parameter]:
    """Return the parameters of modules, each once."""
    found = {id(one): one for _, module in modules for one in module._parameters.values()}
    return [one for one in found.values() if one is not None]


def tensors_of(modules: list[tuple[str, nn.Module]]) -> list[Tensor]:
    """Return the parameters of modules, then their buffers, each once."""
    found = {id(one): one for _, module in modules for one in module._buffers.values()}
    return [*parameters_of(modules), *(one for one in found.values() if one is not None)]
