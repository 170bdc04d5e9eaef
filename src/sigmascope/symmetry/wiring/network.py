"""What is known of the channels of one network, and of the parameters that follow them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from sigmascope.capture.nested import tensors_in
from sigmascope.errors import SigmascopeError
from sigmascope.symmetry.wiring.heads import Heads
from sigmascope.symmetry.wiring.ties import Channels, Ties
from sigmascope.symmetry.wiring.turns import Turn

OUT_OF_SIGHT = "out of sight, as globals and what TorchScript or another library computes do"


class UnmovableError(SigmascopeError, ValueError):
    """A network computes something that does not commute with its symmetries, or has no rule.

    Not a TypeError: Python's operators would take that for an operand that they do not support.

    >>> import torch
    >>> from sigmascope import symmetry
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.LSTM(4, 3))
    >>> symmetry.move(network, seed=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.symmetry.wiring.network.UnmovableError: 1: lstm cannot be moved...
    """


class Wiring:
    """What is known of a network's channels.

    Args:
        model: the network; its parameters and buffers are recognized by identity.
        exact_eval: whether scales in front of a batch norm are compensated in its running variance.
    """

    def __init__(self, model: nn.Module, *, exact_eval: bool) -> None:
        self.ties = Ties()
        self.exact_eval = exact_eval
        self.refusal: UnmovableError | None = None
        self.turns: dict[str, list[Turn]] = {}
        self.sites: dict[str, Channels] = {}
        self.origins: list[tuple[str, Channels]] = []
        self.floors: list[tuple[Channels, npt.NDArray[np.float64]]] = []
        # (path of a module, number of its call) -> the channels of what it returns
        self.calls: dict[tuple[str, int], Channels] = {}
        self.heads: list[Heads] = []
        self.example: Any = None  # the input of the pass that was traced
        self._names = {
            id(tensor): name for name, tensor in (*model.named_parameters(), *model.named_buffers())
        }
        self._used_still: set[str] = set()
        self._uses: Counter[str] = Counter()
        self._channels: dict[int, Channels] = {}
        self._zeros: set[int] = set()
        self._known = {
            id(tensor) for module in model.modules() for tensor in tensors_in(vars(module))
        }
        self._alive: list[Tensor] = []  # an identity may be taken again once its owner is gone

    def of(self, tensor: object) -> Channels | None:
        """Return the channels of a tensor; None if it is still."""
        return self._channels.get(id(tensor))

    def parameter(self, tensor: object) -> str | None:
        """Return the name of a parameter or buffer."""
        return self._names.get(id(tensor))

    def is_zero(self, tensor: Tensor) -> bool:
        """Return whether a tensor was made of zeros, and still is zero."""
        return id(tensor) in self._zeros and not bool(tensor.any())

    def is_known(self, tensor: Tensor) -> bool:
        """Return whether the origin of a tensor was seen."""
        return id(tensor) in self._known

    def know(self, value: object) -> None:
        """Remember tensors that were given to the network, or were computed in sight."""
        for tensor in tensors_in(value):
            self._known.add(id(tensor))
            self._alive.append(tensor)

    def note(self, tensor: Tensor, channels: Channels, site: str) -> None:
        """Remember the channels of a tensor, the output of a site."""
        self.ties.keep_together(channels.place)
        self._channels[id(tensor)] = channels
        self.sites.setdefault(site, channels)

    def note_zeros(self, tensor: Tensor) -> None:
        """Remember a tensor of zeros."""
        self._zeros.add(id(tensor))

    def note_still(self, tensor: Tensor) -> None:
        """Remember that the values of a parameter were used as they are."""
        name = self.parameter(tensor)
        if name is not None:
            self._used_still.add(name)

    def turn(self, tensor: Tensor | None, *turns: Turn) -> None:
        """Make a parameter follow its channels; using it twice ties the channels of both uses."""
        if tensor is None:
            return
        name = self._names[id(tensor)]
        if tensor.is_complex():
            raise UnmovableError(f"{name} has complex numbers. Move networks of real ones.")
        self._uses[name] += 1
        earlier = self.turns.get(name)
        if earlier is None:
            self.turns[name] = list(turns)
            return
        reason = f"{name} is used twice"
        if len(earlier) == len(turns) and all(
            one.fits(two) for one, two in zip(earlier, turns, strict=True)
        ):
            for one, two in zip(earlier, turns, strict=True):
                self.ties.tie(one.channels, two.channels, reason)
                for (first, _), (second, _) in zip(one.factors, two.factors, strict=True):
                    self.ties.tie(first, second, reason)
        else:
            for one in (*earlier, *turns):
                self._pin(one, f"{name} is used in two ways")

    def finish(self, output: object) -> None:
        """Pin the network's output, and what shares a parameter with something still."""
        results = list(tensors_in(output))
        if not results:
            raise UnmovableError(
                f"the network returns a {type(output).__name__} without a tensor in it. Return "
                "tensors."
            )
        for tensor in results:
            if not self.is_known(tensor):
                raise UnmovableError(f"an output of the network comes from {OUT_OF_SIGHT}.")
            channels = self.of(tensor)
            if channels is not None:
                self.ties.pin(channels, "it is the output of the network")
        for name in self._used_still & self.turns.keys():
            for turn in self.turns[name]:
                self._pin(turn, f"the values of {name} are also used elsewhere")
        uses = Counter(name for heads in self.heads for name in heads.names)
        self.heads = [
            heads
            for heads in self.heads
            if all(uses[name] == 1 and name not in self._used_still for name in heads.names)
            and self._uses[heads.output] == 1
        ]

    def forget(self) -> None:
        """Let go of the tensors of the pass; numbers and names stay."""
        self.example = None
        self._alive.clear()
        for held in (self._channels, self._names):
            held.clear()
        for known in (self._zeros, self._known):
            known.clear()

    def _pin(self, turn: Turn, reason: str) -> None:
        for channels in (turn.channels, *(channels for channels, _ in turn.factors)):
            self.ties.pin(channels, reason)
