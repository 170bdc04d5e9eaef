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
from sigmascope.linearize.folding.functional import (
    CALLS,
    arguments_of,
    is_norm,
    norm_of,
    place_around,
    place_of_norm,
    readers,
)
from sigmascope.linearize.folding.pieces import Piece, is_identity, is_layer, obstacle, piece_of
from sigmascope.linearize.maps import Affine, Identity

# Their results are tensors of their own, which nothing else can read.
FRESH = (
    *(operator.add, operator.sub, operator.mul),
    *(torch.add, torch.cat, torch.sub, torch.mul, *CALLS),
)
WORDS = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), "an addition"),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul"), "a multiplication"),
    torch.cat: "a concatenation",
}


@dataclass(frozen=True, eq=False)
class Link:
    """A node that is linear: the call of a module, or of the function of a batch norm.

    Attributes:
        node: of the graph.
        path: of the module.
        module: itself, or a norm that stands for the function.
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
    def target(self) -> str:
        """The name of the module in the graph, or of the one with the statistics of the norm."""
        return place_of_norm(self.node) if is_norm(self.node) else str(self.node.target)

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
    """Return the input of a norm, or of a module that is called with one tensor only."""
    if is_norm(node):
        value = arguments_of(node).get("input")
        return value if isinstance(value, fx.Node) else None
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
        if node.op != "call_module" and not is_norm(node):
            continue
        source = _only_input(node)
        if source is None or source not in shapes:
            continue
        if is_norm(node):
            path, norm = plain_path(place_of_norm(node)), norm_of(node, module, len(shapes[source]))
            if isinstance(norm, str):
                staying[node] = f"{path}: {norm}"
                continue
            inside = norm
        else:
            path, inside = plain_path(str(node.target)), module.get_submodule(str(node.target))
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


def own_norms(
    network: nn.Module, graph: fx.Graph, prefix: str, opaque: Collection[str]
) -> list[str]:
    """Return that norms which do not call the function of torch stay, a line for each class.

    Those in modules that cannot be traced are left to the parts of these.
    """
    calls = [node for node in graph.nodes if is_norm(node)]
    called = {place(node) for node in calls for place in (place_of_norm, place_around)}
    found: dict[str, list[str]] = {}
    for path, one in modules_of(network):
        inside = any(path == around or path.startswith(f"{around}.") for around in opaque)
        is_own = isinstance(one, _BatchNorm) and not is_layer(one)
        if is_own and not inside and path not in called:
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
        if source in links and len(readers(source)) == 1:
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
    if len(readers(node)) != 1:
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
