"""What combines a tensor with itself and is no activation: norms, positions, masks, distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.capture.written import Net, X, sites

CENTERS = torch.randn(16, 16, generator=torch.Generator().manual_seed(1))


def layer_norm(x: Tensor) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)


def layer_norm_twice_centered(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5)


def batch_norm(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x.var(0) + 1e-5).sqrt()


def batch_norm_of_moments(x: Tensor) -> Tensor:
    mean = x.mean(0)
    variance = (x * x).mean(0) - mean * mean
    return (x - mean) / variance.clamp(min=1e-6).sqrt()


def group_norm(x: Tensor) -> Tensor:
    groups = x.view(len(x), 4, 4)
    centered = groups - groups.mean(-1, keepdim=True)
    variance = (centered**2).view(len(x), 4, -1).sum(-1, keepdim=True)
    return (centered / (variance + 1e-5).sqrt()).view_as(x)


def instance_norm(x: Tensor) -> Tensor:
    parts = x.view(64, 4, 4)
    mean, spread = parts.mean(2, keepdim=True), parts.std(2, keepdim=True)
    return ((parts - mean) / (spread + 1e-5)).reshape(64, 16)


def squares_through_a_view(x: Tensor) -> Tensor:
    return x / (x * x).view(len(x), -1).sum(-1, keepdim=True).sqrt()


def squares_through_a_reshape(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).reshape(len(x), 4, 4).mean((1, 2))[:, None] + 1e-6)


def squares_through_a_transpose(x: Tensor) -> Tensor:
    return x / (x * x).t().contiguous().sum(0)[:, None].sqrt()


def squares_through_a_flat_transpose(x: Tensor) -> Tensor:
    return x / (x * x).t().reshape(-1).sum().sqrt()


def squares_through_pieces(x: Tensor) -> Tensor:
    squares = x * x
    first, second = squares[:, :8], squares[:, 8:]
    return x / (first.sum(-1, keepdim=True) + second.sum(-1, keepdim=True)).sqrt()


def squares_in_an_einsum(x: Tensor) -> Tensor:
    return x / torch.einsum("nd->n", x * x)[:, None].sqrt()


def local_response(x: Tensor) -> Tensor:
    squares = F.avg_pool1d((x * x)[:, None], 3, 1, 1)[:, 0]
    return x / (1 + 0.1 * squares) ** 0.75


def squash(x: Tensor) -> Tensor:
    length = (x * x).sum(-1, keepdim=True)
    return length / (1 + length) * x / torch.sqrt(length + 1e-8)


def softmax(x: Tensor) -> Tensor:
    shifted = torch.exp(x - x.max(-1, keepdim=True).values)
    return shifted / shifted.sum(-1, keepdim=True)


def softmax_with_bounds(x: Tensor) -> Tensor:
    positive = (x / 2).clamp(max=50).exp()
    return positive / (positive.sum(-1, keepdim=True) + 1e-6)


def positions(x: Tensor) -> Tensor:
    angles = torch.arange(len(x))[:, None] * torch.exp(torch.arange(8.0) * -0.3)
    return x + torch.cat([angles.sin(), angles.cos()], -1)


def rotary(x: Tensor) -> Tensor:
    angles = torch.arange(len(x)).float()[:, None] * torch.ones(16)
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


def drop_path(x: Tensor) -> Tensor:
    return x * (torch.rand(len(x), 1) > 0.1).float() / 0.9


def dropout(x: Tensor) -> Tensor:
    return torch.where(torch.rand_like(x) > 0.1, x / 0.9, 0.0)


def fixed_mask(x: Tensor) -> Tensor:
    mask = torch.ones(16, dtype=torch.bool)
    mask[3] = False
    return x.masked_fill(~mask, 0.0)


def causal_mask(x: Tensor) -> Tensor:
    return torch.where(torch.tril(torch.ones(64, 16)).bool(), x, -1e4)


def fixed_places(x: Tensor) -> Tensor:
    mask = torch.zeros(64, 16, dtype=torch.bool)
    mask[:, 3] = True
    x[mask] = 0
    return x


def no_zeros(x: Tensor) -> Tensor:
    x[x == 0] = 1e-6
    return x


def attention(x: Tensor) -> Tensor:
    query, key = x[:, :8], x[:, 8:]
    return (query @ key.t() / 8**0.5).softmax(-1) @ x


def distances(x: Tensor) -> Tensor:
    return torch.exp(-(torch.cdist(x, CENTERS) ** 2))


def squared_distances(x: Tensor) -> Tensor:
    return torch.exp(-0.1 * ((x[:, None] - CENTERS) ** 2).sum(-1))


def power_mean(x: Tensor) -> Tensor:
    return x * x.clamp(min=1e-6).pow(3).mean(-1, keepdim=True).pow(1 / 3)


def entropy(x: Tensor) -> Tensor:
    chances = x.softmax(-1)
    return x - (chances * torch.log(chances + 1e-9)).sum(-1, keepdim=True)


def huber_loss(x: Tensor) -> Tensor:
    loss = torch.where(x.abs() < 1, 0.5 * x**2, x.abs() - 0.5).mean()
    return x + 0 * loss


def sampled(x: Tensor) -> Tensor:
    drawn = x[:, :8] + torch.exp(0.5 * x[:, 8:]) * torch.randn(64, 8)
    return torch.cat([drawn, drawn], -1)


def largest_four(x: Tensor) -> Tensor:
    return x.masked_fill(x < x.topk(4, -1).values[:, -1:], 0)


def masked_mean(x: Tensor) -> Tensor:
    mask = (x != 0).float()
    return x - (x * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)


def with_its_transpose(x: Tensor) -> Tensor:
    square = x[:16]
    return torch.cat([square * torch.sigmoid(square.t())] * 4)


def overwritten_through_a_view(x: Tensor) -> Tensor:
    gate, view = torch.sigmoid(x), x.view(64, 16)
    view.mul_(view.roll(1, 0))
    return x * gate


NONE: list[Callable[[Tensor], Tensor]] = [
    layer_norm,
    layer_norm_twice_centered,
    batch_norm,
    batch_norm_of_moments,
    group_norm,
    instance_norm,
    squares_through_a_view,
    squares_through_a_reshape,
    squares_through_a_transpose,
    squares_through_a_flat_transpose,
    squares_through_pieces,
    squares_in_an_einsum,
    local_response,
    squash,
    softmax,
    softmax_with_bounds,
    positions,
    rotary,
    drop_path,
    dropout,
    fixed_mask,
    causal_mask,
    fixed_places,
    no_zeros,
    attention,
    distances,
    squared_distances,
    power_mean,
    entropy,
    huber_loss,
    sampled,
    largest_four,
    masked_mean,
]
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "unit length": lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12),
    "sum of sizes": lambda x: x / x.abs().sum(-1, keepdim=True),
    "largest size": lambda x: x / x.abs().amax(-1, keepdim=True),
    "spread over the batch": lambda x: x / x.var(0, keepdim=True).clamp(min=1e-6).sqrt(),
    "no NaN": lambda x: torch.where(torch.isnan(x), torch.zeros_like(x), x),
    "a residual scale": lambda x: x + 1e-4 * x,
    "logits in bounds": lambda x: x.clamp(-1e4, 1e4),
    "bounds of a type": lambda x: x.clamp(min=torch.finfo(torch.half).min),
    "a loss": lambda x: x + 0 * (x**2).mean(),
    "standardized weights": lambda x: x @ ((CENTERS - CENTERS.mean()) / CENTERS.std()),
    "quantized": lambda x: x + (torch.round(x * 8) / 8 - x).detach(),
    "a mixture": lambda x: x.softmax(-1) * x.roll(1, -1),
}


@pytest.mark.parametrize("between", NONE)
def test_what_looks_like_a_formula(between: Callable[[Tensor], Tensor]) -> None:
    assert sites(Net(between)) == []


@pytest.mark.parametrize("name", OTHERS)
def test_what_else_is_no_formula(name: str) -> None:
    assert sites(Net(OTHERS[name])) == []


NAMED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "a gate of a mean": (lambda x: x * torch.sigmoid(x.mean(-1, keepdim=True)), "sigmoid"),
    "the transpose": (with_its_transpose, "sigmoid"),
    "another tensor by then": (overwritten_through_a_view, "sigmoid"),
    "a soft cap": (lambda x: 30 * torch.tanh(x / 30), "tanh"),
    "a guard": (lambda x: torch.sigmoid(x).clamp(1e-6, 1 - 1e-6), "sigmoid"),
    "a highway": (lambda x: torch.lerp(x, x.roll(1, 0), torch.sigmoid(x.roll(2, 0))), "sigmoid"),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_name_alone_where_no_formula_is(name: str) -> None:
    between, kind = NAMED[name]
    assert [(site.kind, site.formula) for site in sites(Net(between))] == [(kind, "")]


def test_positions_that_are_an_input() -> None:
    class Rotated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
            self.register_buffer("rates", torch.rand(1, 16))

        def forward(self, x: Tensor) -> Any:
            places = (x[:, :1] * 10).long()
            angles = places.float() @ self.rates
            y = self.first(x)
            return self.last(F.relu(y * angles.cos() + y.roll(1, -1) * angles.sin()))

    assert [site.kind for site in sites(Rotated(), X)] == ["relu"]
