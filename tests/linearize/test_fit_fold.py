"""Folding at the end of a fit: no tuning is lost to a network of several inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sigmascope.errors import InputError
from sigmascope.linearize import Split, apply, fit, fold, load, plan, save

OPTIONS: dict[str, Any] = {"budget": 1, "by": "r2", "sites": "relu", "progress": False}


class Two(nn.Module):
    """A network of two inputs, with a wide layer that is merged once nothing follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 64), nn.Linear(64, 4)
        self.act, self.last, self.head = nn.ReLU(), nn.Tanh(), nn.Linear(4, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.head(self.last(self.two(self.act(self.one(left)))) + right)


def network() -> Two:
    torch.manual_seed(0)
    return Two().eval()


def batches(n: int = 2) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(n)
    found = []
    for _ in range(n):
        left, right = torch.randn(2, 16, 4, generator=generator)
        found.append({"left": left, "right": right, "labels": (left + right)[:, :2].argmax(1)})
    return found


def split() -> Split:
    return Split(batches(2), batches(3))


def through(model: nn.Module, batch: dict[str, Tensor]) -> Any:
    return model(batch["left"], right=batch["right"])


def aside(model: nn.Module, batch: dict[str, Tensor]) -> Any:
    return model.forward(batch["left"], batch["right"])  # which no hook sees


@pytest.mark.parametrize("forward", [None, through])
def test_a_network_of_two_inputs_is_folded(forward: Any) -> None:
    found = fit(network(), split(), **OPTIONS, epochs=1, forward=forward)
    assert found.network is not None
    assert found.folding is not None
    batch = batches()[0]
    assert found.folding.before.layers == 3
    assert through(found.network, batch).shape == (16, 2)


def test_one_that_is_kept_in_files_can_be_loaded(tmp_path: Path) -> None:
    found = fit(network(), split(), **OPTIONS, epochs=1, folder=tmp_path)
    again = load(tmp_path, network())
    assert found.network is not None
    for batch in batches():
        assert torch.equal(through(again, batch), through(found.network, batch))


def test_one_that_cannot_be_folded_is_kept_with_the_reason() -> None:
    found = fit(network(), split(), **OPTIONS, epochs=0, forward=aside)
    assert isinstance(found.network, Two)
    assert found.folding is not None
    assert found.folding.steps == ()
    assert "was not called on the example" in found.folding.refused[0]
    assert "not folded: the network" in repr(found)
    assert "folded: 0" not in repr(found)


def test_merges_that_cannot_be_made_again_are_not_saved(tmp_path: Path) -> None:
    original = network()
    found = plan(original, batches(), budget=1, by="r2", sites="relu", scores=False)
    made = apply(original, found)
    folded = fold(made, batches()[0], keep="fewer")
    assert folded.merges
    with pytest.raises(InputError, match=r"could not be folded again .* Leave folded= out"):
        save(made, tmp_path, plan=found, folded=folded)
    assert not any(tmp_path.iterdir())
    save(made, tmp_path, plan=found)
    assert torch.equal(through(load(tmp_path, original), batches()[0]), through(made, batches()[0]))
