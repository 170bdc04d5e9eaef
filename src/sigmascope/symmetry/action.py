r"""Moving a network along its symmetries: other weights, the same function.

Where an activation σ follows a linear layer W₁ and is followed by another, W₂, an element A of σ's
group gives

$$W_2\,\sigma(W_1 x + b_1) = (W_2\,\varphi(A)^{-1})\;\sigma((A W_1)\,x + A b_1).$$

The same holds for convolutions, and through everything that commutes with the element. Which
channels may move, and which of them must move alike (those that a shortcut adds, for instance), is
found by watching one forward pass.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import unwrapped
from sigmascope.errors import InputError, InputTypeError
from sigmascope.maths.samples import Array
from sigmascope.symmetry.choice import drawn, given
from sigmascope.symmetry.equivalence import Equivalence, check_equivalence
from sigmascope.symmetry.listing import Space, Spaces, spaces
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.scalars import Generator, as_generator, is_whole
from sigmascope.symmetry.wiring.network import UnmovableError, Wiring
from sigmascope.symmetry.wiring.trace import trace
from sigmascope.symmetry.wiring.turns import Assignment

__all__ = [
    "Equivalence",
    "Space",
    "Spaces",
    "UnmovableError",
    "check_equivalence",
    "move",
    "spaces",
]


def move(
    model: nn.Module,
    elements: Mapping[str, Monomial | Array] | Generator = None,
    *,
    generator: Generator = None,
    example_input: Any = None,
    exact_eval: bool = False,
    log_std: float = 1.0,
) -> nn.Module:
    r"""Return a network with other weights and the same function in evaluation mode.

    Batch norm is given permutations only, and the scales go into its gain and offset; then the
    function is the same in training mode too, up to rounding. With `exact_eval` what stands in
    front of a batch norm is scaled as well, and its running variance becomes $d^2 (\mathrm{var} +
    \epsilon) - \epsilon$.

    What splits the channels into groups by a view is refused: channel shuffles, and attention
    outside `nn.MultiheadAttention`, as in Swin.

    Args:
        model: the network. It is not changed; what is returned is a copy with its hooks and flags.
            Hooks run once, on the copy.
        elements: name of a module or space -> the element that acts on what it puts out: a
            `Monomial` or a matrix (c, c). The names are those of `spaces` and of the modules. What
            is not named stays as it is. By default every space is moved, at random; a generator or
            a seed may stand here too.
        generator: for the random move, a torch.Generator or a seed; torch's own by default.
        example_input: a batch that the network takes; a tensor, a tuple of arguments or a mapping.
            By default one is made up.
        exact_eval: whether to scale in front of batch norms, exactly in evaluation mode only.
        log_std: the standard deviation of the logarithm of random scales.

    Raises:
        UnmovableError: the network computes something through which channels cannot be followed.
        InputError: an element outside the group that its space admits, elements that contradict
            each other, elements together with a generator, or a running variance that would become
            negative.
        InputTypeError: neither elements nor a generator.
        OptionError: an element for channels that do not exist.

    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    >>> moved = move(model, generator=0)
    >>> torch.equal(model[0].weight, moved[0].weight), check_equivalence(model, moved, torch.randn(9, 2).double()).holds
    (False, True)
    """
    elements, generator = _told_apart(elements, generator)
    moved = copy.deepcopy(unwrapped(model))
    wiring = trace(moved, example_input, exact_eval=exact_eval)
    chosen = (
        drawn(wiring, as_generator(generator), log_std)
        if elements is None
        else given(wiring, elements)
    )
    _apply(moved, wiring, chosen)
    return moved


def _told_apart(
    elements: Mapping[str, Monomial | Array] | Generator, generator: Generator
) -> tuple[Mapping[str, Monomial | Array] | None, Generator]:
    """Return elements or a generator, whichever was given first."""
    if elements is None:
        return None, generator
    if generator is not None:
        raise InputError(
            "elements or a generator say how to move, and both were given. Pass one of them."
        )
    if isinstance(elements, Mapping):
        return elements, None
    if isinstance(elements, torch.Generator) or is_whole(elements):
        return None, elements
    raise InputTypeError(
        f"elements is a {type(elements).__name__}. Pass a mapping from names to elements, a "
        "torch.Generator or a seed."
    )


def _apply(model: nn.Module, wiring: Wiring, chosen: Assignment) -> None:
    """Write the new values of all parameters and buffers that follow their channels."""
    tensors: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, turns in wiring.turns.items():
            value = tensors[name].detach().double()
            for turn in turns:
                value = chosen.turned(value, turn, name)
            tensors[name].copy_(value)
