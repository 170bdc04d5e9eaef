"""Steps that are part of a formula that is a site are not named as left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg

FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "a square and its input": lambda x: 0.5 * x**2 + x,
    "a sine squared and its input": lambda x: x + torch.sin(x) ** 2,
}


class Between(nn.Module):
    """A function between two layers, and one after them."""

    def __init__(
        self, function: Callable[[Tensor], Tensor], after: Callable[[Tensor], Tensor] = torch.detach
    ) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.function, self.after = function, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.last(self.function(self.first(x))))


def left_out(network: nn.Module) -> tuple[list[str], list[str]]:
    """Return the kinds of the sites, and the notes on functions that were left out."""
    torch.manual_seed(0)
    found = sg.signature(network, torch.randn(64, 4), progress=False, estimator="published")
    notes = [note for note in found.coverage.notes if "not taken for activations" in note]
    return [site.kind for site in found.sites], notes


@pytest.mark.parametrize("case", FORMULAS)
def test_a_part_of_a_formula_is_not_named(case: str) -> None:
    assert left_out(Between(FORMULAS[case])) == (["elementwise"], [])


def test_what_is_left_out_beside_a_formula_is_named() -> None:
    kinds, notes = left_out(Between(FORMULAS["a square and its input"], lambda x: x**2))
    assert kinds == ["elementwise"]
    (note,) = notes
    assert "activations: x ** 2 in the network;" in note
