"""The element that brings one network closest to another, as a result that prints itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from sigmascope.capture.guard import copied, plain_path, unwrapped
from sigmascope.capture.sharded import original_class
from sigmascope.errors import InputError
from sigmascope.symmetry.action import write_moved
from sigmascope.symmetry.channel_spaces import found_spaces
from sigmascope.symmetry.equivalence import Equivalence
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.wiring.heads import HeadElement
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.symmetry.wiring.turns import Assignment
from sigmascope.tables import Table, Tabular

MARGIN = 1.25
ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, eq=False)
class Element:
    """An element of the symmetry group of a whole network: of its channels and of its heads."""

    wiring: Wiring
    chosen: Assignment
    heads: tuple[HeadElement, ...]

    def move(self, model: nn.Module) -> nn.Module:
        """Return a copy of a network, moved."""
        moved = copied(model)
        write_moved(moved, self.wiring, self.chosen, self.heads)
        return moved


@dataclass(frozen=True, eq=False, repr=False)
class Alignment(Tabular):
    """How one network was brought onto another; returned by `sigmascope.symmetry.align`.

    Attributes:
        networks: the names of the two networks.
        by: "weights" or "activations".
        objective: the squared distance of all parameters, at the start and after every sweep; it
            never rises.
        before: the squared distance without aligning.
        start: where the descent began that ended best.
        similarity: layer -> cosine of its parameters in both networks, after aligning.
        similarity_before: the same without aligning.
        overall: the mean cosine of all weights with two axes or more, after aligning.
        controls: the same for the second network with the entries of each tensor shuffled, which
            is what aligning gains from noise.
        equivalence: whether the moved network computes the same function, measured.

    >>> import torch
    >>> from torch import nn
    >>> from sigmascope import symmetry
    >>> _ = torch.manual_seed(0)
    >>> a = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    >>> found = symmetry.align(a, symmetry.move(a, seed=0))
    >>> found.by, round(found.overall, 6), found.equivalence.holds
    ('weights', 1.0, True)
    """

    networks: tuple[str, str]
    by: str
    objective: tuple[float, ...]
    before: float
    start: str
    similarity: Mapping[str, float]
    similarity_before: Mapping[str, float]
    overall: float
    controls: tuple[float, ...]
    equivalence: Equivalence
    element: Element = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)
    layers: Mapping[str, str] = field(repr=False)

    def apply(self, model: nn.Module) -> nn.Module:
        """Return a copy of the second network, moved; it computes the same function.

        Args:
            model: the second network, or another one of its architecture.

        Raises:
            InputError: a network with other parameters or layers.
            InputTypeError: it is not a network.
        """
        model, names = unwrapped(model), ("aligned", "given")
        check_same_parameters(self.shapes, shapes_of(model), names)
        check_same_layers(self.layers, layers_of(model), names)
        return self.element.move(model)

    @property
    def elements(self) -> dict[str, Monomial]:
        """Name of a space of channels -> the element that acts on it; see `symmetry.spaces`."""
        found = found_spaces(self.element.wiring)
        spaces = (next(iter(parts.items())) for _, parts in found)
        return {name: self.element.chosen.monomial(channels) for name, channels in spaces}

    @property
    def heads(self) -> dict[str, HeadElement]:
        """Name of an attention module -> the order and rotations of its heads."""
        sites = [one.site for one in self.element.wiring.heads]
        return dict(zip(sites, self.element.heads, strict=True))

    @property
    def alike(self) -> bool | None:
        """Whether aligning finds more than in noise; None without controls.

        Two networks are alike if their cosine exceeds that of every control by a quarter. With 5
        controls, `python benchmarks/align.py alike` called none of 54 pairs alike that share no
        training: one or both untrained, or trained on different images. It missed 1 of 29 that
        differ in their seeds alone, two transformers: their ratio to the largest control is 1.13,
        as large as that of small networks of different images. All 15 pairs of ResNet-20s of other
        tasks, labels or augmentations on the same images counted as alike, at ratios from 1.26. So
        it tells little about the task, and "unlike" proves little where the ratio is above 1.05,
        the largest with an untrained network.
        """
        return self.overall > MARGIN * max(self.controls) if self.controls else None

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger; names begin with `prefix`."""
        own = {"before": self.before, "objective": self.objective[-1], "overall": self.overall}
        layers = {f"similarity/{name}": value for name, value in self.similarity.items()}
        return {f"{prefix}{name}": value for name, value in {**own, **layers}.items()}

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {
            "layer": list(self.similarity),
            "before": [self.similarity_before[name] for name in self.similarity],
            "aligned": list(self.similarity.values()),
        }

    def _tables(self) -> list[Table]:
        a, b = self.networks
        title = f"{b} aligned to {a} by {self.by}: cosine of the parameters of each layer"
        return [Table(self._columns(), title=title, notes=self._notes())]

    def _notes(self) -> list[str]:
        sweeps = len(self.objective) - 1
        notes = [
            f"squared distance {self.before:.6g} before, {self.objective[-1]:.6g} after "
            f"{sweeps} sweep{'' if sweeps == 1 else 's'} from {self.start}; "
            f"cosine {self.overall:.4f}",
            str(self.equivalence),
        ]
        if self.controls:
            verdict = "alike" if self.alike else "unlike: not a quarter above every control"
            notes.append(f"{verdict}; cosine of controls {np.mean(self.controls):.4f}")
        return notes


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all parameters and buffers."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tuple(tensor.shape) for name, tensor in named}


def layers_of(model: nn.Module) -> dict[str, str]:
    """Return path -> class and settings, of modules without others inside that compute something.

    >>> layers_of(nn.Sequential(nn.LeakyReLU(0.1, inplace=True), nn.Dropout()))
    {'0': 'LeakyReLU(negative_slope=0.1)'}
    """
    found = {}
    for path, module in model.named_modules():
        is_leaf = next(module.children(), None) is None
        if is_leaf and not isinstance(module, (nn.Identity, _DropoutNd)):
            found[plain_path(path)] = f"{original_class(module).__name__}({_settings(module)})"
    return found


def _settings(module: nn.Module) -> str:
    """Return the settings of a layer that its results depend on."""
    is_known = original_class(module).__module__.startswith("torch.nn.")
    if not is_known and next(module.parameters(), None) is not None:
        return ""  # what a layer of one's own tells may be values that it has learned
    told = ADDRESS.sub("", module.extra_repr()).split(", ")
    return ", ".join(one for one in told if not one.startswith("inplace"))


def check_same_layers(
    first: Mapping[str, str], second: Mapping[str, str], names: tuple[str, str]
) -> None:
    """Raise `InputError`, naming the first difference, unless two networks have equal layers."""
    for path in dict.fromkeys([*first, *second]):
        one, other = first.get(path, "missing"), second.get(path, "missing")
        if one != other:
            raise InputError(
                f"the networks have different architectures: the layer {path!r} is {one} in the "
                f"network {names[0]!r} and {other} in {names[1]!r}. Pass two networks of one "
                "architecture."
            )


def check_same_parameters(
    first: Mapping[str, tuple[int, ...]],
    second: Mapping[str, tuple[int, ...]],
    names: tuple[str, str],
) -> None:
    """Raise `InputError`, naming the first difference, unless two networks have equal shapes."""
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name), second.get(name)
        if one != other:
            said = [
                f"{shape} in the network {which!r}" if shape is not None else f"not in {which!r}"
                for shape, which in zip((one, other), names, strict=True)
            ]
            raise InputError(
                f"the networks have different architectures: {name} is {said[0]} and {said[1]}. "
                "Pass two networks of one architecture."
            )
