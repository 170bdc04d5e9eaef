"""The graph of a network: which linear layers follow each other, and nothing else reads between.

`torch.fx` proves that: a network that it traces does the same for all inputs.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.capture.guard import plain_path
from sigmascope.capture.walk import modules_of
from sigmascope.errors import NetworkError
from sigmascope.linearize.folding.pieces import Piece, is_identity, is_layer, obstacle, piece_of
from sigmascope.linearize.maps import Affine, Identity

IN_PLACE = (
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv),
    *(operator.iand, operator.ior, operator.ixor, operator.ipow),
)
# Their results are tensors of their own, which nothing else can read.
FRESH = (operator.add, operator.sub, operator.mul, torch.add, torch.cat, torch.sub, torch.mul)
WORDS = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), "an addition"),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul"), "a multiplication"),
    torch.cat: "a concatenation",
}
MAPS = (Affine, Identity)


class _Tracer(fx.Tracer):
    """Traces what can be traced; other modules are leaves, with the reasons in `opaque`."""

    def __init__(self) -> None:
        super().__init__()
        self.opaque: dict[str, str] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, MAPS):
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
            return super().call_module(m, forward, args, kwargs)
        except Exception as error:  # a module may do anything with a symbolic value
            for node in reversed(self.graph.nodes):
                if node not in before:
                    self.graph.erase_node(node)
            self.module_stack = stack
            path = self.path_of_module(m)
            self.opaque[path] = one_line(error)
            return self.create_proxy("call_module", path, args, kwargs)


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


@dataclass(frozen=True, eq=False)
class Link:
    """A node whose module is linear.

    Attributes:
        node: of the graph.
        path: of the module.
        module: itself.
        piece: what it computes; None for an identity.
    """

    node: fx.Node
    path: str
    module: nn.Module
    piece: Piece | None

    @property
    def source(self) -> fx.Node:
        """The node that it reads."""
        found = _only_input(self.node)
        assert found is not None
        return found

    @property
    def is_layer(self) -> bool:
        """Whether it is a convolution or a linear layer, not a map, a norm or an identity."""
        return self.piece is not None and not self.piece.is_map

    @property
    def counts(self) -> bool:
        """Whether it takes time: an identity in place of an activation makes a copy."""
        return self.piece is not None or isinstance(self.module, Identity)


class Watched(fx.Interpreter):
    """Runs a graph and keeps what its nodes return.

    Attributes:
        values: node -> value, for the nodes to keep.
        shapes: node -> the shape of the tensor that it returns.
    """

    def __init__(self, module: fx.GraphModule, keep: Sequence[fx.Node] = ()) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.values: dict[fx.Node, Any] = {}
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}
        self._keep = {*keep}

    def run_node(self, n: fx.Node) -> Any:
        """Return the value of a node."""
        value = super().run_node(n)
        if isinstance(value, Tensor):
            self.shapes[n] = tuple(value.shape)
            if n in self._keep:
                self.values[n] = value.clone()  # it may be changed in place
        return value


def _only_input(node: fx.Node) -> fx.Node | None:
    """Return the input of a module that is called with one tensor and nothing else."""
    values = [*node.args, *(value for name, value in node.kwargs.items() if name == "input")]
    if len(values) != 1 or len(values) != len(node.args) + len(node.kwargs):
        return None
    return values[0] if isinstance(values[0], fx.Node) else None


def links_of(
    module: fx.GraphModule, shapes: dict[fx.Node, tuple[int, ...]]
) -> tuple[dict[fx.Node, Link], dict[fx.Node, str]]:
    """Return the linear nodes of a graph, and those that must stay, with the reasons."""
    found: dict[fx.Node, Link] = {}
    staying: dict[fx.Node, str] = {}
    for node in module.graph.nodes:
        if node.op != "call_module":
            continue
        inside = module.get_submodule(str(node.target))
        source, path = _only_input(node), plain_path(str(node.target))
        if source is None or source not in shapes:
            continue
        reason = obstacle(inside)
        if is_identity(inside):
            if not reason:
                found[node] = Link(node, path, inside, None)
            continue
        if reason:
            if type(inside) is Affine or "hook" in reason or "statistics" in reason:
                staying[node] = f"{path}: {reason}"
            continue
        piece = piece_of(inside, len(shapes[source]))
        if piece is not None:
            found[node] = Link(node, path, inside, piece)
    return found, staying


def own_norms(network: nn.Module, prefix: str, opaque: Collection[str]) -> list[str]:
    """Return that norms of classes with a `forward` of their own stay, a line for each class.

    Those in modules that cannot be traced are left to the parts of these.
    """
    found: dict[str, list[str]] = {}
    for path, one in modules_of(network):
        inside = any(path == around or path.startswith(f"{around}.") for around in opaque)
        if isinstance(one, _BatchNorm) and not is_layer(one) and not inside:
            found.setdefault(type(one).__name__, []).append(f"{prefix}{plain_path(path)}")
    return [
        f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: a {name} computes "
        "its norm in a forward of its own"
        for name, paths in found.items()
    ]


def chains_of(links: dict[fx.Node, Link], module: fx.GraphModule) -> Iterator[list[Link]]:
    """Yield linear nodes that follow each other, each read by the next alone."""
    following: dict[fx.Node, fx.Node] = {}
    for node, link in links.items():
        source = link.source
        if source in links and len(source.users) == 1:
            following[source] = node
    ends = {*following.values()}
    for node in links:
        if node in ends:
            continue
        chain = [links[node]]
        while chain[-1].node in following:
            chain.append(links[following[chain[-1].node]])
        yield from _split(chain, module)


def _split(chain: list[Link], module: fx.GraphModule) -> Iterator[list[Link]]:
    """Yield the parts of a chain in which all pieces have channels along the same axis."""
    current: list[Link] = []
    last: Piece | None = None
    for link in chain:
        piece = link.piece
        fits = last is None or piece is None or _fit(last, piece)
        if current and (not fits or (_overwrites(link) and not _may_go(current, module))):
            yield current
            current = []
        current.append(link)
        last = piece or (last if len(current) > 1 else None)
    if current:
        yield current


def _fit(first: Piece, then: Piece) -> bool:
    return first.rank == then.rank and first.outputs == then.inputs


def _overwrites(link: Link) -> bool:
    return getattr(link.module, "inplace", False) is True


def _may_go(before: list[Link], module: fx.GraphModule) -> bool:
    """Return whether what a map overwrites is read by nothing but the chain."""
    return any(link.piece is not None and not _overwrites(link) for link in before) or is_private(
        before[0].source, module
    )


def is_private(node: fx.Node, module: fx.GraphModule) -> bool:
    """Return whether a value is a tensor of its own that one node reads."""
    if len(node.users) != 1:
        return False
    if node.op == "call_module":
        inside = module.get_submodule(str(node.target))
        plain = not is_identity(inside) and not getattr(inside, "inplace", False)
        return plain and type(inside).__module__.startswith("torch.nn.modules.")
    return node.op == "call_function" and node.target in FRESH


def overwrites_others(link: Link, module: fx.GraphModule) -> bool:
    """Return whether the first map of a chain overwrites what something else may read."""
    return _overwrites(link) and not is_private(link.source, module)


def in_words(node: fx.Node, module: fx.GraphModule) -> str:
    """Return what a node is, for a reason."""
    if node.op == "placeholder":
        return "the input of the network"
    if node.op == "output":
        return "the output of the network"
    if node.op == "call_module":
        inside = module.get_submodule(str(node.target))
        return f"{plain_path(str(node.target))} ({type(inside).__name__})"
    if node.target in WORDS:
        return WORDS[node.target]
    name = getattr(node.target, "__name__", str(node.target))
    return f"a call of {name}"
