"""Moved weights against those that the formulas give, and outputs against those of the published
networks.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.catalog.cifar_convnets import BasicBlock, MyrtleCNN
from sigmascope.symmetry import check_equivalence, move, spaces
from sigmascope.symmetry.monomial import Monomial
from tests.symmetry.lively import changed

GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "symmetry_move.npz"))


def golden(key: str) -> Tensor:
    return torch.from_numpy(GOLDEN[key])


class Gaussian(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x**2


class ProjectedBlock(nn.Module):
    """A residual block whose shortcut is a convolution with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.shortcut = nn.Sequential(nn.Conv2d(4, 8, 1, 2, bias=False), nn.BatchNorm2d(8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return F.relu(y)


def filled(model: nn.Module, prefix: str) -> nn.Module:
    state = {key.removeprefix(prefix): golden(key) for key in GOLDEN if key.startswith(prefix)}
    extra = {"x", "y", "logits"}
    missing = model.load_state_dict(
        {key: value for key, value in state.items() if key not in extra}, strict=False
    )
    assert not missing.unexpected_keys
    assert all(key.endswith("num_batches_tracked") for key in missing.missing_keys)
    return model.eval().double()


def perceptron(name: str, sigma: nn.Module) -> nn.Sequential:
    layers: list[nn.Module] = []
    for number in (1, 2, 3):
        weight = golden(f"mlp_{name}__W{number}")
        layer = nn.Linear(*reversed(weight.shape)).double()
        layer.load_state_dict({"weight": weight, "bias": golden(f"mlp_{name}__b{number}")})
        layers += [layer, sigma]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize(
    ("name", "sigma"), [("relu", nn.ReLU()), ("gaussian_rbf", Gaussian()), ("poly2", Square())]
)
def test_perceptrons(name: str, sigma: nn.Module) -> None:
    model = perceptron(name, sigma)
    x, y = golden(f"mlp_{name}__x").T, golden(f"mlp_{name}__y").T
    moved = move(model, {"0": golden(f"mlp_{name}__A1"), "2": golden(f"mlp_{name}__A2")})
    for number in (1, 2, 3):
        layer: Any = moved[2 * (number - 1)]
        torch.testing.assert_close(
            layer.weight, golden(f"mlp_{name}__W{number}_new"), atol=1e-9, rtol=0
        )
        torch.testing.assert_close(
            layer.bias, golden(f"mlp_{name}__b{number}_new"), atol=1e-9, rtol=0
        )
    scale = float(y.abs().max())
    for one in (model, moved, move(model, generator=3)):
        torch.testing.assert_close(one(x), y, rtol=0, atol=1e-9 * max(scale, 1))


def test_batch_norm_perceptron() -> None:
    """Formula E.45: elements in front of each batch norm and scales behind it; with eps = 0 both
    are exact.
    """
    layers: list[nn.Module] = []
    for number in (1, 2):
        weight = golden(f"bnmlp__W{number}")
        norm = nn.BatchNorm1d(len(weight), eps=0.0).double()
        norm.load_state_dict(
            {
                "weight": golden(f"bnmlp__gamma{number}"),
                "bias": golden(f"bnmlp__beta{number}"),
                "running_mean": golden(f"bnmlp__mean{number}"),
                "running_var": golden(f"bnmlp__var{number}"),
            },
            strict=False,
        )
        linear = nn.Linear(*reversed(weight.shape), bias=False).double()
        linear.load_state_dict({"weight": weight})
        layers += [linear, norm, nn.ReLU()]
    last = nn.Linear(5, 3).double()
    last.load_state_dict({"weight": golden("bnmlp__W3"), "bias": golden("bnmlp__bk")})
    model = nn.Sequential(*layers, last).eval()
    elements = {}
    for number in (1, 2):
        A = golden(f"bnmlp__A{number}")
        elements[f"{3 * number - 3}"] = A
        elements[f"{3 * number - 2}"] = (A > 0).double() @ torch.diag(golden(f"bnmlp__c{number}"))
    moved: Any = move(model, elements)
    for number in (1, 2):
        norm_new: Any = moved[3 * number - 2]
        torch.testing.assert_close(
            moved[3 * number - 3].weight, golden(f"bnmlp__W{number}_new"), atol=1e-9, rtol=0
        )
        torch.testing.assert_close(
            norm_new.weight, golden(f"bnmlp__gamma{number}_new"), atol=1e-9, rtol=0
        )
        torch.testing.assert_close(
            norm_new.bias, golden(f"bnmlp__beta{number}_new"), atol=1e-9, rtol=0
        )
        torch.testing.assert_close(
            norm_new.running_mean, golden(f"bnmlp__mean{number}_new"), atol=1e-9, rtol=0
        )
        torch.testing.assert_close(
            norm_new.running_var, golden(f"bnmlp__var{number}_new"), atol=1e-9, rtol=0
        )
    torch.testing.assert_close(moved[6].weight, golden("bnmlp__W3_new"), atol=1e-9, rtol=0)
    for one in (model, moved):
        torch.testing.assert_close(
            one(golden("bnmlp__x").T), golden("bnmlp__y").T, atol=1e-9, rtol=0
        )


class Headed(nn.Module):
    """A block between a convolution and a linear layer: its input and its output may move."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.stem, self.block, self.head = nn.Conv2d(4, 4, 1), block, nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(torch.relu(self.stem(x))).mean((2, 3)))


@pytest.mark.parametrize("option", ["A", "B"])
def test_residual_blocks(option: str) -> None:
    block = (
        BasicBlock(4, 8, 2, residual=True, activation=nn.ReLU, stream=nn.ReLU)
        if option == "A"
        else ProjectedBlock()
    )
    block = filled(block, f"block{option}__")
    x, y = golden(f"block{option}__x"), golden(f"block{option}__y")
    torch.testing.assert_close(block(x.double()).float(), y, atol=1e-5, rtol=0)
    model = Headed(block).double().eval()
    moved: Any = move(model, generator=1, example_input=x.double())
    assert check_equivalence(model, moved, x.double()).relative_error < 1e-12
    assert changed(model, moved) == {name for name, _ in model.named_parameters()} - {"head.bias"}
    listed = {space.name: space for space in spaces(model, x.double())}
    if option == "A":  # the zeros are put around the four channels of the shortcut, at 2 … 5
        assert {space.name for space in listed.values() if "bn2" in space.name} == {
            "block.bn2[0:2,6:8]"
        }
        assert "block.bn2[2:6]" in listed["stem"].joined
    else:
        assert listed["block.bn2"].joined == ("block.shortcut.1",)
    # What the block puts out moves by one element: R on the middle, or free.
    element = Monomial([1, 0, 3, 2, 5, 4, 7, 6], [2.0, 3, 1.5, 0.5, 2, 7, 0.25, 4])
    by_hand: Any = move(model, {"block": element}, example_input=x.double())
    inside = torch.relu(model.stem(x.double()))
    new = by_hand.block(torch.relu(by_hand.stem(x.double())))
    torch.testing.assert_close(new, element.apply(model.block(inside), 1), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", ["a", "b"])
def test_myrtle(name: str) -> None:
    model = filled(MyrtleCNN(widths=(2, 4, 8, 16)), f"mcnn_{name}__")
    x, logits = golden("mcnn__x").double(), golden(f"mcnn_{name}__logits")
    for one in (model, move(model, generator=5), move(model, generator=5, exact_eval=True)):
        torch.testing.assert_close(one(x).float(), logits, atol=1e-5, rtol=0)
        assert check_equivalence(model, one, x).relative_error < 1e-12
