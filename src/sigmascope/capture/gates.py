"""Activations that gate a tensor, found in the functions of a forward pass.

A gate is an activation whose output multiplies another tensor of the samples: in GLU and its
variants, in squeeze-excitation, in the gates of attention and of recurrent cells. Affine steps,
dropout, casts and moved elements may lie between the activation and the product. What it multiplies
has the shape of the product, so a tensor that is scaled by a smaller one is not its gate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import nn

from sigmascope.capture.attention_maps import is_attention_map
from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.elementwise import PRODUCTS
from sigmascope.capture.flow import (
    CASTS,
    COMPARISONS,
    GLU,
    NOWHERE,
    Fact,
    Flow,
    places,
    size_of,
    tensors_of_step,
)
from sigmascope.capture.formulas import Formula
from sigmascope.capture.steps import Place, Step

# Activations between 0 and 1: of two in one product, the one of these is the gate.
OPENING = frozenset(("gumbel_softmax", "hardsigmoid", "sigmoid", "softmax", "softmin"))
GATE, UNIT, ATTENTION_MAP = "gate", "gated unit", "attention map"


class Activation(NamedTuple):
    """An activation of a pass.

    Attributes:
        start, end: the steps that take its input and return its output.
        kind: which it is.
        formula: whether it is written as one.
        parts: all of its steps.
    """

    start: int
    end: int
    kind: str
    formula: bool
    parts: frozenset[int]


class Gate(NamedTuple):
    """An activation that multiplies another tensor.

    Attributes:
        activation: which.
        step: the product.
        position: where the other tensor is among those that the product takes.
        path: the module that computes the product.
        multiplies: what computed the other tensor.
        half: of a function that splits its input itself, the axis along which it does.
        alone: whether something else takes the output of the activation, too.
    """

    activation: Activation
    step: int
    position: int
    path: str
    multiplies: str
    half: int | None = None
    alone: bool = False


class Tag(NamedTuple):
    """What an activation is in a network: its role, and what it multiplies."""

    role: str = ""
    multiplies: str = ""


NO_TAG = Tag()


class Gates(NamedTuple):
    """The gates of a pass, and which activations map positions of a sequence to positions."""

    gates: tuple[Gate, ...] = ()
    maps: tuple[Activation, ...] = ()

    def tags(self) -> dict[tuple[int, bool], Tag]:
        """Return the tags of activations, by the step they begin with and whether as a formula."""
        multiplied: dict[tuple[int, bool], dict[str, None]] = defaultdict(dict)
        for gate in self.gates:
            multiplied[gate.activation.start, gate.activation.formula][gate.multiplies] = None
        tags = {key: Tag(GATE, ", ".join(names)) for key, names in multiplied.items()}
        return tags | {(one.start, one.formula): Tag(ATTENTION_MAP) for one in self.maps}

    def units(self, formulas: Iterable[Formula]) -> list[Formula]:
        """Return gated units in place of the formulas that are gates, and all other formulas."""
        inside = frozenset[int]().union(
            *(gate.activation.parts for gate in self.gates if not gate.alone)
        )
        ends = {gate.activation.end for gate in self.gates if not gate.alone}
        others = [one for one in formulas if one.ends not in ends]
        return [*others, *(_unit(gate, inside) for gate in self.gates)]


def _unit(gate: Gate, inside: frozenset[int]) -> Formula:
    """Return a gated unit as a formula of what the gate multiplies."""
    kind, fused = gate.activation.kind, gate.half is not None
    return Formula(
        begins=gate.step,
        position=gate.position,
        ends=gate.step,
        parts=inside & gate.activation.parts | {gate.step},
        kind=kind if fused else f"{kind}_gate",
        text=f"x * {'sigmoid' if fused else kind}(gate)",
        path=gate.path,
        chosen_by=kind,
        half=gate.half,
        multiplies=gate.multiplies,
    )


class ModuleSpan(NamedTuple):
    """A module that counts as one activation: its first step and its kind."""

    start: int
    kind: str


def gates_of(
    steps: Sequence[Step],
    facts: Mapping[int, Fact],
    modules: Mapping[int, ModuleSpan],
    formulas: Iterable[Formula],
    paths: Mapping[nn.Module, str],
) -> Gates:
    """Return the gates of a pass and its attention maps.

    Args:
        steps: the functions of the pass.
        facts: what else is known of them.
        modules: by their last step, the modules that count as one activation.
        formulas: the activations that are written as formulas.
        paths: of the layers.
    """
    return _Search(steps, facts, modules, formulas, paths).found()


class _Search:
    """Looks for gates among the steps of a pass."""

    def __init__(
        self,
        steps: Sequence[Step],
        facts: Mapping[int, Fact],
        modules: Mapping[int, ModuleSpan],
        formulas: Iterable[Formula],
        paths: Mapping[nn.Module, str],
    ) -> None:
        self._paths = paths
        self._activations: dict[int, Activation] = {
            number: Activation(number, number, fact.kind, False, frozenset([number]))
            for number, fact in facts.items()
            if fact.kind and number < len(steps)
        }
        for end, (start, kind) in modules.items():
            inside = frozenset(range(start, end + 1))
            self._activations[end] = Activation(start, end, kind, False, inside)
        for one in formulas:
            known = Activation(one.begins, one.ends, one.kind, True, one.parts)
            self._activations[one.ends] = known
        self._inputs = {(one.begins, True): one.position for one in formulas}
        self._inside = frozenset[int]().union(*(one.parts for one in formulas))
        self._flow = Flow(steps, facts, frozenset(self._activations))

    def found(self) -> Gates:
        gates = [gate for number in range(len(self._flow.steps)) for gate in self._at(number)]
        maps = [one for one in self._activations.values() if self._is_map(one)]
        # the positions of its keys are what matters of it
        gates = [gate for gate in gates if gate.activation not in maps]
        return Gates(tuple(self._with_other_uses(gates)), tuple(maps))

    def _at(self, number: int) -> Iterator[Gate]:
        """Yield the gate in a step, if there is one."""
        fact, step = self._flow.fact(number), self._flow.steps[number]
        if fact.hidden:
            return
        operands = tensors_of_step(step)
        if fact.kind == GLU and operands and isinstance(operands[0], Place):
            half = Applied(step.name, step.args, step.kwargs).value(1, "dim", default=-1)
            other = self._name_of(operands[0], number)
            yield Gate(self._activations[number], number, 0, fact.path, other, half)
        elif step.name in PRODUCTS and number not in self._inside and len(operands) == 2:
            first, second = operands
            if isinstance(first, Place) and isinstance(second, Place):
                yield from self._product(number, first, second)

    def _product(self, number: int, first: Place, second: Place) -> Iterator[Gate]:
        """Yield the gate in a product of two tensors, if one of them is one."""
        flow = self._flow
        if not flow.depends(first) or not flow.depends(second):
            return
        if flow.roots(first) == flow.roots(second) and first.shape == second.shape:
            return  # an activation of its own, as x * sigmoid(x) is
        found = []
        for position, (gate, other) in enumerate(((second, first), (first, second))):
            one = self._activations.get(flow.origin(gate))
            if one is not None and self._may_gate(one, other, number):
                found.append((one.kind not in OPENING, size_of(gate), -position, one, other))
        if found:
            *_, place, one, other = min(found)
            name = self._name_of(other, number)
            yield Gate(one, number, -place, flow.fact(number).path, name)

    def _may_gate(self, one: Activation, other: Place, number: int) -> bool:
        """Return whether an activation can be the gate of a tensor in a product."""
        flow = self._flow
        if other.shape != flow.steps[number].shapes[0] or other.is_mask:
            return False
        origin = flow.origin(other)
        if origin != NOWHERE and flow.steps[origin].name in COMPARISONS:
            return False
        if one.kind in OPENING:
            # an input of another type is a mask
            return origin != NOWHERE or CASTS.isdisjoint(flow.names_before(other))
        return origin != NOWHERE and not flow.is_computed_from(other, one.end)

    def _is_map(self, one: Activation) -> bool:
        moving = places(self._flow.steps[one.start])
        if one.formula:
            operands = tensors_of_step(self._flow.steps[one.start])
            chosen = operands[self._inputs[one.start, True]]
            moving = [chosen] if isinstance(chosen, Place) else []
        return bool(moving) and is_attention_map(self._flow, moving[0])

    def _with_other_uses(self, gates: list[Gate]) -> Iterator[Gate]:
        """Yield the gates, and whether their activations serve something else, too."""
        products: dict[int, set[int]] = defaultdict(set)
        for gate in gates:
            products[gate.activation.end].add(gate.step)
        uses: dict[int, set[int]] = defaultdict(set)
        for number in range(len(self._flow.steps)):
            if not self._flow.passes(number):
                for place in self._flow.moving(number):
                    uses[self._flow.origin(place)].add(number)
        for gate in gates:
            end = gate.activation.end
            fused = gate.half is not None
            yield gate._replace(alone=not fused and bool(uses[end] - products[end]))

    def _name_of(self, place: Place, product: int) -> str:
        """Return what computed a tensor: a layer, a module, or a function in the same module."""
        number = self._flow.origin(place)
        if number == NOWHERE:
            return "the input"
        step, path = self._flow.steps[number], self._flow.fact(number).path
        layer = None if step.layer is None else step.layer()
        if layer is not None:
            return self._paths.get(layer, "")
        return path if path != self._flow.fact(product).path else _joined(path, step.name)


def _joined(path: str, name: str) -> str:
    return f"{path or 'forward'}.{name.strip('_')}"
