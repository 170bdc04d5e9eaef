"""Penalties on networks that run in unusual ways: by parts, without samples, at other sizes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import sigmascope as sg


class Encoder(nn.Module):
    """A network whose first part is called by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)

    def encode(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.act(self.first(x))
        return hidden

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.encode(x))
        return out


class Windows(nn.Module):
    """Folds windows of 4 × 4 pixels into the axis of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.act = nn.Linear(3, 4), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        windows = x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1)
        hidden: Tensor = self.act(self.layer(windows.reshape(-1, 16, 3)))
        return hidden.reshape(len(x), -1)


def test_parts_of_a_network_run_without_it() -> None:
    torch.manual_seed(0)
    model = Encoder()
    penalty = sg.AffinityPenalty(model)
    for run in (model, model.encode, model.encode):
        with penalty:
            run(torch.randn(64, 4))
        assert penalty.value.requires_grad
        assert list(penalty.scores) == ["act"]


def test_windows_are_scored_at_the_size_of_the_first_pass_only() -> None:
    torch.manual_seed(0)
    model = Windows()
    penalty, scores = sg.AffinityPenalty(model), []
    for height, width in ((8, 8), (16, 8), (4, 12), (8, 8)):
        with penalty:
            model(torch.randn(64, 3, height, width))
        scores.append(penalty.scores)
        assert bool(penalty.skipped) == ((height, width) != (8, 8))
    assert [list(one) for one in scores] == [["act"], [], [], ["act"]]


def test_a_first_context_in_inference_mode() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 40), nn.ReLU())  # its sums run over several batches
    penalty = sg.AffinityPenalty(model)
    with torch.inference_mode(), penalty:
        model(torch.randn(64, 4))
    for _ in range(2):
        with penalty:
            model(torch.randn(64, 4))
    penalty.value.backward()
    assert model[0].weight.grad is not None


def test_an_empty_batch_is_skipped_with_the_reason() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    penalty = sg.AffinityPenalty(model)
    for count in (64, 0):
        with penalty:
            model(torch.randn(count, 3, 8, 8))
    assert penalty.skipped == {"1": "its batch is empty"}
    assert float(penalty.value) == 0
