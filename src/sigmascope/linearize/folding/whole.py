"""Folding a whole network: at once where `torch.fx` traces it, otherwise part by part."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import plain_path
from sigmascope.capture.walk import modules_of
from sigmascope.errors import NetworkError
from sigmascope.linearize.folding.arguments import TOLERANCE, Arguments, difference_of_outputs
from sigmascope.linearize.folding.choice import Chooser
from sigmascope.linearize.folding.part import Part, fold_part
from sigmascope.linearize.folding.pieces import has_hooks


@dataclass(frozen=True)
class Example:
    """What a network is called with.

    Attributes:
        exact: some samples in float64.
        single: one sample in the dtype of the network.
        batch: the number of samples in `single`, where the network does not take one.
    """

    exact: Arguments
    single: Arguments
    batch: int


def fold_whole(base: nn.Module, example: Example, chooser: Chooser) -> Part:
    """Return a network with its linear layers merged; the network is not changed.

    Raises:
        NetworkError: the network returns something else when it is called again, or no tensor.
    """
    again = difference_of_outputs(base, copy.deepcopy(base).double(), example.exact)
    if again > TOLERANCE:
        raise NetworkError(
            "the network returns something else when it is called again, so that nothing can be "
            "compared. Turn off what is random in evaluation mode."
        )
    return _Parts(base, example, chooser).folded()


class _Parts:
    """Folds a network and, where that fails, what it contains."""

    def __init__(self, base: nn.Module, example: Example, chooser: Chooser) -> None:
        self.base, self.example, self.chooser = base, example, chooser
        self.made = copy.deepcopy(base)
        self.found = Part(exact=copy.deepcopy(base).double())
        self._reasons: list[str] = []
        self._opaque: list[str] = []  # paths of modules in which parts may be folded

    def folded(self) -> Part:
        if not self._attempt("", self.example.exact, self.example.single):
            self._opaque.append("")
        if self._opaque:
            exact = recorded_arguments(copy.deepcopy(self.base).double(), self.example.exact)
            single = recorded_arguments(copy.deepcopy(self.base), self.example.single)
        while self._opaque:
            self._descend(self._opaque.pop(), exact, single)
        self.found.refused += self._reasons
        if self.found.merges:
            self.found.module = self.made
        else:
            self.found.exact = None
        return self.found

    def _descend(
        self, path: str, exact: dict[str, Arguments], single: dict[str, Arguments]
    ) -> None:
        """Fold the parts of a module."""
        for name, child in self.base.get_submodule(path).named_children():
            inner = f"{path}.{name}" if path else name
            if not any(True for _ in child.children()):
                continue
            known = inner in exact and inner in single
            if not known or not self._attempt(inner, exact[inner], single[inner]):
                self._opaque.append(inner)

    def _attempt(self, path: str, exact: Arguments, single: Arguments) -> bool:
        """Fold a part, and return whether that is done with."""
        module = self.base.get_submodule(path)
        where = plain_path(path) or "the network"
        if has_hooks(module) and path:
            self._reasons.append(f"{where}: it has a hook, which a folded part would not call")
            return False
        try:
            part = fold_part(module, exact, single, self.chooser, path=path)
        except NetworkError as error:
            self._reasons.append(f"{where}: {error}")
            return False
        if part.module is not None and not self._placed(path, part):
            self._reasons.append(f"{where}: with merged layers the network does not run the same")
            return False
        self._opaque += part.opaque
        self.found.refused += part.refused
        self.found.steps += part.steps
        self.found.merges += part.merges
        return True

    def _placed(self, path: str, part: Part) -> bool:
        """Put a folded part into the network, and return whether it computes the same."""
        assert self.found.exact is not None
        assert part.module is not None
        assert part.exact is not None
        if not path:
            trial: nn.Module = part.exact
        else:
            trial = copy.deepcopy(self.found.exact)
            substitute(trial, path, part.exact)
        try:
            difference = difference_of_outputs(self.base, trial, self.example.exact)
        except Exception:  # the network may rely on anything that the part has lost
            return False
        if not difference <= TOLERANCE:
            return False
        self.found.exact = trial
        if path:
            substitute(self.made, path, part.module)
        else:
            self.made = part.module
        return True


def substitute(network: nn.Module, path: str, new: nn.Module) -> None:
    """Replace a module of a network everywhere."""
    old = network.get_submodule(path)
    for _, parent in modules_of(network):
        for name, child in [*parent._modules.items()]:
            if child is old:
                parent._modules[name] = new


def recorded_arguments(network: nn.Module, arguments: Arguments) -> dict[str, Arguments]:
    """Return path -> what each module of a network is called with first; the network is a copy."""
    found: dict[str, Arguments] = {}
    for path, module in modules_of(network):

        def keep(_: nn.Module, args: object, kwargs: object, path: str = path) -> None:
            if path not in found:
                found[path] = Arguments(args, kwargs).mapped(Tensor.clone)  # type: ignore[arg-type]

        module.register_forward_pre_hook(keep, with_kwargs=True, prepend=True)
    with torch.no_grad():
        network(*arguments.args, **arguments.kwargs)
    return found
