"""A stitched network: cut two networks at one value, and join the front of one to the back of the
other.

What the value is computed from comes from the front, everything else from the back, by the graph
and not by the order of modules. A projection on the shortcut of a block so belongs to the front
where the block's output is the value, and to the back where the value is inside the block: there it
is the back's projection that is given the front's block input. Values that go past the site, such
as that block input, stay what the front made of them. Batch norm takes its statistics along with
it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.errors import InputError, NetworkError
from sigmascope.maths.samples import Array
from sigmascope.measure.batches import place_of
from sigmascope.stitching.evidence import layout_at
from sigmascope.stitching.layer import Stitch, as_matrix, channel_axis, style_of
from sigmascope.stitching.tracing import CutSite, Traced, ancestors, crossing, traced
from sigmascope.symmetry.monomial import Monomial

__all__ = ["Halves", "Joint", "StitchedNetwork", "assemble", "cut", "prepare"]

ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}


@dataclass(frozen=True)
class Halves:
    """A network in two parts, copies of it.

    Attributes:
        before: inputs -> the values that cross, that of the site first.
        after: these values -> the output.
        site: where it is cut.
    """

    before: fx.GraphModule
    after: fx.GraphModule
    site: CutSite


@dataclass(frozen=True)
class Joint:
    """Two networks that are ready to be stitched: their halves, and what the value between them
    looks like.
    """

    front: Halves
    back: Halves
    site: CutSite
    channels: int
    style: str


class StitchedNetwork(nn.Module):
    """The front of one network, a stitch, and the back of another."""

    def __init__(self, front: nn.Module, stitch: nn.Module, back: nn.Module) -> None:
        super().__init__()
        self.front, self.stitch, self.back = front, stitch, back

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the back."""
        value, *others = self.front(x)
        out: Tensor = self.back(self.stitch(value), *others)
        return out


def assemble(
    front: nn.Module,
    back: nn.Module,
    *,
    at: str,
    inputs: Tensor,
    stitch: Monomial | Array | None = None,
    style: str = "auto",
) -> StitchedNetwork:
    """Join the front of one network to the back of another by a given matrix.

    Args:
        front: a network that torch.fx can trace; it is copied, not changed.
        back: another one of the same structure.
        at: the site, named as `sigmascope.signature` names it, or the path of a module whose output
            it is.
        inputs: a few inputs that both take.
        stitch: a group element or matrix (c, c); by default the identity.
        style: "conv" for channels on axis 1, "linear" for the last axis; "auto" goes by the layers
            that made the value.

    Raises:
        NetworkError: a network that cannot be traced or cut, or two that differ in structure.
        OptionError: no such site; the choices are listed. Or nothing tells where the channels are.
        InputError: unequal shapes at the site, or a matrix of another size.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> x = torch.randn(4, 2)
    >>> torch.equal(assemble(net, net, at="1", inputs=x)(x), net(x))
    True
    """
    joint = prepare(front, back, at=at, inputs=inputs, style=style)
    device, dtype = place_of(joint.front.before)
    layer = Stitch("fixed", joint.channels, joint.style).to(
        device, dtype or torch.get_default_dtype()
    )
    if stitch is not None:
        layer.set_matrix(as_matrix(stitch, joint.channels))
    return StitchedNetwork(joint.front.before, layer, joint.back.after).eval()


def prepare(
    front: nn.Module,
    back: nn.Module,
    *,
    at: str,
    inputs: Tensor,
    style: str = "auto",
    names: tuple[str, str] | None = None,
) -> Joint:
    """Cut two networks at the same site and check that the parts fit; see `assemble`. Errors use
    the `names`, if any.
    """
    one, two = (
        traced(copy.deepcopy(unwrapped(network)).requires_grad_(False)) for network in (front, back)
    )
    _check_alike(one, two, names)
    halves = [cut(network, at, inputs) for network in (one, two)]
    shapes = []
    for half in halves:
        with preserve_state(half.before, mode="eval"):
            shapes.append(tuple(half.before(inputs)[0].shape))
    if shapes[0] != shapes[1]:
        raise InputError(
            f"at {at} the front has {shapes[0][1:]} and the back {shapes[1][1:]} for each "
            "sample. Stitches are square: choose "
            "networks or sites of equal width and size."
        )
    axis = layout_at(halves[0].before, inputs).axis if style == "auto" else None
    found = style_of(shapes[0], style, axis)
    return Joint(
        halves[0], halves[1], halves[0].site, shapes[0][channel_axis(shapes[0], found)], found
    )


