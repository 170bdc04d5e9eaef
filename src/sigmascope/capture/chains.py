"""The tensors that a formula may begin and end with, and what lies between two of them.

A chain is what all of a tensor was computed through; a segment leads from one to the next.
"""

from __future__ import annotations

from sigmascope.capture.elementwise import SUMS
from sigmascope.capture.formula_values import nodes_between
from sigmascope.capture.node import Node


def bottlenecks(root: Node, end: Node) -> list[Node]:
    """Return the nodes that all of a tensor was computed through, from its root on."""
    order = [root, *nodes_between(root, end)]
    number = {node: index for index, node in enumerate(order)}
    reach = [0] * len(order)
    for node in order[1:]:
        for source in node.sources:
            reach[number[source]] = max(reach[number[source]], number[node])
    found, furthest = [], 0
    for index, node in enumerate(order):
        if furthest <= index:
            found.append(node)
        furthest = max(furthest, reach[index])
    return found


def is_block(chain: list[Node], index: int) -> bool:
    """Return whether a segment combines values that were computed from the same tensor."""
    return len(chain[index + 1].sources) > 1 or chain[index + 1].sources[0] is not chain[index]


def is_affine_step(chain: list[Node], index: int) -> bool:
    """Return whether a segment is one affine function."""
    return not is_block(chain, index) and chain[index + 1].is_affine


def is_named(chain: list[Node], index: int) -> bool:
    """Return whether a segment is an activation with a name."""
    return not is_block(chain, index) and chain[index + 1].named


def adds_named(chain: list[Node], index: int) -> bool:
    """Return whether a segment adds activations that have a name, or a connection around them."""
    start, stop = chain[index], chain[index + 1]
    if stop.name not in SUMS or not is_block(chain, index):
        return False
    return all(node.named or node.is_affine for node in nodes_between(start, stop)[:-1])


def is_plain(node: Node, start: Node) -> bool:
    """Return whether a tensor is another one after nothing but affine steps."""
    while node is not start:
        if not node.is_affine:
            return False
        node = node.sources[0]
    return True


def is_summarized(node: Node) -> bool:
    """Return whether a tensor serves nothing but statistics, as squares in a norm do."""
    return bool(node.uses) and all(
        summarizes or (step in node.pieces and all(map(is_summarized, node.pieces[step])))
        for step, summarizes in node.uses.items()
    )
