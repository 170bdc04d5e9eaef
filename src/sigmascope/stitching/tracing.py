"""The graph of a network, and the values at which it can be cut.

A site is named as `sigmascope.signature` names it: the path of its activation and, if that is
called again, the number of the call, `layer1.0.relu#1`. The path of any other module stands for its
output.
"""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from collections.abc import Set as AbstractSet
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
from sigmascope.capture.call_site import site_name
from sigmascope.capture.guard import flags_kept, plain_path, unwrapped
from sigmascope.errors import NetworkError, OptionError

MOST = 60  # sites that an error lists
SHAPE_METHODS = ("size", "dim", "numel", "ndimension", "stride", "type")
SHAPE_FIELDS = ("shape", "ndim", "dtype", "device")


@dataclass(frozen=True)
class CutSite:
    """A value at which a network can be cut.

    Attributes:
        name: of the activation call or module.
        kind: of the activation; empty for another module.
        inner: whether other values bypass it, as the shortcut of a residual block does; these stay
            what the front computed, which no stitch can change.

    >>> from torch import nn
    >>> from sigmascope import stitching
    >>> network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> [site] = stitching.cut_sites(network)
    >>> site.name, site.kind, site.inner
    ('1', 'relu', False)
    """

    name: str
    kind: str
    inner: bool

    def __str__(self) -> str:
        return self.name + "*" * self.inner


@dataclass(frozen=True)
class Traced:
    """A network and its graph, with nodes by name.

    Attributes:
        activations: name -> kind and node of each activation call, in order of execution.
        modules: name -> node of the output of each module call.
    """

    network: nn.Module
    graph: fx.Graph
    activations: dict[str, tuple[str, fx.Node]]
    modules: dict[str, fx.Node]

    def site(self, name: str) -> tuple[CutSite, fx.Node]:
        """Return a site and its node; an activation call precedes the module of the same path."""
        plain = str(name).removesuffix("#0")
        if plain.startswith("(network)"):  # the name in earlier versions
            number = plain.removeprefix("(network)")
            own = (f"forward.{kind}{number}" for kind, _ in self.activations.values())
            plain = next((one for one in own if one in self.activations), plain)
        choices = {**{path: ("", node) for path, node in self.modules.items()}, **self.activations}
        if plain not in choices:
            near = difflib.get_close_matches(plain, [*self.activations, *choices], n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            listing = ", ".join(list(self.activations)[:MOST]) or "none"
            raise OptionError(
                f"site={name!r} is not in this network.{guess} Choose from its activations: "
                f"{listing}; or the path of any module that it calls."
            )
        kind, node = choices[plain]
        return CutSite(plain, kind, crossing(self.graph, node)[1]), node


def cut_sites(model: nn.Module) -> list[CutSite]:
    """Return the activation calls at which a network can be stitched, in order of execution.

    Raises:
        NetworkError: the network cannot be traced.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> [str(site) for site in cut_sites(network)]
    ['1']
    """
    found = traced(unwrapped(model))
    return [found.site(name)[0] for name in found.activations]


class _Tracer(fx.Tracer):
    """Records the module of every node, and the output node of every module call."""

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
    """Return the graph of a network, whose operations must not depend on its inputs."""
    tracers = []
    with flags_kept(network, gated=True) as modules:
        for mode in (True, False):
            for module in modules:
                module.training = mode
            tracers.append(_trace(network))
    (graph, tracer), (other, _) = tracers
    for one, two in zip(graph.nodes, other.nodes, strict=False):
        if _written(one) != _written(two):
            raise NetworkError(
                "the network computes something else in training mode, from "
                f"{one.meta['path'] or 'its forward'} on ({one.name}). Use modules such as "
                "nn.Dropout instead of functions with a `training` argument."
            )
    return Traced(network, graph, _activations(network, graph), tracer.modules)


def _trace(network: nn.Module) -> tuple[fx.Graph, _Tracer]:
    tracer = _Tracer()
    parameters = list(inspect.signature(network.forward).parameters.values())
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    try:
        graph = tracer.trace(network, concrete_args=defaults or None)
    except Exception as error:  # a network may do anything with a symbolic value
        message = " ".join(str(error).split())
        raise NetworkError(
            f"{type(network).__name__} cannot be traced in {tracer.failed or 'its forward'} "
            f"({message:.200}). Its forward pass must not branch on values or sizes of tensors; "
            "write such parts as modules of torch.nn, or without `if`."
        ) from error
    return graph, tracer


def _written(node: fx.Node) -> tuple[object, ...]:
    return node.op, str(node.target), str(node.args), str(node.kwargs)


def _activations(network: nn.Module, graph: fx.Graph) -> dict[str, tuple[str, fx.Node]]:
    """Return the activation calls, named as a recording names them."""
    kinds = chosen_kinds("pointwise")
    calls: Counter[str] = Counter()
    found = {}
    for node in graph.nodes:
        kind = _kind(network, node)
        if kind not in kinds or kind is None:
            continue
        path = node.meta["path"]
        found[site_name(path, calls[path], kind)] = kind, node
        calls[path] += 1
    return found


def _kind(network: nn.Module, node: fx.Node) -> str | None:
    if node.op == "call_module":
        return kind_of_layer(network.get_submodule(str(node.target)))
    if node.op not in ("call_function", "call_method"):
        return None
    is_method = node.op == "call_method"
    function = getattr(torch.Tensor, str(node.target), None) if is_method else node.target
    return kind_of_function(function, node.args, dict(node.kwargs))


def ancestors(node: fx.Node, stop: AbstractSet[fx.Node] = frozenset()) -> set[fx.Node]:
    """Return a node and all that it is computed from, up to the nodes in `stop`."""
    reached: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one not in reached and one not in stop:
            reached.add(one)
            waiting += one.all_input_nodes
    return reached


def _is_shape_read(node: fx.Node) -> bool:
    """Return whether a node reads the shape or type of a tensor and not its values."""
    if node.op == "call_method":
        return node.target in SHAPE_METHODS
    return node.op == "call_function" and node.target is getattr and node.args[1] in SHAPE_FIELDS


def crossing(graph: fx.Graph, site: fx.Node) -> tuple[list[fx.Node], bool]:
    """Return the values that cross to the back, the site first, and whether others bypass it.

    A value that does not depend on the input does not cross: each side has its own.
    """
    [output] = [node for node in graph.nodes if node.op == "output"]
    before = ancestors(site)
    inputs = {node for node in graph.nodes if node.op == "placeholder"}
    behind = ancestors(output) - before - inputs
    dependent = set(inputs)
    others, inner = [], False
    for node in graph.nodes:
        if not dependent.isdisjoint(node.all_input_nodes):
            dependent.add(node)
        users = [user for user in node.users if user in behind]
        if users and node is not site and node in dependent and (node in before or node in inputs):
            others.append(node)
            inner |= not all(_is_shape_read(user) for user in users)
    return [site, *others], inner
