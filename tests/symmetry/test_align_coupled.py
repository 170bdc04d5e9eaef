"""Aligning where several scales multiply the same weights: depthwise filters, gains, copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from sigmascope.symmetry import align, check_equivalence, move
from sigmascope.symmetry.aligning.blocks import Cell, Slot, Use
from sigmascope.symmetry.aligning.pairs import Products, solve
from tests.symmetry.lively import lively

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "square": torch.square,
    "none": lambda x: x,
}


class Filters(nn.Module):
    """Depthwise filters one after the other; `copies` channels are made of each at the first."""

    def __init__(self, activation: str, *, depth: int = 1, copies: int = 1) -> None:
        super().__init__()
        self.activation, wide = ACTIVATIONS[activation], 6 * copies
        self.enter = nn.Conv1d(3, 6, 1)
        first = nn.Conv1d(6, wide, 3, groups=6)
        rest = [nn.Conv1d(wide, wide, 3, groups=wide, padding=1) for _ in range(depth - 1)]
        self.filters = nn.ModuleList([first, *rest])
        self.leave = nn.Conv1d(wide, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.enter(x))
        for one in self.filters:
            x = self.activation(one(x))
        out: Tensor = self.leave(x).mean(dim=2)
        return out


class Gained(nn.Module):
    """Blocks that add to a stream without a norm, each times a gain of every channel."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(3, 6), nn.Linear(6, 2)
        self.up = nn.ModuleList(nn.Linear(6, 5) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(5, 6) for _ in range(depth))
        self.gains = nn.ParameterList(torch.randn(6) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for up, down, gain in zip(self.up, self.down, self.gains, strict=True):
            x = x + down(torch.tanh(up(x))) * gain
        out: Tensor = self.leave(x)
        return out


NETWORKS = {
    "signs": (lambda: Filters("tanh"), (3, 8)),
    "several signs": (lambda: Filters("tanh", depth=4), (3, 8)),
    "sizes": (lambda: Filters("relu", depth=3), (3, 8)),
    "squares": (lambda: Filters("square"), (3, 8)),
    "sizes and signs": (lambda: Filters("none", depth=2), (3, 8)),
    "copies with signs": (lambda: Filters("tanh", copies=2), (3, 8)),
    "copies with sizes": (lambda: Filters("relu", copies=3, depth=2), (3, 8)),
    "gains": (Gained, (3,)),
}


def made(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    build, shape = NETWORKS[name]
    source = torch.Generator().manual_seed(7)
    return lively(build(), seed), torch.randn(16, *shape, generator=source, dtype=torch.float64)


def distance(a: nn.Module, b: nn.Module) -> float:
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return sum(float((one - other).detach().square().sum()) for one, other in pairs)


@pytest.mark.parametrize("by", ["weights", "activations"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_planted_element_is_found_again(name: str, by: str) -> None:
    network, x = made(name)
    for seed in range(2):
        moved = move(network, seed, example_input=x)
        assert distance(network, moved) > 1
        aligned = align(network, moved, x, by=by, example_input=x).apply(moved)
        assert distance(network, aligned) < 1e-18


@pytest.mark.parametrize("name", NETWORKS)
def test_the_objective_is_the_distance_and_never_rises(name: str) -> None:
    (a, x), (b, _) = made(name), made(name, 1)
    found = align(a, b, example_input=x)
    assert all(after <= before for before, after in itertools.pairwise(found.objective))
    assert found.objective[-1] < found.before
    aligned = found.apply(b)
    assert distance(a, aligned) == pytest.approx(found.objective[-1], rel=1e-9)
    assert check_equivalence(b, aligned, x).holds


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("shape", [(6,), (5, 4)])
def test_signs_equal_brute_force_over_all(
    shape: tuple[int, ...], magnitude: bool, seed: int
) -> None:
    """A chain of four scales and one that meets the first three; each alone too."""
    source = torch.Generator().manual_seed(seed)
    meetings = [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (2, 3), (4, 0), (4, 1), (4, 2)]
    products = [
        Products(
            tuple(Use(slot, 1 - 2 * place, True) for place, slot in enumerate(slots)),
            torch.randn(shape, generator=source).double(),
            torch.rand(shape[-1], generator=source).double() + 0.5,
            torch.rand(shape, generator=source).double() + 0.5,
        )
        for slots in meetings
    ]
    numbers = torch.arange(shape[-1]).numpy()
    free = tuple(Slot(numbers, magnitude, True) for _ in range(5))
    found = solve(products, Cell(numbers, True, free, (), ()))
    least = torch.full(shape, torch.inf).double()
    for signs in itertools.product((1.0, -1.0), repeat=5):
        cost = torch.zeros(shape).double()
        for slots, one in zip(meetings, products, strict=True):
            sign = torch.tensor([signs[slot] for slot in slots]).prod()
            cost += one.own - 2 * sign * one.inner
        least = torch.minimum(least, cost)
    if magnitude:
        assert bool((found.cost <= least + 1e-12).all())
    else:
        assert torch.allclose(found.cost, least, rtol=1e-12)
