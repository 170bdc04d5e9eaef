"""Two networks cut at one value, the front of one joined to the back of the other.

What the value is computed from comes from the front and everything else from the back, by the graph
and not by the order of modules. So a projection on the shortcut of a block belongs to the front if
the value is the output of the block, and to the back if the value is inside the block; there the
projection of the back receives the block input of the front. Values that bypass the site, such as
that block input, stay what the front computed. Batch norms keep their statistics.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from sigmascope.capture.guard import copied, preserve_state
from sigmascope.errors import InputError, NetworkError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.measure.batches import place_of
from sigmascope.stitching.layer import Stitch, as_matrix, channel_axis, layout_at, style_of
from sigmascope.stitching.tracing import CutSite, Traced, ancestors, crossing, traced
from sigmascope.symmetry.monomial import Monomial

ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}


@dataclass(frozen=True)
class Halves:
    """Copies of the two parts of a network cut at a site.

    `before` maps inputs to the values that cross, that of the site first; `after` these to logits.
    """

    before: fx.GraphModule
    after: fx.GraphModule
    site: CutSite


@dataclass(frozen=True)
class Joint:
    """Two networks ready to be stitched: their halves, and the features between them."""

    front: Halves
    back: Halves
    site: CutSite
    channels: int
    style: str


class StitchedNetwork(nn.Module):
    """The front of one network, a stitch, and the back of another.

    >>> import torch
    >>> import sigmascope as sg
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> x = torch.randn(64, 2)
    >>> samples = x, torch.arange(64) % 2
    >>> found = sg.stitch(net, net, (samples, samples), site="1", family="identity")
    >>> torch.allclose(found.network(net, net, x)(x), net(x), atol=1e-6)
    True
    """

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
    inputs: Tensor,
    site: str | None = None,
    stitch: Monomial | Array | None = None,
    style: str = "auto",
    at: str | None = None,
) -> StitchedNetwork:
    """Return the front of one network joined to the back of another by a given matrix.

    Args:
        front: a network that torch.fx can trace; it is copied, not changed.
        back: a network of the same structure.
        inputs: a few inputs of both networks.
        site: an activation call as `sigmascope.signature` names it, or the path of a module, whose
            output is stitched.
        stitch: a group element or matrix (c, c); the identity by default.
        style: "conv" for channels on axis 1, "linear" for the last axis; "auto" infers the axis
            from the layers before the site.
        at: earlier name of `site`.

    Raises:
        NetworkError: a network that cannot be traced or cut, or two that differ in structure.
        OptionError: an unknown site, with a list of choices; or an unknown channel axis.
        InputError: different shapes at the site, or a matrix of another size.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> x = torch.randn(4, 2)
    >>> torch.equal(assemble(net, net, site="1", inputs=x)(x), net(x))
    True
    """
    joint = prepare(front, back, site=site_given(site, at), inputs=inputs, style=style)
    device, dtype = place_of(joint.front.before)
    layer = Stitch("fixed", joint.channels, joint.style)
    layer.to(device, dtype or torch.get_default_dtype())
    if stitch is not None:
        layer.set_matrix(as_matrix(stitch, joint.channels))
    return StitchedNetwork(joint.front.before, layer, joint.back.after).eval()


def site_given(site: str | None, at: str | None) -> str:
    """Return the site of a call, which may use the earlier name `at`; raise unless it has one."""
    if (site is None) == (at is None):
        what = "missing" if site is None else "given twice, as site= and at="
        raise OptionError(f"site is {what}. Pass site=..., one of cut_sites(model).")
    return site if site is not None else str(at)


def prepare(
    front: nn.Module,
    back: nn.Module,
    *,
    site: str,
    inputs: Tensor,
    style: str = "auto",
    names: tuple[str, str] | None = None,
) -> Joint:
    """Return two networks cut at the same site, with features of one shape; see `assemble`."""
    copies = [copied(network) for network in (front, back)]
    one, two = (traced(network.requires_grad_(False)) for network in copies)
    _check_alike(one, two, names)
    halves = [cut(network, site, inputs) for network in (one, two)]
    shapes = []
    for half in halves:
        with preserve_state(half.before, mode="eval"):
            shapes.append(tuple(half.before(inputs)[0].shape))
    if shapes[0] != shapes[1]:
        raise InputError(
            f"at {site} the front has features {shapes[0][1:]} and the back {shapes[1][1:]} per "
            "sample. Stitches are square: choose networks or sites of equal width and size."
        )
    axis = layout_at(halves[0].before, inputs).axis if style == "auto" else None
    style = style_of(shapes[0], style, axis)
    channels = shapes[0][channel_axis(shapes[0], style)]
    return Joint(halves[0], halves[1], halves[0].site, channels, style)


def cut(network: Traced, name: str, inputs: Tensor) -> Halves:
    """Return the halves of a traced network, after checking that together they compute the same."""
    site, node = network.site(name)
    values, _ = crossing(network.graph, node)
    halves = Halves(_before(network, values), _after(network, values), site)
    with preserve_state(network.network, mode="eval"):
        expected = network.network(inputs)
    if not isinstance(expected, Tensor) or expected.ndim != 2 or len(expected) != len(inputs):
        raise NetworkError(
            "the network does not return one tensor (n, classes). Wrap it so that it returns its "
            "logits."
        )
    with preserve_state(halves.before, mode="eval"), preserve_state(halves.after, mode="eval"):
        crossed = halves.before(inputs)
        value = crossed[0]
        is_floating = isinstance(value, Tensor) and value.is_floating_point()
        if not is_floating or len(value) != len(inputs):
            raise NetworkError(
                f"the value at {name} is not a tensor with one row per sample. Choose another site."
            )
        difference = float((halves.after(*crossed) - expected).abs().max())
    largest = max(1.0, float(expected.abs().max()))
    if not difference <= ROUNDING.get(expected.dtype, 1e-2) * largest:
        raise NetworkError(
            f"cut at {name} and joined again, the network computes something else: its forward "
            "pass changes values in a way that the graph does not show. Use the results of "
            "in-place operations: x = x.add_(y) instead of x.add_(y)."
        )
    return halves


def _before(network: Traced, values: list[fx.Node]) -> fx.GraphModule:
    """Return the part that computes the values that cross."""
    inputs = {node for node in network.graph.nodes if node.op == "placeholder"}
    needed = inputs.union(*map(ancestors, values))
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in network.graph.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[value] for value in values))
    return _module(network.network, graph)


def _after(network: Traced, values: list[fx.Node]) -> fx.GraphModule:
    """Return the part that continues from the values that cross."""
    [output] = [node for node in network.graph.nodes if node.op == "output"]
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for number, value in enumerate(values):
        copies[value] = graph.placeholder(f"value_{number}")
    needed = ancestors(output, stop=set(values))
    for node in network.graph.nodes:
        if node in needed and node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return _module(network.network, graph)


def _module(network: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """Return a module of a graph, with its own copies of modules, which both halves may use."""
    graph.lint()
    return fx.GraphModule(copy.deepcopy(network), graph).eval()


def _check_alike(one: Traced, two: Traced, names: tuple[str, str] | None) -> None:
    difference = _difference(one, two)
    if difference:
        front, back = names or (type(one.network).__name__, type(two.network).__name__)
        raise NetworkError(
            f"the front {front} and the back {back} differ in structure: {difference}. Stitch "
            "networks of the same architecture."
        )


def _difference(one: Traced, two: Traced) -> str:
    """Return where two graphs differ; empty if they do not."""
    nodes = [[_described(side, node) for node in side.graph.nodes] for side in (one, two)]
    for number, (first, second) in enumerate(zip(*nodes, strict=False)):
        if first != second:
            return f"operation {number} is {first} in the front and {second} in the back"
    counts = len(nodes[0]), len(nodes[1])
    return "" if counts[0] == counts[1] else f"they have {counts[0]} and {counts[1]} operations"


def _described(network: Traced, node: fx.Node) -> str:
    """Return what a node does; the names of placeholders say nothing."""
    if node.op in ("placeholder", "output"):
        return {"placeholder": "an input", "output": "the output"}[node.op]
    if node.op == "call_module":
        return f"{type(network.network.get_submodule(str(node.target))).__name__} {node.target}"
    return str(getattr(node.target, "__name__", node.target))
