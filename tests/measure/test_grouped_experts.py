"""Experts that are computed in one product are one site, and the coverage says so."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sigmascope as sg

EXPERTS, D, H = 3, 4, 6


class Experts(nn.Module):
    def __init__(self, *, grouped: bool, inside: bool) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(EXPERTS, D, H))
        self.down = nn.Parameter(torch.randn(EXPERTS, H, D))
        self.act = nn.GELU() if inside else F.gelu
        self.grouped = grouped

    def forward(self, x: Tensor) -> Tensor:
        if self.grouped:
            return torch.bmm(self.act(torch.bmm(x.expand(EXPERTS, -1, -1), self.up)), self.down)
        found = [self.act(x @ self.up[one]) @ self.down[one] for one in range(EXPERTS)]
        return torch.stack(found)


class Network(nn.Module):
    def __init__(self, layers: int, *, grouped: bool, inside: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Experts(grouped=grouped, inside=inside) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).mean(dim=0)
        return x


def notes(network: nn.Module) -> list[str]:
    found = sg.signature(network, torch.randn(40, D), samples="tokens", progress=False)
    return [note for note in found.coverage.notes if "experts" in note]


@pytest.mark.parametrize("inside", [False, True])
def test_experts_in_one_product(inside: bool) -> None:
    (note,) = notes(Network(1, grouped=True, inside=inside))
    assert note.startswith("the 3 experts of layers.0 are computed in one product, so that their")
    assert "one site; to score each of them" in note


def test_one_note_for_all_layers() -> None:
    (note,) = notes(Network(3, grouped=True))
    assert "one site, and so 2 more; to score" in note


def test_experts_one_after_the_other_need_no_note() -> None:
    assert notes(Network(2, grouped=False)) == []


def test_one_tensor_of_three_axes_is_no_expert() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.randn(2, 1, D))
            self.layer = nn.Linear(D, D)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.layer(x + self.positions[0]))

    assert notes(Positions()) == []
