"""Layers that only some samples of a batch reach: they are scored on these."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.pooled import PooledCall, capturing
from sigmascope.capture.pooling import Pooling

N, T, D = 12, 5, 4
KEPT = torch.tensor([0, 3, 4, 7, 9, 10])


class Adapters(nn.Module):
    """One adapter for each language; every sample is of one language."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.first = nn.Linear(D, D)
        self.adapters = nn.ModuleList(
            nn.Sequential(nn.Linear(D, 3), nn.Tanh(), nn.Linear(3, D)) for _ in range(2)
        )
        self.how = how

    def forward(self, x: Tensor, language: Tensor) -> Tensor:
        hidden = self.first(x)
        output = torch.zeros_like(hidden)
        for number, adapter in enumerate(self.adapters):
            mask = language == number
            if self.how == "mask":
                output[mask] = adapter(hidden[mask])
            else:
                rows = mask.nonzero()[:, 0]
                chosen = hidden[rows] if self.how == "index" else hidden.index_select(0, rows)
                output.index_copy_(0, rows, adapter(chosen))
        return output + hidden


def batch() -> dict[str, Tensor]:
    torch.manual_seed(1)
    language = torch.ones(N, dtype=torch.long)
    language[KEPT] = 0
    return {"x": torch.randn(N, T, D), "language": language}


def calls_of(network: nn.Module, **masks: Tensor) -> list[PooledCall]:
    given = batch()
    pooling = Pooling("channels", "batch", {}, 0, size=N, masks=masks)
    with torch.no_grad(), capturing(network) as capture:
        return capture.run(lambda: network(**given), list(given.values()), pooling)


@pytest.mark.parametrize("how", ["mask", "index", "select"])
def test_rows_are_the_samples_that_reached_the_layer(how: str) -> None:
    network = Adapters(how).eval()
    first, second = calls_of(network)
    hidden = network.adapters[0][0](network.first(batch()["x"]))
    torch.testing.assert_close(first.x, hidden.mean(dim=1)[KEPT].detach())
    others = [row for row in range(N) if row not in KEPT]
    assert first.index is not None
    assert second.index is not None
    assert (first.index.tolist(), second.index.tolist()) == (KEPT.tolist(), others)
    assert "the samples that were selected" in first.call.axis_reason


def test_padding_is_that_of_the_samples_that_were_selected() -> None:
    network = Adapters("mask").eval()
    mask = torch.arange(T) < 2 + (torch.arange(N)[:, None] % 3)
    pooled = calls_of(network, **{"": mask})[0].x
    hidden = network.adapters[0][0](network.first(batch()["x"])).detach()
    weights = mask[KEPT].float()
    expected = (hidden[KEPT] * weights[:, :, None]).sum(dim=1) / weights.sum(dim=1, keepdim=True)
    torch.testing.assert_close(pooled, expected)


def test_the_audit_agrees() -> None:
    found = sg.audit(Adapters("mask"), batch())
    assert (found.sites, found.skipped, found.findings) == (2, 0, ())


def test_tokens_that_were_selected_are_not_whole_samples() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.act = nn.Linear(D, D), nn.ReLU()

        def forward(self, x: Tensor, language: Tensor) -> Tensor:
            flat = x.flatten(0, 1)
            return self.act(self.layer(flat[flat[:, 0] > 0]))

    (call,) = calls_of(Tokens())
    assert call.x is None
    assert "samples='tokens' scores them row by row" in call.reason
