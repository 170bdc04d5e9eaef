r"""Moving a network along its symmetries: other weights, the same function.

Where an activation σ follows a linear layer W₁ and is followed by another, W₂, an element A of σ's
group gives

$$W_2\,\sigma(W_1 x + b_1) = (W_2\,\varphi(A)^{-1})\;\sigma((A W_1)\,x + A b_1).$$

The same holds for convolutions, and through everything that commutes with the element. Which
channels may move, and which of them must move together (those that a shortcut adds, for instance),
is found by tracing one forward pass.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope.capture.guard import copied, without_gradients
from sigmascope.checks import with_old_names
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.randomness import Seed, as_generator
from sigmascope.maths.samples import Array
from sigmascope.symmetry.channel_spaces import found_spaces
from sigmascope.symmetry.groups import TOLERANCE
from sigmascope.symmetry.matrices import as_square, factor_monomial
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.scalars import SCALARS, sample_scales
from sigmascope.symmetry.wiring.heads import HeadElement
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.symmetry.wiring.ties import MAGNITUDE, SIGN, Channels
from sigmascope.symmetry.wiring.trace import trace
from sigmascope.symmetry.wiring.turns import Assignment


@with_old_names(generator="seed")
def move(
    model: nn.Module,
    elements: Mapping[str, Monomial | Array] | Seed = None,
    *,
    seed: Seed = None,
    example_input: Any = None,
    exact_eval: bool = False,
    log_std: float = 1.0,
) -> nn.Module:
    r"""Return a network with other weights and the same function in evaluation mode.

    Batch norm gets permutations only, and the scales go into its gain and offset; then the function
    is the same in training mode too, up to rounding. With `exact_eval` what comes before a batch
    norm is scaled as well, and its running variance becomes $d^2 (\mathrm{var} + \epsilon) -
    \epsilon$. At random, the heads of `nn.MultiheadAttention` are permuted, and their queries and
    values rotated. Views that split the channels into groups are refused: channel shuffles, and
    attention outside `nn.MultiheadAttention`, as in Swin.

    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        model: the network, which is not changed; the result is a copy with its hooks and flags.
            Hooks run once, on the copy.
        elements: name of a module or space -> the element that acts on its output: a `Monomial` or
            a matrix (c, c). The names are those of `spaces` and of the modules; channels without
            an element do not move. By default every space is moved at random; a seed may be
            passed here too: `move(model, 0)`.
        seed: of the random move, a whole number or a torch.Generator; torch's own by default.
        example_input: a batch that the network takes; a tensor, a tuple of arguments or a mapping.
            By default one is made up.
        exact_eval: whether to scale before batch norms, exactly in evaluation mode only.
        log_std: the standard deviation of the logarithm of random scales.

    Warns where no weight changes, since nothing could move or only identities were given.

    Raises:
        UnmovableError: the network computes something through which channels cannot be followed.
        InputError: an element outside the group that its space admits, elements that contradict
            each other, elements together with a seed, or a running variance that would become
            negative.
        InputTypeError: neither elements nor a seed.
        OptionError: an element for channels that do not exist.

    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    >>> moved, x = move(model, seed=0), torch.randn(9, 2).double()
    >>> torch.equal(model[0].weight, moved[0].weight), torch.allclose(model(x), moved(x))
    (False, True)
    """
    if elements is not None and seed is not None:
        raise InputError("elements and a seed were both given. Pass one of them.")
    source = None if isinstance(elements, Mapping) else _source(elements, seed)
    moved = copied(model)
    wiring = trace(moved, example_input, exact_eval=exact_eval)
    if isinstance(elements, Mapping):
        choice = _Choice(wiring)
        for name, element in elements.items():
            choice.take(name, element)
        write_moved(moved, wiring, choice.assignment())
    else:
        chosen = _draw(wiring, source, log_std)
        write_moved(
            moved, wiring, chosen, [HeadElement.random(one, source) for one in wiring.heads]
        )
    if _is_same(model, moved):
        is_given = isinstance(elements, Mapping)
        told = "only identities were given" if is_given else "no channels are free to move"
        warnings.warn(
            f"the move changed no weight: {told}. `spaces` lists the channels that can move.",
            stacklevel=3,
        )
    return moved


def _is_same(one: nn.Module, other: nn.Module) -> bool:
    """Return whether all parameters and buffers are equal; NaN counts as equal to NaN."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) or torch.allclose(a, b, 0, 0, equal_nan=True) for a, b in pairs)


def _source(elements: Seed, seed: Seed) -> torch.Generator | None:
    if elements is None:
        return as_generator(seed)
    try:
        return as_generator(elements)
    except InputTypeError as error:
        raise InputTypeError(
            "elements must be a mapping from names to elements, or a seed, got a "
            f"{type(elements).__name__}."
        ) from error


def write_moved(
    model: nn.Module, wiring: Wiring, chosen: Assignment, heads: Sequence[HeadElement] = ()
) -> None:
    """Write the new values of all parameters and buffers that follow their channels or heads."""
    tensors: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = dict.fromkeys([*wiring.turns, *(name for one in wiring.heads for name in one.names)])
    values = {name: tensors[name].detach().double() for name in names}
    for name, turns in wiring.turns.items():
        for turn in turns:
            values[name] = chosen.turned(values[name], turn, name)
    for one, element in zip(wiring.heads, heads, strict=bool(heads)):
        values.update(one.turned(values, element))
    with without_gradients():
        for name, value in values.items():
            tensors[name].copy_(value)


