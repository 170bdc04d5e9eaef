"""Procrustes linearity of a block: closed forms, and values of its authors' own package."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.measure.block_result import Block

CORNERS = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 3)
"""All 8 corners of a cube: channels and their products are orthogonal over them."""
# Values of `procrustes_similarity` of llm-microscope 0.0.7, the package of the authors of
# arXiv:2405.12250, for the rows that `drawn` makes, by seed.
PUBLISHED = {0: 0.9324098969016106, 1: 0.978174132774104}


class Function(nn.Module):
    """A block that is any function of its tokens."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class OneBlock(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([block])

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers[0](x)
        return found


def measured(tokens: Tensor, function: Callable[[Tensor], Tensor]) -> Block:
    """The measures of a block on tokens (n, d), which are those of four sequences each."""
    model, data = OneBlock(Function(function)), tokens.expand(4, -1, -1)
    return sg.blocks(model, data, blocks="layers.*", progress=False)["layers.0"]


def products(x: Tensor) -> Tensor:
    """The products of two channels, which no linear map of these explains."""
    return torch.stack([x[..., 0] * x[..., 1], x[..., 1] * x[..., 2], x[..., 0] * x[..., 2]], -1)


def drawn(seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    x, weight = rng.standard_normal((200, 6)) + 2, rng.standard_normal((6, 6))
    return torch.tensor(x), torch.tensor(np.maximum(x @ weight, 0) + x)


@pytest.mark.parametrize("scale", [0.25, 1.0, 3.0])
def test_a_stream_to_which_products_are_added(scale: float) -> None:
    """Linear and other parts are orthogonal, so that their sums of squares are the shares."""
    found = measured(CORNERS, lambda x: x + scale * products(x))
    assert float(found.procrustes) == pytest.approx(1 / (1 + scale**2), abs=1e-12)
    assert float(found.procrustes_increment) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_an_increment_with_a_linear_part(scale: float) -> None:
    found = measured(CORNERS, lambda x: 3 * x + scale * products(x))
    assert float(found.procrustes) == pytest.approx(9 / (9 + scale**2), abs=1e-12)
    assert float(found.procrustes_increment) == pytest.approx(4 / (4 + scale**2), abs=1e-12)


def test_neither_units_nor_offsets_matter() -> None:
    plain = measured(CORNERS, lambda x: x + products(x))
    moved = measured(100 * CORNERS + 7, lambda x: ((x - 7) / 100 + products((x - 7) / 100)) / 3 - 5)
    assert float(moved.procrustes) == pytest.approx(float(plain.procrustes), abs=1e-9)


def test_it_is_no_orthogonal_procrustes() -> None:
    """The map is any matrix: a stretched stream is linear, which no rotation makes of x."""
    stretch = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    found = measured(CORNERS, lambda x: x * stretch)
    assert float(found.procrustes) == pytest.approx(1, abs=1e-12)
    x, y = CORNERS, CORNERS * stretch
    rotated = torch.linalg.svdvals((x / x.norm()).T @ (y / y.norm())).sum() ** 2
    assert float(rotated) < 0.5


@pytest.mark.parametrize("seed", sorted(PUBLISHED))
def test_the_package_of_its_authors_agrees(seed: int) -> None:
    x, y = drawn(seed)
    found = measured(x, lambda _: y.expand(4, -1, -1))
    assert float(found.procrustes) == pytest.approx(PUBLISHED[seed], abs=1e-9)
