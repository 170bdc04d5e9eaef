"""Which rows are samples: views, flattened tokens, decoders, experts, weights; each against
matrices made by hand.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by_hand(x: Tensor) -> float:
    with torch.no_grad():
        return float(sg.affinity(x, F.relu(x)))


def mean_by_hand(x: Tensor) -> float:
    """The score of averages over axis 1."""
    with torch.no_grad():
        return float(sg.affinity(x.mean(1), F.relu(x).mean(1)))


@pytest.fixture
def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU())


def test_two_views_of_a_sample_are_averaged_with_each_other(perceptron: nn.Sequential) -> None:
    first, second = normal(64, 6), normal(64, 6, seed=1) + 3
    found = sg.signature(
        perceptron, [(first, second)], forward=lambda model, views: model(torch.cat(views))
    )
    hidden = torch.stack([perceptron[0](first), perceptron[0](second)], dim=1)
    assert found.scores == pytest.approx([mean_by_hand(hidden)], abs=1e-6)
    consecutive = perceptron[0](torch.cat([first, second])).reshape(64, 2, 8)
    assert abs(found.scores[0] - mean_by_hand(consecutive)) > 1e-3


class FlatTokens(nn.Module):
    """Tokens flattened into rows, as mixtures of experts have them."""

    def __init__(self, *, shuffled: bool = False) -> None:
        super().__init__()
        self.linear, self.shuffled = nn.Linear(8, 16), shuffled

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        rows = self.linear(F.one_hot(input_ids, 8).float().view(-1, 8))
        if self.shuffled:
            rows = rows[torch.argsort(input_ids.view(-1))]
        return F.relu(rows)


IDS = torch.randint(0, 8, (16, 10), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(10) < 4).long().repeat(16, 1)


@pytest.mark.parametrize("samples", ["tokens", "batch"])
def test_flattened_tokens(samples: str) -> None:
    torch.manual_seed(0)
    model = FlatTokens()
    found = sg.signature(model, [{"input_ids": IDS, "attention_mask": MASK}], samples=samples)
    hidden = model.linear(F.one_hot(IDS, 8).float())[:, :4]
    expected = by_hand(hidden.reshape(-1, 16)) if samples == "tokens" else mean_by_hand(hidden)
    assert found.sites[0].n == (64 if samples == "tokens" else 16)
    assert found.scores == pytest.approx([expected], abs=1e-6)


def test_rows_in_another_order_are_not_averaged() -> None:
    torch.manual_seed(0)
    model = FlatTokens(shuffled=True)
    batch = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    found = sg.signature(model, [batch])
    assert found.sites[0].reason.startswith(
        "which sample each row of [160, 16] belongs to is not known"
    )
    rows = sg.signature(model, [batch], samples="tokens")
    assert rows.sites[0].n == 160
    assert rows.scores == pytest.approx(
        [by_hand(model.linear(F.one_hot(IDS, 8).float()).view(-1, 16))], abs=1e-6
    )


class Gated(nn.Module):
    """A gate computed from the weights alone."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.out, self.gate = (
            nn.Linear(8, 16),
            nn.Linear(16, 24),
            nn.Parameter(normal(24, 16)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.relu(self.linear(x)), self.out.weight * torch.sigmoid(2 * self.gate))


@pytest.mark.parametrize("size", [24, 12, 25])
def test_what_depends_on_the_weights_alone_is_no_site_whatever_its_size(size: int) -> None:
    found = sg.signature(Gated(), normal(size, 8))
    assert [site.kind for site in found.sites] == ["relu"]
    assert [(one.kind, one.reason) for one in found.coverage.skipped] == [
        ("sigmoid", "computed from the weights alone, it does not depend on the samples")
    ]


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 9)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.linear(x.transpose(0, 1)))


