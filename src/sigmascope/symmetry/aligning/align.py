"""Aligning two networks: the search for the best element, from several starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from torch import nn

from sigmascope import choices
from sigmascope.capture.guard import unwrapped
from sigmascope.checks import check_choice, check_whole
from sigmascope.errors import InputError, NetworkError
from sigmascope.measure.copies import example_of
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import check_device
from sigmascope.symmetry.aligning.blocks import Block, Cell, blocks_of
from sigmascope.symmetry.aligning.cosines import cosines, overall
from sigmascope.symmetry.aligning.descent import Descent, Prior, Tensors
from sigmascope.symmetry.aligning.features import unlikeness
from sigmascope.symmetry.aligning.result import (
    Alignment,
    Element,
    check_same_layers,
    check_same_parameters,
    layers_of,
    shapes_of,
)
from sigmascope.symmetry.equivalence import check_equivalence
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.symmetry.wiring.trace import trace
from sigmascope.symmetry.wiring.turns import Assignment

FEW, MANY, TINY = 2, 24, 32  # starts, and the channels of a network that gets many
LAYER_BY_LAYER, IDENTITY = "the input, layer by layer", "the identity"


class AlignKeywords(TypedDict, total=False):
    """Options of `align` that few people need."""

    example_input: Any
    progress: bool


def align(
    a: nn.Module,
    b: nn.Module,
    batches: Any = None,
    *,
    by: choices.Matching = "weights",
    group: choices.AlignGroup = "all",
    starts: int | None = None,
    controls: int = 0,
    **more: Unpack[AlignKeywords],
) -> Alignment:
    r"""Return the symmetry of network b that brings its parameters closest to those of a.

    It minimizes $\lVert \theta_a - g \cdot \theta_b \rVert^2$ over the elements g that `move` can
    apply: permutations of channels, the scales or signs that each activation admits, tied where
    wiring ties them; the order of attention heads, and rotations of their queries and values. One
    set of channels at a time is updated. The cost of every pair of channels at its best scale has a
    closed form, so that the assignment is exact, and the objective never rises.

    The descent begins at the input, whose coordinates are the same in both networks, and follows
    the layers: a network that was moved by `move` is found again. It begins a second time at the
    identity, and the better end is taken. By activations, the correlations of features decide the
    permutations, and weights the scales, the heads, and channels that are silent.

    Ainsworth et al., 2022, arXiv:2209.04836, match permutations in this way.

    Args:
        a: the network that stays.
        b: another one of the same architecture; not changed.
        batches: inputs for `by="activations"`, as for `sigmascope.signature`. By weights they may
            be left out.
        by: "weights" or "activations".
        group: "all", or "permutations" without scales, signs and rotations.
        starts: number of starts by weights; from the third on random permutations. Where nothing
            was planted a descent may end in a local minimum, and more starts may find a lower one.
            By default 2, and 24 for networks of at most 32 channels, which take no time.
        controls: how many networks of shuffled weights to align too; see `Alignment.alike`.
        **more: further options:
            example_input: a batch that the networks take; see `move`. By default one is made up,
                and where none fits, samples of `batches` are taken.
            progress: whether to show a progress bar, on a terminal; True.

    Raises:
        UnmovableError: the networks compute something through which channels cannot be followed.
        InputError: networks of different architectures, or with weights that are not finite; no
            batches for their activations.
        OptionError: another value of `by`, or a number that is too small.
        NetworkError: the moved network does not compute the same function.

    >>> _ = torch.manual_seed(0)
    >>> a = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    >>> from sigmascope import symmetry
    >>> found = align(a, symmetry.move(a, seed=1))
    >>> {layer: round(similarity, 6) for layer, similarity in found.similarity.items()}
    {'0': 1.0, '2': 1.0}
    """
    check_choice("by", by, choices.Matching)
    check_choice("group", group, choices.AlignGroup)
    for name in more:
        check_choice("option", name, sorted(AlignKeywords.__annotations__))
    if starts is not None:
        check_whole("starts", starts, 1)
    check_whole("controls", controls, 0)
    if by == "activations" and batches is None:
        raise InputError('by="activations" needs inputs. Pass batches, or by="weights".')
    networks, example = (unwrapped(a), unwrapped(b)), more.get("example_input")
    pair = Pair.of(*networks, example, group=group, batches=batches)
    prior, progress = None, more.get("progress", True)
    if by == "activations":
        prior = unlikeness(pair.networks, batches, pair.blocks, progress=progress)
    starts = _starts(pair) if starts is None else starts
    best, start = search(pair, prior, starts=starts, progress=progress)
    found = _result(pair, best, start, by)
    scores = [_control(pair, seed, progress=progress) for seed in range(controls)]
    return replace(found, controls=tuple(scores))


@dataclass(frozen=True, eq=False)
class Pair:
    """Two networks of one architecture, and what the tracing found.

    Attributes:
        networks: the one that stays, and the one to be moved.
        wiring: of the second.
        blocks: the variables.
        target: the parameters of the first, in the precision of the search.
        moving: those of the second.
        group: "all" or "permutations".
    """

    networks: tuple[nn.Module, nn.Module]
    wiring: Wiring
    blocks: list[Block]
    target: Tensors
    moving: Tensors
    group: choices.AlignGroup = "all"

    @staticmethod
    def of(
        a: nn.Module,
        b: nn.Module,
        example_input: Any,
        *,
        group: choices.AlignGroup = "all",
        batches: Any = None,
    ) -> Pair:
        """Return the pair, once both are known to have one architecture."""
        names = type(a).__name__, type(b).__name__
        names = names if names[0] != names[1] else ("a", "b")
        check_same_parameters(shapes_of(a), shapes_of(b), names)
        check_same_layers(layers_of(a), layers_of(b), names)
        for one in (a, b):
            check_device(one)
        wiring, other = (_traced(one, example_input, batches) for one in (b, a))
        _check_same_wiring(other, wiring)
        _check_numbers(a, b, wiring)
        parameters = [dict(one.named_parameters()) for one in (a, b)]
        exact = any(one.dtype == torch.float64 for both in parameters for one in both.values())
        dtype = torch.float64 if exact else torch.float32
        target, moving = (
            {name: one.detach().to("cpu", dtype) for name, one in own.items()} for own in parameters
        )
        blocks = blocks_of(wiring, target, scaled=group == "all")
        return Pair((a, b), wiring, blocks, target, moving, group)

    def descent(self) -> Descent:
        """Return a descent at the identity."""
        ties = self.wiring.ties
        return Descent(
            self.target,
            self.moving,
            self.blocks,
            places=ties.places.lost.shape[1],
            scales=ties.scales.lost.shape[1],
            rotated=self.group == "all",
        )

    def element(self, descent: Descent) -> Element:
        """Return the element that a descent has found."""
        chosen = Assignment(self.wiring.ties, descent.order, descent.values)
        return Element(self.wiring, chosen, tuple(descent.heads.values()))


def _traced(network: nn.Module, example_input: Any, batches: Any) -> Wiring:
    """Trace a network; by samples of the batches where no input that was made up fits it."""
    try:
        return trace(network, example_input)
    except InputError:
        if example_input is not None or batches is None:
            raise
        example = example_of(batches, network)
        if example is None:
            raise
    return trace(network, example)


def _check_numbers(a: nn.Module, b: nn.Module, wiring: Wiring) -> None:
    """Raise `InputError` for weights that have no distance to others, or statistics like that."""
    for which, network in (("a", a), ("b", b)):
        buffers = ((name, one) for name, one in network.named_buffers() if name in wiring.turns)
        for name, one in chain(network.named_parameters(), buffers):
            if one.is_complex():
                raise InputError(
                    f"{name} has complex numbers. Pass networks whose weights are real."
                )
            count = int((~one.detach().isfinite()).sum())
            if count:
                raise InputError(
                    f"{name} of the network {which!r} has {count} of {one.numel()} values that are "
                    "NaN or infinite. Pass networks with finite weights."
                )


def _check_same_wiring(a: Wiring, b: Wiring) -> None:
    """Raise `InputError` where two networks with equal parameters use them in different ways."""
    for one, other in zip(a.ties.reasons, b.ties.reasons, strict=False):
        if one != other:
            raise InputError(
                "the networks have different architectures, though their parameters have equal "
                f"shapes: what fixes channels is in a '{one}' where in b it is '{other}'. Pass two "
                "networks of one architecture."
            )
    if [*a.turns] != [*b.turns] or len(a.ties.reasons) != len(b.ties.reasons):
        raise InputError(
            "the networks have different architectures: they use their parameters in different "
            "orders or ways. Pass two networks of one architecture."
        )


def search(pair: Pair, prior: Prior | None, *, starts: int, progress: bool) -> tuple[Descent, str]:
    """Return the descent that ends best, and where it began."""
    best: tuple[Descent, str] | None = None
    begins: list[tuple[str, Callable[[Descent], None]]] = [
        (LAYER_BY_LAYER, lambda descent: _follow_layers(descent, pair.blocks, prior)),
        (IDENTITY, lambda _: None),
    ]
    begins += [(f"random permutations {seed}", _shuffled(pair, seed)) for seed in range(starts - 2)]
    with progress_bar("aligning", None, shown=progress) as advance:
        for name, begin in begins[: starts if prior is None else 1]:
            descent = pair.descent()
            begin(descent)
            descent.sweep(prior, advance)
            if best is None or descent.objective < best[0].objective:
                best = descent, name
            if best[0].objective <= 1e-20 * _energy(pair.target):
                break  # nothing is nearer
    if best is None:
        raise InputError("no start was tried. Pass starts=1 or more.")
    return best


def _follow_layers(descent: Descent, blocks: list[Block], prior: Prior | None) -> None:
    """Set one block after the other, by the weights that depend on those before it alone."""
    known: set[int] = set()
    for number, _ in enumerate(blocks):
        descent.update(number, prior=prior, known=known)
        known.add(number)


def _starts(pair: Pair) -> int:
    """Return how many starts there are by default: a tiny network can afford to find the least."""
    cells = (one for one in pair.blocks if isinstance(one, Cell) and one.permuted)
    return MANY if sum(len(one.places) for one in cells) <= TINY else FEW


def _shuffled(pair: Pair, seed: int) -> Callable[[Descent], None]:
    def begin(descent: Descent) -> None:
        source = torch.Generator().manual_seed(seed)
        for block in pair.blocks:
            if isinstance(block, Cell) and block.permuted:
                descent.permute(block, torch.randperm(len(block.places), generator=source))

    return begin


def _energy(tensors: Tensors) -> float:
    return float(np.sum([float(one.double().square().sum()) for one in tensors.values()]))


def _result(pair: Pair, descent: Descent, start: str, by: str) -> Alignment:
    a, b = pair.networks
    element = pair.element(descent)
    equivalence = check_equivalence(b, element.move(b), pair.wiring.example)
    if not equivalence.holds:
        raise NetworkError(
            f"the moved network does not compute the same function: {equivalence}. Align the "
            "networks in float64: network.double()."
        )
    pair.wiring.forget()
    before = {name: (pair.target[name], pair.moving[name]) for name in pair.target}
    after = {name: (pair.target[name], descent.current[name]) for name in pair.target}
    return Alignment(
        networks=(type(a).__name__, type(b).__name__),
        by=by,
        objective=tuple(descent.history),
        before=pair.descent().objective,
        start=start,
        similarity=cosines(after),
        similarity_before=cosines(before),
        overall=overall(after),
        controls=(),
        equivalence=equivalence,
        element=element,
        shapes=shapes_of(b),
        layers=layers_of(b),
    )


def _control(pair: Pair, seed: int, *, progress: bool) -> float:
    """Return the cosine after aligning b with the entries of each tensor shuffled."""
    source = torch.Generator().manual_seed(seed)
    shuffled = {
        name: one.flatten()[torch.randperm(one.numel(), generator=source)].view_as(one)
        for name, one in pair.moving.items()
    }
    noise = replace(pair, moving=shuffled)
    descent, _ = search(noise, None, starts=1, progress=progress)
    return overall({name: (pair.target[name], descent.current[name]) for name in pair.target})
