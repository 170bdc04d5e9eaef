"""What goes past a site, and what the data may be labeled with."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.stitching import Task
from tests.stitching.small import stitch_many


class Sized(nn.Module):
    """Reads a size before the site and uses it behind."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        count = x.size(0)
        return self.last(self.act(self.first(x.reshape(count, -1))).reshape(count, 8))


class Halved(nn.Module):
    """Takes a tuple of tensors past the site."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.middle, self.last = (
            nn.Linear(12, 16),
            nn.ReLU(),
            nn.Linear(8, 8),
            nn.Linear(8, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.first(x.flatten(1)).chunk(2, 1)
        return self.last(two + self.act(self.middle(one)))


def samples(classes: int = 3) -> tuple[Tensor, Tensor]:
    return torch.randn(40, 3, 2, 2, generator=torch.Generator().manual_seed(0)), torch.arange(
        40
    ) % classes


@pytest.mark.parametrize("kind", [Sized, Halved])
def test_sizes_and_tuples_go_past_a_site(kind: type[nn.Module]) -> None:
    network, data = kind(), (samples(), samples())
    tasks = [Task(family, {"epochs": 1}) for family in ("identity", "full", "relu-group")]
    found = stitch_many(network, network, tasks, at="act", data=data, preset="fast", progress=False)
    assert found[0].penalty == 0
    assert [one.best_epoch for one in found] == [0, 1, 1]


def test_labels_are_those_of_the_networks() -> None:
    with pytest.raises(
        sg.InputError,
        match="labels range from 0 to 4, but the network has 3 output classes, 0 to 2",
    ):
        sg.stitch(Sized(), Sized(), at="act", data=(samples(), samples(5)), family="identity")
    inputs, labels = samples()
    with pytest.raises(sg.InputError, match="labels range from -1 to 1"):
        sg.stitch(
            Sized(),
            Sized(),
            at="act",
            data=((inputs, labels - 1), (inputs, labels)),
            family="identity",
        )
    with pytest.raises(sg.InputError, match="the front has 3 output classes and the back 5"):
        sg.stitch(Sized(), Sized(5), at="act", data=(samples(), samples()), family="identity")