def cut(found: Traced, at: str, inputs: Tensor) -> Halves:
    """Cut a traced network at a site, and check on a few inputs that the halves compute what it
    computes.

    Raises:
        OptionError: no such site.
        NetworkError: the value is no tensor, or the graph does not tell all that the network does.
    """
    site, node = found.site(at)
    values, _ = crossing(found.graph, node)
    halves = Halves(_before(found, values), _after(found, values), site)
    with preserve_state(found.network, mode="eval"):
        expected = found.network(inputs)
    if not isinstance(expected, Tensor) or expected.ndim != 2 or len(expected) != len(inputs):
        raise NetworkError(
            "the network does not put out one tensor (n, classes). Wrap it so that it "
            "returns its logits."
        )
    with preserve_state(halves.before, mode="eval"), preserve_state(halves.after, mode="eval"):
        crossed = halves.before(inputs)
        if (
            not isinstance(crossed[0], Tensor)
            or not crossed[0].is_floating_point()
            or len(crossed[0]) != len(inputs)
        ):
            raise NetworkError(
                f"at {at} there is no tensor with one row for each sample. Choose another site."
            )
        difference = (halves.after(*crossed) - expected).abs().max()
    if not float(difference) <= ROUNDING.get(expected.dtype, 1e-2) * max(
        1.0, float(expected.abs().max())
    ):
        raise NetworkError(
            f"cut at {at} and joined again, the network computes something else: its forward "
            "pass changes values where the "
            "graph does not show it. Write operations in place, such as x.add_(y), so that "
            "their result is used."
        )
    return halves


def _before(found: Traced, values: list[fx.Node]) -> fx.GraphModule:
    """Build the part that computes the values that cross."""
    needed = set().union(*map(ancestors, values)) | {
        node for node in found.graph.nodes if node.op == "placeholder"
    }
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in found.graph.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[value] for value in values))
    return _module(found.network, graph)


def _after(found: Traced, values: list[fx.Node]) -> fx.GraphModule:
    """Build the part that goes on from the values that cross."""
    [output] = [node for node in found.graph.nodes if node.op == "output"]
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for number, value in enumerate(values):
        copies[value] = graph.placeholder(f"value_{number}")
    needed = _up_to(output, set(values))
    for node in found.graph.nodes:
        if node in needed and node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return _module(found.network, graph)


def _up_to(node: fx.Node, values: set[fx.Node]) -> set[fx.Node]:
    """Return a node and all that it is computed from, no further than the given values."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one not in found and one not in values:
            found.add(one)
            waiting += one.all_input_nodes
    return found


def _module(network: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """Make a module of a graph, with copies of what it uses of the network; both halves may use one
    module.
    """
    graph.lint()
    return fx.GraphModule(copy.deepcopy(network), graph).eval()


def _check_alike(one: Traced, two: Traced, names: tuple[str, str] | None) -> None:
    difference = _difference(one, two)
    if difference:
        front, back = names or tuple(type(found.network).__name__ for found in (one, two))
        raise NetworkError(
            f"the front {front} and the back {back} differ in structure: {difference}. "
            "Stitch networks of one architecture."
        )


def _difference(one: Traced, two: Traced) -> str:
    """Say where two graphs differ; nothing if they do not."""
    nodes = [[_described(found, node) for node in found.graph.nodes] for found in (one, two)]
    for number, (first, second) in enumerate(zip(*nodes, strict=False)):
        if first != second:
            return f"operation {number} is {first} in the front and {second} in the back"
    return (
        ""
        if len(nodes[0]) == len(nodes[1])
        else f"they have {len(nodes[0])} and {len(nodes[1])} operations"
    )


def _described(found: Traced, node: fx.Node) -> str:
    """Name an operation in the words of the network; a placeholder has a name of its own, which
    says nothing.
    """
    if node.op in ("placeholder", "output"):
        return {"placeholder": "an input", "output": "the end"}[node.op]
    if node.op == "call_module":
        return f"{type(found.network.get_submodule(str(node.target))).__name__} {node.target}"
    target = getattr(node.target, "__name__", node.target)
    return f"{target}"
