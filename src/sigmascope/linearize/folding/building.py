"""Graphs with merged layers in the place of those that they were merged of."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import fx, nn

from sigmascope.linearize.folding.functional import drop_unread, erase_checks, is_norm
from sigmascope.linearize.folding.graph import Link


@dataclass(frozen=True)
class Made:
    """A merged layer.

    Attributes:
        links: what it was merged of.
        exact: in float64.
        rounded: in the dtype of the network.
    """

    links: list[Link]
    exact: nn.Module
    rounded: nn.Module

    @property
    def target(self) -> str:
        """The name of a module in whose place it stands: of a layer, if there is one."""
        of_layers = [link for link in self.links if link.is_layer]
        of_modules = [link for link in self.links if not is_norm(link.node)]
        return [*of_layers, *of_modules, *self.links][0].target


def built(graph: fx.GraphModule, merges: Sequence[Made], *, exact: bool) -> fx.GraphModule:
    """Return a copy of a graph with merged layers, in float64 if `exact`."""
    made = copy.deepcopy(graph)
    nodes = {node.name: node for node in made.graph.nodes}
    new = [_with_one_node(made, nodes, merge) for merge in merges]
    drop_unread(made, [link.node for one in merges for link in one.links if is_norm(link.node)])
    remaining = {
        str(node.target)
        for node in made.graph.nodes
        if node.op in ("call_module", "get_attr") and node not in new
    }
    for node, merge in zip(new, merges, strict=True):
        name = _free_name(merge.target, remaining)
        remaining.add(name)
        parent, _, last_name = name.rpartition(".")
        # where it stands, if it does, so that modules stay in order
        module = merge.exact if exact else merge.rounded
        made.get_submodule(parent)._modules[last_name] = module
        node.target = name
    made.delete_all_unused_submodules()
    made.graph.lint()
    made.recompile()
    return made


def _with_one_node(made: fx.GraphModule, nodes: dict[str, fx.Node], merge: Made) -> fx.Node:
    """Put one node in the place of several, and return it; `nodes` are those of the graph."""
    first, last = (nodes[merge.links[end].node.name] for end in (0, -1))
    source = nodes[merge.links[0].source.name]
    replaced = [nodes[link.node.name] for link in merge.links]
    with made.graph.inserting_before(first):  # before the input may change in place
        node = made.graph.create_node("call_module", merge.links[0].target, (source,))
    last.replace_all_uses_with(node)
    nodes[last.name] = node  # what another merged layer may read
    for gone in reversed(replaced):
        erase_checks(gone)
        made.graph.erase_node(gone)
    return node


def _free_name(path: str, taken: Collection[str]) -> str:
    """Return a name that no other module has, nor any module around one."""
    name, number = path, 0
    while any(one == name or one.startswith(f"{name}.") for one in taken):
        number += 1
        name = f"{path}_merged{number}"
    return name
