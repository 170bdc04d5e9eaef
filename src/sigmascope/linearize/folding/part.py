"""Folding a network, or a part of one, that `torch.fx` can trace."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.capture.guard import plain_path
from sigmascope.errors import NetworkError
from sigmascope.linearize.folding.arguments import TOLERANCE, Arguments, relative_difference
from sigmascope.linearize.folding.building import Made, built
from sigmascope.linearize.folding.choice import (
    Bounds,
    Chooser,
    Item,
    Segment,
    cast,
    items_of,
    merged_module,
    segment_name,
)
from sigmascope.linearize.folding.functional import readers
from sigmascope.linearize.folding.graph import (
    Link,
    Watched,
    chains_of,
    in_words,
    links_of,
    overwrites_others,
    own_norms,
)
from sigmascope.linearize.folding.tracing import one_line, traced
from sigmascope.linearize.folding.words import dearer, described
from sigmascope.linearize.maps import Affine, Identity
from sigmascope.measure.progress import progress_bar


@dataclass
class Part:
    """A folded part of a network.

    Attributes:
        module: with merged layers in the dtype of the network; None where nothing is merged.
        exact: the same in float64.
        opaque: paths of the modules inside that cannot be traced, in the network.
        steps, refused, merges: see `Folded`.
    """

    module: nn.Module | None = None
    exact: nn.Module | None = None
    opaque: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)


def fold_part(
    module: nn.Module, exact: Arguments, single: Arguments, chooser: Chooser, *, path: str = ""
) -> Part:
    """Return a module with its linear layers merged.

    Args:
        module: in evaluation mode; it is not changed.
        exact: an example of its arguments in float64.
        single: the same for one sample in the dtype of the network.
        chooser: which layers to merge.
        path: of the module in its network.

    Raises:
        NetworkError: `torch.fx` cannot trace it.
    """
    graph, opaque = traced(copy.deepcopy(module))
    in_double = Watched(graph_in_double(graph))
    _run(in_double, exact, module)
    shapes = _by_name(graph, in_double.shapes)
    links, staying = links_of(graph, shapes)
    prefix = f"{path}." if path else ""
    found = Part(refused=own_norms(module, graph.graph, prefix, opaque))
    found.refused += [f"{prefix}{reason}" for reason in staying.values()]
    for inside, reason in opaque.items():
        found.opaque.append(f"{prefix}{inside}")
        line = f"{prefix}{plain_path(inside)}: {reason}"
        maps = [
            isinstance(one, Affine | Identity | _BatchNorm)
            for one in graph.get_submodule(inside).modules()
        ]
        if any(maps) and line not in found.refused:
            found.refused.append(line)
    chains = [
        (chain, items_of(chain))
        for chain in (_without_overwriting(one, graph, found) for one in chains_of(links, graph))
        if chain
    ]
    folding = _Folding(graph, chooser, prefix, found)
    folding.watch(module, exact, single, [items for _, items in chains])
    title = f"fold {path or type(module).__name__}, chains of layers"
    with progress_bar(title, len(chains), shown=chooser.progress) as advance:
        for chain, items in chains:
            folding.fold_chain(chain, items)
            advance()
    return folding.finished()


def _run(watched: Watched, arguments: Arguments, module: nn.Module) -> None:
    """Run the graph of a module.

    Raises:
        NetworkError: it does not run as the module does, which takes another way where an argument
            is None.
    """
    try:
        with torch.no_grad():
            watched.run(*arguments.in_order(module))
    except Exception as error:  # its nodes may do anything
        raise NetworkError(
            f"{type(module).__name__} does not run as torch.fx traced it ({one_line(error)})"
        ) from error


def graph_in_double(graph: fx.GraphModule) -> fx.GraphModule:
    """Return a copy of a graph in float64; its nodes have the same names."""
    return copy.deepcopy(graph).double()


def _by_name(graph: fx.GraphModule, found: dict[fx.Node, Any]) -> dict[fx.Node, Any]:
    """Return values by the nodes of a graph, found by those of a copy of it."""
    values = {node.name: value for node, value in found.items()}
    return {node: values[node.name] for node in graph.graph.nodes if node.name in values}


def _without_overwriting(chain: list[Link], graph: fx.GraphModule, found: Part) -> list[Link]:
    """Return a chain without leading maps that overwrite what something else may read."""
    while chain and overwrites_others(chain[0], graph):
        found.refused.append(
            f"{chain[0].path}: it overwrites {in_words(chain[0].source, graph)}, which may be read "
            "elsewhere"
        )
        chain = chain[1:]
    return chain


class _Folding:
    """Chooses and makes the merges of one graph."""

    def __init__(self, graph: fx.GraphModule, chooser: Chooser, prefix: str, found: Part) -> None:
        self.graph, self.chooser, self.prefix, self.found = graph, chooser, prefix, found
        self._values: dict[fx.Node, Tensor] = {}
        self._made: list[Made] = []

    def watch(
        self,
        module: nn.Module,
        exact: Arguments,
        single: Arguments,
        chains: Sequence[Sequence[Item]],
    ) -> None:
        """Keep what each item reads."""
        sources = {
            item.links[0].source
            for items in chains
            for item in items
            if len(items) > 1 or item.size > 1
        }
        watched = Watched(self.graph, [*sources])
        _run(watched, single, module)
        double = graph_in_double(self.graph)
        names = {node.name for node in sources}
        kept = [node for node in double.graph.nodes if node.name in names]
        in_double = Watched(double, kept)
        _run(in_double, exact, module)
        self._values = _by_name(self.graph, in_double.values)
        for items in chains:
            for item in items:
                item.value = watched.values.get(item.links[0].source)

    def fold_chain(self, chain: Sequence[Link], items: list[Item]) -> None:
        """Merge what is worth it in one chain."""
        if not items:
            return
        if len(items) == 1 and items[0].size == 1:
            self._note_single(items[0])
            return
        cut, segments = self.chooser.cut(items, self.prefix)
        for bounds in cut:
            some = items[bounds[0] : bounds[1] + 1]
            name = segment_name(items, bounds, self.prefix)
            if sum(item.size for item in some) < 2:
                continue
            if self.chooser.merges is None or name in self.chooser.merges:
                self._merge(some, name)
        for _, last in cut[:-1]:
            self._note_cut(items, last, cut, segments)

    def _merge(self, items: list[Item], name: str) -> None:
        links = [link for item in items for link in item.links]
        exact = merged_module(items, exact=True)
        difference = self._difference(links, exact)
        if difference > TOLERANCE:
            self._refuse(links, f"merged they differ by {difference:.1e} of the largest output")
            return
        self._made.append(Made(links, exact, cast(copy.deepcopy(exact), links)))
        self.found.merges.append(name)
        self.found.steps.append(f"{self._names(links)} → {described(exact)}")

    def _difference(self, links: Sequence[Link], merged: nn.Module) -> float:
        """Return the largest difference of layers and the merged one, relative to the outputs."""
        value = self._values[links[0].source]
        with torch.no_grad():
            wanted = value.clone()
            for link in links:
                wanted = copy.deepcopy(link.module).double()(wanted)
            return relative_difference(wanted, merged(value))

    def _refuse(self, links: Sequence[Link], reason: str) -> None:
        self.found.refused.append(f"{self._names(links)}: {reason}")

    def _names(self, links: Sequence[Link]) -> str:
        paths = [f"{self.prefix}{link.path}" for link in links if link.counts]
        return " + ".join(paths)

    def _note_cut(
        self, items: list[Item], last: int, cut: Sequence[Bounds], segments: dict[Bounds, Segment]
    ) -> None:
        """Say why two neighbors are not merged: by the segment that would have joined them."""
        [first] = [one[0] for one in cut if one[1] == last]
        [final] = [one[1] for one in cut if one[0] == last + 1]
        across = [bounds for bounds in segments if first <= bounds[0] <= last < bounds[1] <= final]
        # all that would become one layer; or what is in the way of that
        bounds = min(
            across,
            key=lambda one: (one != (first, final), not segments[one].reason, one[1] - one[0]),
        )
        links = [link for item in items[bounds[0] : bounds[1] + 1] for link in item.links]
        inside = [one for one in cut if bounds[0] <= one[0] and one[1] <= bounds[1]]
        if bounds != (first, final):
            inside = [(one, one) for one in range(bounds[0], bounds[1] + 1)]
        costs = dearer(segments[bounds], [segments[one] for one in inside])
        self._refuse(links, segments[bounds].reason or costs)

    def _note_single(self, item: Item) -> None:
        """Say why a map is not merged with anything; a layer alone needs no reason."""
        link = next(one for one in item.links if one.piece is not None)
        if link.is_layer:
            return
        self._refuse([link], self._why_alone(item.links))

    def _why_alone(self, links: Sequence[Link]) -> str:
        source, users = links[0].source, readers(links[-1].node)
        names = ", ".join(in_words(user, self.graph) for user in users[:3])
        if len(readers(source)) > 1 and in_words(source, self.graph).count("("):
            others = [user for user in readers(source) if user is not links[0].node]
            before = (
                f"{in_words(source, self.graph)} before it is read elsewhere, too, by "
                f"{in_words(others[0], self.graph)}"
            )
        else:
            before = f"it follows {in_words(source, self.graph)}"
        after = f"is read by {names}{' and others' * (len(users) > 3)}"
        saved = "; it saves a non-linearity but no layer" * isinstance(links[0].module, Affine)
        return f"{before}, and {after}{saved}"

    def finished(self) -> Part:
        """Return the part with all merges made."""
        for link in self._identities():
            self.found.refused.append(
                f"{self.prefix}{link.path}: an identity that {self._why_alone([link])}"
            )
        if self._made:
            self.found.exact = built(self.graph, self._made, exact=True).double()
            self.found.module = built(self.graph, self._made, exact=False)
        return self.found

    def _identities(self) -> list[Link]:
        """Return identities in place of activations that are left."""
        gone = {link.node for made in self._made for link in made.links}
        found = []
        for node in self.graph.graph.nodes:
            if node.op == "call_module" and node not in gone:
                inside = self.graph.get_submodule(str(node.target))
                if isinstance(inside, Identity):
                    found.append(Link(node, str(node.target), inside, None))
        return found