@pytest.mark.parametrize("length", [10, 12, 20])
def test_time_first_inside(length: int) -> None:
    torch.manual_seed(0)
    model, x = TimeFirst(), normal(10, length, 5) + normal(10, 1, 5, seed=1)
    assert sg.signature(model, x).scores == pytest.approx([mean_by_hand(model.linear(x))], abs=1e-6)


class EncoderDecoder(nn.Module):
    """Two perceptrons on two sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Embedding(9, 6), nn.ReLU())
        self.decoder = nn.Sequential(nn.Embedding(9, 6), nn.ReLU())

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor, **masks: Any) -> Tensor:
        return self.decoder(decoder_input_ids) + self.encoder(input_ids).mean()


@pytest.mark.parametrize("given", [True, False])
def test_encoder_and_decoder_have_masks_of_their_own(given: bool) -> None:
    torch.manual_seed(0)
    model, ids = (
        EncoderDecoder(),
        torch.randint(0, 9, (12, 10), generator=torch.Generator().manual_seed(0)),
    )
    masks = {"attention_mask": (torch.arange(10) < 7).long().repeat(12, 1)}
    if given:
        masks["decoder_attention_mask"] = (torch.arange(10) < 5).long().repeat(12, 1)
    found = sg.signature(
        model, [{"input_ids": ids, "decoder_input_ids": ids, **masks}], samples="tokens"
    )
    assert {site.path: site.n for site in found.sites} == {
        "encoder.1": 84,
        "decoder.1": 60 if given else 120,
    }


@dataclass
class Thing:
    """A batch of a form that nobody knows."""

    x: Tensor


@pytest.mark.parametrize("item", [Thing(normal(64, 6)), "a word", 5, None])
def test_batches_of_any_form_with_a_forward_of_the_user(
    perceptron: nn.Sequential, item: object
) -> None:
    found = sg.signature(perceptron, [item], forward=lambda model, batch: model(normal(64, 6)))
    assert found.samples == 64
    assert found.scores == pytest.approx([by_hand(perceptron[0](normal(64, 6)))], abs=1e-6)


class Vectorized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(5, 6), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.vmap(self.block, in_dims=1, out_dims=1)(x)


@pytest.mark.parametrize("metrics", [(), "all"])
def test_a_transformed_layer_has_a_reason(metrics: Any, tmp_path: Any) -> None:
    found = sg.signature(Vectorized(), normal(32, 3, 5), metrics=metrics, keep=tmp_path)
    assert found.sites[0].reason.startswith("inside a transformation of torch.func")


class Remembering(nn.Module):
    """A network that asks for gradients itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            return F.relu(self.linear(x))


def test_nothing_of_a_graph_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []
    module = importlib.import_module("sigmascope.measure.running")

    def looking(observed: list[Any], options: Any, **more: Any) -> Any:
        kept.extend(one.x.requires_grad or one.y.requires_grad for one in observed)
        return original(observed, options, **more)

    original = module.read
    monkeypatch.setattr(module, "read", looking)
    sg.signature(Remembering(), normal(16, 4))
    assert kept == [False]


class Written(nn.Module):
    """Samples written into a tensor that was made beforehand."""

    def __init__(self, *, every: bool) -> None:
        super().__init__()
        self.linear, self.every = nn.Linear(5, 6), every

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.zeros(len(x), 4, 5)
        if self.every:
            rows[:, 0] = x
        else:
            rows[torch.arange(len(x)).flip(0), 0] = x
        return F.relu(self.linear(rows))


def test_samples_written_into_a_tensor_stay_samples_where_all_are_written_in_order() -> None:
    torch.manual_seed(0)
    x, model = normal(16, 5), Written(every=True)
    rows = torch.zeros(16, 4, 5)
    rows[:, 0] = x
    assert sg.signature(model, x).scores == pytest.approx(
        [mean_by_hand(model.linear(rows))], abs=1e-6
    )
    assert (
        sg.signature(Written(every=False), x)
        .sites[0]
        .reason.startswith("which sample each row of [16, 4, 6] belongs to is not known")
    )