def _draw(wiring: Wiring, generator: torch.Generator | None, log_std: float) -> Assignment:
    """Draw a uniform permutation in every cell, and every scale as its group does."""
    ties, cells = wiring.ties, wiring.ties.cells()
    order = np.arange(len(cells), dtype=np.int64)
    own = np.flatnonzero(ties.places.roots(order) == order)  # one of each class
    by_cell = own[np.argsort(cells[own], kind="stable")]
    for members in np.split(by_cell, np.flatnonzero(np.diff(cells[by_cell])) + 1):
        order[members] = members[torch.randperm(len(members), generator=generator).numpy()]
    count = ties.scales.lost.shape[1]
    sizes = sample_scales(count, generator, log_std).numpy()
    signs = SCALARS["signs"].sample(count, generator, log_std).numpy()
    free = ties.scales.lost == 0
    sizes = np.where(free[MAGNITUDE], sizes, 1.0)
    for channels, floor in wiring.floors:
        scales = ties.scales.roots(channels.scale)
        # with a smaller one a variance would become negative
        sizes[scales[sizes[scales] ** channels.exponent < floor]] = 1.0
    return Assignment(ties, order, sizes * np.where(free[SIGN], signs, 1.0))


class _Choice:
    """Elements given by name, each checked against what the network admits and those before it."""

    def __init__(self, wiring: Wiring) -> None:
        self._ties, self._cells = wiring.ties, wiring.ties.cells()
        self._named = {
            name: part for _, parts in found_spaces(wiring) for name, part in parts.items()
        } | wiring.sites
        self._taken: dict[str, tuple[Channels, Monomial]] = {}
        # place -> which one moves to it, and the name that says so
        self._sources: dict[int, tuple[int, str]] = {}
        self._values: dict[int, tuple[float, str]] = {}  # the same for the value of a scale

    def take(self, name: str, matrix: Monomial | Array) -> None:
        """Set places and scales by one element."""
        if name not in self._named:
            near = difflib.get_close_matches(str(name), self._named, n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            raise OptionError(
                f"no channels are called {name!r}.{guess} sigmascope.symmetry.spaces(model) "
                "lists the names."
            )
        channels, element = self._named[name], self._as_monomial(name, matrix)
        if len(element) != len(channels):
            raise InputError(
                f"the element of {name!r} acts on {len(element)} channels, and there are "
                f"{len(channels)}."
            )
        self._permute(name, channels, element)
        self._scale(name, channels, element)
        self._taken[name] = channels, element

    def assignment(self) -> Assignment:
        """Return the permutation and the scales of all channels."""
        order = np.arange(len(self._cells), dtype=np.int64)
        values = np.ones(self._ties.scales.lost.shape[1])
        for place, (source, _) in self._sources.items():
            order[place] = source
        for scale, (value, _) in self._values.items():
            values[scale] = value
        chosen = Assignment(self._ties, order, values)
        for name, (channels, element) in self._taken.items():
            if not torch.equal(chosen.monomial(channels).permutation, element.permutation):
                raise InputError(
                    f"{name!r}: copies of one channel may not be exchanged, nor sent to "
                    "different channels."
                )
        return chosen

    @staticmethod
    def _as_monomial(name: str, matrix: Monomial | Array) -> Monomial:
        if isinstance(matrix, Monomial):
            return matrix
        element = factor_monomial(as_square(matrix, f"the element of {name!r}"), TOLERANCE)
        if isinstance(element, str):
            raise InputError(f"the element of {name!r} is not a scaled permutation: {element}.")
        return element

    def _permute(self, name: str, channels: Channels, element: Monomial) -> None:
        places = self._ties.places.roots(channels.place)
        sources = places[element.permutation.numpy()]
        for position in np.flatnonzero(self._cells[places] != self._cells[sources]).tolist():
            other = int(element.permutation[position])
            number = max(self._ties.places.lost[0, [places[position], sources[position]]])
            reason = self._ties.reasons[number] or "the network uses them in different ways"
            raise InputError(
                f"{name!r}: channels {other} and {position} may not be exchanged: {reason}."
            )
        for place, source in zip(places.tolist(), sources.tolist(), strict=True):
            earlier, by = self._sources.setdefault(place, (source, name))
            if earlier != source:
                raise InputError(
                    f"{name!r} and {by!r} share a permutation, and their elements differ in "
                    "it. Make them equal."
                )

    def _scale(self, name: str, channels: Channels, element: Monomial) -> None:
        values = element.scales.numpy()
        scales = self._ties.scales.roots(channels.scale)
        off = np.abs(np.abs(values) - 1) > TOLERANCE
        self._check_scales(name, channels, values, off)
        sizes = np.where(off, np.abs(values), 1.0) ** (1 / channels.exponent)
        signed = np.where(values < 0, -sizes, sizes)
        for scale, value in zip(scales.tolist(), signed.tolist(), strict=True):
            earlier, by = self._values.setdefault(scale, (value, name))
            if abs(earlier - value) > TOLERANCE * abs(value):
                raise InputError(
                    f"{name!r} and {by!r} share a scale, and their elements differ in it. "
                    "Make them equal."
                )

    def _check_scales(self, name: str, channels: Channels, values: Array, off: Array) -> None:
        lost = self._ties.scales.lost[:, self._ties.scales.roots(channels.scale)]
        for wrong, freedom in ((off, MAGNITUDE), (values < 0, SIGN)):
            for channel in np.flatnonzero(wrong & (lost[freedom] > 0)).tolist():
                raise InputError(
                    f"{name!r}: channel {channel} may not be scaled by "
                    f"{values[channel]:.6g}: {self._ties.reasons[lost[freedom, channel]]}."
                )
        for channel in np.flatnonzero((values < 0) & ~channels.signed).tolist():
            raise InputError(
                f"{name!r}: channel {channel} is never negative here and may not be scaled "
                f"by {values[channel]:.6g}."
            )
