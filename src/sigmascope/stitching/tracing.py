"""The graph of a network, and the values at which it can be cut.

A value is named as `sigmascope.signature` names it, by the path of its activation and, where that
is called again, the number of the call: `layer1.0.relu#1`. Any other module may be named by its
path: the value is then what it puts out.
"""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from sigmascope.capture.activations import (
    chosen_kinds,
    kind_of_function,
    kind_of_layer,
    kind_of_module,
)
from sigmascope.capture.guard import plain_path, unwrapped
from sigmascope.errors import NetworkError, OptionError

__all__ = ["CutSite", "Traced", "ancestors", "crossing", "cut_sites", "is_shape_read", "traced"]

MOST = 60
SHAPE_METHODS = ("size", "dim", "numel", "ndimension", "stride", "type")
SHAPE_FIELDS = ("shape", "ndim", "dtype", "device")


@dataclass(frozen=True)
class CutSite:
    """A value at which a network can be cut.

    Attributes:
        name: of the activation call or module.
        kind: of the activation; empty for another module.
        inner: whether other values go past it, as a shortcut past the inside a residual block:
            these stay what the front made of them, which no stitch can repair.
    """

    name: str
    kind: str
    inner: bool

    def __str__(self) -> str:
        return self.name + "*" * self.inner


