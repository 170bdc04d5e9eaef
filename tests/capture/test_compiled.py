"""Compiled parts of a network run eagerly while they are watched, and the coverage says so."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.compiled import NOTE, compiled_notes

compiled_relu = torch.compile(torch.relu, backend="eager")


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.function = torch.compile(torch.relu, backend="eager")

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Global(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return compiled_relu(x)


class Method(nn.Module):
    @torch.compile(backend="eager")
    def step(self, x: Tensor) -> Tensor:
        return torch.relu(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.step(x)


def in_place() -> nn.Module:
    model = nn.Sequential(nn.Sequential(nn.ReLU()))
    model[0].compile(backend="eager")
    return model


CASES = {
    "attribute": (Attribute, "Attribute.function"),
    "global": (Global, "Global.compiled_relu"),
    "method": (Method, "Method.step"),
    "in place": (in_place, "0"),
    "part": (lambda: nn.Sequential(torch.compile(nn.ReLU(), backend="eager")), "0"),
    "four": (
        lambda: nn.Sequential(*(Attribute() for _ in range(4))),
        "0.function, 1.function, 2.function, …",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_coverage_names_what_is_compiled(case: str) -> None:
    build, names = CASES[case]
    found = sg.signature(build(), torch.randn(40, 4), progress=False)
    assert found.coverage.notes == (NOTE.format(names),)
    assert found.sites[0].kind == "relu"


def test_nothing_is_said_of_others() -> None:
    assert compiled_notes(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) == []
