"""Tracing a network by `torch.fx`, as far as that goes."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.errors import NetworkError
from sigmascope.linearize.folding.functional import mark
from sigmascope.linearize.folding.pieces import has_hooks, is_layer, obstacle
from sigmascope.linearize.maps import Affine, Identity

IN_PLACE = (
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv),
    *(operator.iand, operator.ior, operator.ixor, operator.ipow),
)
MAPS = (Affine, Identity)
CHECK = "_check_input_dim"
AXES: dict[type[_BatchNorm], tuple[int, int]] = {
    nn.BatchNorm1d: (2, 3),
    nn.BatchNorm2d: (4, 4),
    nn.BatchNorm3d: (5, 5),
}
"""Norm -> the least and the largest number of axes of its input."""


class _Tracer(fx.Tracer):
    """Traces what can be traced; other modules are leaves, with the reasons in `opaque`."""

    def __init__(self) -> None:
        super().__init__()
        self.opaque: dict[str, str] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, MAPS):
            return True
        if has_hooks(m):  # a graph of what it does would not call them
            if any(True for _ in m.children()):
                self.opaque[module_qualified_name] = obstacle(m)
            return True
        # layers of torch.nn are leaves, but a TransformerEncoderLayer may hold a map
        if any(isinstance(one, MAPS) for one in m.modules()):
            return False
        return is_layer(m) or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        before, stack = {*self.graph.nodes}, self.module_stack.copy()
        try:
            with _checking_symbols(m):
                return super().call_module(m, forward, args, kwargs)
        except Exception as error:  # a module may do anything with a symbolic value
            for node in reversed(self.graph.nodes):
                if node not in before:
                    self.graph.erase_node(node)
            self.module_stack = stack
            path = self.path_of_module(m)
            self.opaque[path] = f"torch.fx cannot trace it ({one_line(error)})"
            return self.create_proxy("call_module", path, args, kwargs)


@contextmanager
def _checking_symbols(module: nn.Module) -> Iterator[None]:
    """Let a norm derived from those of torch check the axes of a symbolic value by nodes.

    It may call the `forward` of torch, whose check asks for a number that is not known.
    """
    kinds = [kind for kind in AXES if isinstance(module, kind)]
    asked = getattr(getattr(module, CHECK, None), "__func__", None)
    if not kinds or asked is not getattr(kinds[0], CHECK):
        yield
        return
    least, most = AXES[kinds[0]]
    certain: Any = torch._assert  # a function without types

    def check(value: Any) -> None:
        certain(value.dim() >= least, f"expected at least {least} axes")
        certain(value.dim() <= most, f"expected at most {most} axes")

    module.__dict__[CHECK] = check
    try:
        yield
    finally:
        del module.__dict__[CHECK]


def one_line(error: Exception) -> str:
    """Return the beginning of an error's message."""
    return f"{' '.join(str(error).split()):.120}"


def traced(network: nn.Module) -> tuple[fx.GraphModule, dict[str, str]]:
    """Return a network as a graph with the modules of the network.

    A module that cannot be traced is one node. These are returned as well: path -> reason.

    Raises:
        NetworkError: the network itself cannot be traced.
    """
    before = [one._version for one in _state(network)]
    tracer = _Tracer()
    try:
        made = fx.GraphModule(network, tracer.trace(network))
    except Exception as error:
        raise NetworkError(
            f"{type(network).__name__} cannot be traced by torch.fx ({one_line(error)})"
        ) from error
    if [one._version for one in _state(network)] != before:
        raise NetworkError(f"{type(network).__name__} changes its own parameters or buffers")
    _follow_changes(made.graph)
    mark(made.graph)
    targets = {str(node.target) for node in made.graph.nodes}
    return made, {path: reason for path, reason in tracer.opaque.items() if path in targets}


def _state(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]


def _follow_changes(graph: fx.Graph) -> None:
    """Let what reads a tensor after it was changed in place read the result of the change.

    That is the same tensor. The order in which nodes run stays.
    """
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    for node in nodes:
        source = _changed(graph, node)
        if source is not None:
            later = [user for user in source.users if place[user] > place[node]]
            for user in later:
                user.replace_input_with(source, node)


def _changed(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    """Return the tensor that a node changes in place and returns, or None."""
    first = node.args[0] if node.args else None
    if not isinstance(first, fx.Node):
        return None
    if node.op == "call_module":
        assert graph.owning_module is not None
        module = graph.owning_module.get_submodule(str(node.target))
        known = isinstance(module, Affine) or type(module).__module__.startswith(
            "torch.nn.modules."
        )
        return first if known and getattr(module, "inplace", False) is True else None
    if node.op == "call_method":
        name = str(node.target)
        return first if name.endswith("_") and not name.endswith("__") else None
    if node.op != "call_function":
        return None
    if node.target in IN_PLACE or node.kwargs.get("inplace") is True:
        return first
    name = getattr(node.target, "__name__", "")
    return first if name.endswith("_") and not name.endswith("__") else None