@dataclass(frozen=True)
class Traced:
    """A network and its graph.

    Attributes:
        network: it.
        graph: its operations, in order.
        activations: name -> kind and node, of the activation calls in order of execution.
        modules: name -> node, of what every call of a module puts out.
    """

    network: nn.Module
    graph: fx.Graph
    activations: dict[str, tuple[str, fx.Node]]
    modules: dict[str, fx.Node]

    def site(self, name: str) -> tuple[CutSite, fx.Node]:
        """Find a site by name; an activation call comes before the module of the same path.

        Raises:
            OptionError: there is none; the choices are listed.
        """
        plain = name.removesuffix("#0") if isinstance(name, str) else name
        if plain in self.activations:
            kind, node = self.activations[plain]
        elif plain in self.modules:
            kind, node = "", self.modules[plain]
        else:
            raise OptionError(self._unknown(name))
        return CutSite(plain, kind, crossing(self.graph, node)[1]), node

    def _unknown(self, name: object) -> str:
        choices = [*self.activations, *(one for one in self.modules if one not in self.activations)]
        near = difflib.get_close_matches(str(name), choices, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        listing = ", ".join(list(self.activations)[:MOST]) or "none"
        return (
            f"at={name!r} is no site of this network.{guess} Activations: {listing}; or the path "
            "of any module that it calls."
        )


def cut_sites(model: nn.Module) -> list[CutSite]:
    """List the activation calls at which a network can be stitched, in order of execution; those
    inside a block are marked.

    Raises:
        NetworkError: the network cannot be traced.

    >>> [str(site) for site in cut_sites(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))]
    ['1']
    """
    found = traced(unwrapped(model))
    return [found.site(name)[0] for name in found.activations]


class _Tracer(fx.Tracer):
    """Notes for every node the module that makes it, and what every module puts out."""

    def __init__(self) -> None:
        super().__init__()
        self.here = [""]
        self.modules: dict[str, fx.Node] = {}
        self.failed = ""
        self._calls: Counter[str] = Counter()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return kind_of_module(m) is not None or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        path = plain_path(self.path_of_module(m))
        self.here.append(path)
        try:
            result = super().call_module(m, forward, args, kwargs)
        except Exception:
            self.failed = self.failed or path
            raise
        finally:
            self.here.pop()
        if isinstance(result, fx.Proxy):
            number = self._calls[path]
            self._calls[path] += 1
            self.modules[f"{path}#{number}" if number else path] = result.node
        return result

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        node.meta["path"] = self.here[-1]
        return node


def traced(network: nn.Module) -> Traced:
    """Trace a network, which must compute the same things in the same order whatever it is given.

    Raises:
        NetworkError: it does not, or it computes something else in training mode.
    """
    flags = [(module, module.training) for module in network.modules()]
    try:
        tracers = []
        for mode in (True, False):
            for module, _ in flags:
                module.training = mode
            tracers.append(_trace(network))
    finally:
        for module, flag in flags:
            module.training = flag
    (graph, tracer), (other, _) = tracers
    for one, two in zip(graph.nodes, other.nodes, strict=False):
        if _written(one) != _written(two):
            raise NetworkError(
                "the network computes something else in training mode, from "
                f"{one.meta['path'] or 'its forward'} on "
                f"({one.name}). Use modules such as nn.Dropout, which know the mode, instead "
                "of functions that are told."
            )
    return Traced(network, graph, _activations(network, graph), tracer.modules)


def _trace(network: nn.Module) -> tuple[fx.Graph, _Tracer]:
    tracer = _Tracer()
    parameters = list(inspect.signature(network.forward).parameters.values())
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    try:
        graph = tracer.trace(network, concrete_args=defaults or None)
    except Exception as error:  # whatever a network does with a value that is not there yet
        told = " ".join(str(error).split())
        raise NetworkError(
            f"{type(network).__name__} cannot be traced in {tracer.failed or 'its forward'} "
            f"({told:.200}). Its forward pass "
            "must not decide by the numbers or sizes of its tensors; write such parts as "
            "modules of torch.nn, or without `if`."
        ) from error
    return graph, tracer


def _written(node: fx.Node) -> tuple[object, ...]:
    return node.op, str(node.target), str(node.args), str(node.kwargs)


def _activations(network: nn.Module, graph: fx.Graph) -> dict[str, tuple[str, fx.Node]]:
    """Name the activation calls as a recording does."""
    kinds = chosen_kinds("pointwise")
    calls: Counter[str] = Counter()
    found = {}
    for node in graph.nodes:
        kind = _kind(network, node)
        if kind not in kinds or kind is None:
            continue
        path = node.meta["path"]
        name = (path or "(network)") + (f"#{calls[path]}" if calls[path] else "")
        calls[path] += 1
        found[name] = kind, node
    return found


def _kind(network: nn.Module, node: fx.Node) -> str | None:
    if node.op == "call_module":
        return kind_of_layer(network.get_submodule(str(node.target)))
    if node.op == "call_function":
        return kind_of_function(node.target, node.args, dict(node.kwargs))
    if node.op == "call_method":
        return kind_of_function(
            getattr(torch.Tensor, str(node.target), None), node.args, dict(node.kwargs)
        )
    return None


def ancestors(node: fx.Node) -> set[fx.Node]:
    """Return a node and all that it is computed from."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += one.all_input_nodes
    return found


def is_shape_read(node: fx.Node) -> bool:
    """Tell whether a node asks for the shape or type of a tensor and not for its numbers."""
    if node.op == "call_method":
        return node.target in SHAPE_METHODS
    return node.op == "call_function" and node.target is getattr and node.args[1] in SHAPE_FIELDS


def crossing(graph: fx.Graph, site: fx.Node) -> tuple[list[fx.Node], bool]:
    """Return the values that go from the front to the back, the site first, and whether others go
    past it.

    What depends on no input, such as a parameter, does not cross: each side has its own.
    """
    [output] = [node for node in graph.nodes if node.op == "output"]
    before = ancestors(site)
    inputs = {node for node in graph.nodes if node.op == "placeholder"}
    behind = ancestors(output) - before - inputs
    dependent = set(inputs)
    others = []
    inner = False
    for node in graph.nodes:
        if not dependent.isdisjoint(node.all_input_nodes):
            dependent.add(node)
        users = [user for user in node.users if user in behind]
        if users and node is not site and node in dependent and (node in before or node in inputs):
            others.append(node)
            inner |= not all(is_shape_read(user) for user in users)
    return [site, *others], inner
