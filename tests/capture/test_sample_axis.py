"""The axis of the samples: followed from the inputs through everything that moves, joins, repeats
or mixes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.marks import Descent
from sigmascope.capture.observer import Call
from sigmascope.capture.permuting import order_of
from sigmascope.capture.recording import recording
from tests.capture.steps import Steps

# The sequences are as long as there are samples, and so are the channels: sizes tell nothing.
N = T = C = 4
H = 8  # sides of images
Step = Callable[[Tensor], Tensor]


def descent_of(model: nn.Module, *inputs: Tensor, batch_axis: int = 0, size: int = N) -> Descent:
    """What the recorder says of the samples in the input of the last activation."""
    calls: list[Call] = []
    with torch.no_grad(), recording(model, lambda call, _: calls.append(call)) as recorder:
        recorder.stop()
        with recorder.forward_pass(inputs, batch_axis=batch_axis, size=size):
            model(*inputs)
    return calls[-1].descent


def descent(x: Tensor, *steps: Any, batch_axis: int = 0) -> Descent:
    return descent_of(Steps(*steps).eval(), x, batch_axis=batch_axis)


def known(axis: int = 0, outer: int = 1, inner: int = 1) -> Descent:
    return Descent("known", axis, outer, inner)


def ordered() -> Descent:
    return Descent("known", order=order_of(places))


def part(first: int, count: int, axis: int = 0, inner: int = 1) -> Descent:
    return Descent("part", axis, 1, inner, first, count)


def single(number: int) -> Descent:
    return Descent("single", first=number, count=1)


LOST, MERGED, CONSTANT, UNKNOWN = (
    Descent(state) for state in ("lost", "merged", "constant", "unknown")
)
matrix, sequence, image = torch.randn(N, C), torch.randn(N, T, C), torch.randn(N, C, H, H)
steps_first = torch.randn(T, N, C)
places = torch.tensor([2, 0, 3, 1])
weight = nn.Parameter(torch.randn(C, C))


def windows(x: Tensor) -> Tensor:
    """(n, c, h, w) -> (n * 4, tokens, c), as in Swin."""
    n, c, h, w = x.shape
    return (
        x.permute(0, 2, 3, 1)
        .view(n, 2, h // 2, 2, w // 2, c)
        .permute(0, 1, 3, 2, 4, 5)
        .reshape(-1, h * w // 4, c)
    )


def back(x: Tensor) -> Tensor:
    """The inverse of `windows`."""
    return x.view(N, 2, 2, H // 2, H // 2, C).permute(0, 1, 3, 2, 4, 5).reshape(N, H, H, C)


MOVED: dict[str, tuple[Tensor, Step, Descent]] = {
    "nothing": (matrix, lambda x: x, known()),
    "windows": (image, windows, known(inner=4)),
    "windows and back": (image, lambda x: back(windows(x)), known()),
    "windows that are rolled": (
        image,
        lambda x: windows(torch.roll(x, (-1, -1), (2, 3))),
        known(inner=4),
    ),
    "tokens flattened": (sequence, lambda x: x.reshape(-1, C), known(inner=T)),
    "tokens flattened, a layer": (
        sequence,
        lambda x: F.linear(x.flatten(0, 1), weight),
        known(inner=T),
    ),
    "tokens unflattened": (sequence, lambda x: x.flatten(0, 1).view(N, T, C), known()),
    "tokens unflattened otherwise": (sequence, lambda x: x.flatten(0, 1).view(2, 2, T, C), LOST),
    "all flattened": (sequence, lambda x: x.flatten(), known(inner=T * C)),
    "time-major": (sequence, lambda x: x.transpose(0, 1), known(1)),
    "time-major, permuted": (sequence, lambda x: x.permute(1, 0, 2), known(1)),
    "time-major, flattened": (sequence, lambda x: x.transpose(0, 1).reshape(-1, C), known(outer=T)),
    "time-major, unflattened": (
        sequence,
        lambda x: x.transpose(0, 1).reshape(-1, C).view(T, N, C),
        known(1),
    ),
    "time-major and back": (
        sequence,
        lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
        known(),
    ),
    "samples last": (sequence, lambda x: x.permute(2, 1, 0), known(2)),
    "T": (matrix, lambda x: x.T, known(1)),
    "mT": (sequence, lambda x: x.mT, known()),
    "movedim": (sequence, lambda x: x.movedim(0, -1), known(2)),
    "heads": (
        torch.randn(N, T, 8),
        lambda x: x.view(N, T, 4, 2).transpose(1, 2).reshape(N * 4, T, 2),
        known(inner=4),
    ),
    "unsqueeze": (sequence, lambda x: x.unsqueeze(0), known(1)),
    "squeeze": (sequence, lambda x: x[None].squeeze(0), known()),
    "stack": (matrix, lambda x: torch.stack([x, x]), known(1)),
    "stack behind": (matrix, lambda x: torch.stack([x, x], dim=-1), known()),
    "unbind": (sequence, lambda x: x.unbind(1)[0], known()),
    "unbind the samples": (sequence, lambda x: x.unbind(0)[0], single(0)),
    "fold and unfold": (
        image,
        lambda x: F.fold(F.unfold(x, 2, stride=2), (H, H), 2, stride=2),
        known(),
    ),
    "unfold": (image, lambda x: F.unfold(x, 2, stride=2), known()),
    "unfold a tensor": (image, lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2), known()),
    "expand": (sequence, lambda x: x[:, None].expand(N, 3, T, C), known()),
    "expand, then flattened": (
        matrix,
        lambda x: x[:, None].expand(N, 3, C).reshape(-1, C),
        known(inner=3),
    ),
    "expand in front": (matrix, lambda x: x.expand(T, N, C), known(1)),
    "expand in front, then flattened": (
        matrix,
        lambda x: x.expand(T, N, C).reshape(-1, C),
        known(outer=T),
    ),
    "broadcast from lower rank": (matrix, lambda x: x + torch.ones(T, 1, C), known(1)),
    "broadcast to lower rank": (sequence, lambda x: x + torch.ones(C), known()),
    "broadcast a column": (sequence, lambda x: x * x.mean((1, 2), keepdim=True), known()),
    "in place": (sequence, lambda x: x.add(1).mul_(2).sub_(torch.ones(C)), known()),
    "transpose in place": (sequence, lambda x: x.clone().transpose_(0, 1), known(1)),
    "zeros like": (sequence, lambda x: torch.zeros_like(x), known()),
}
JOINED: dict[str, tuple[Tensor, Step, Descent]] = {
    "views": (sequence, lambda x: torch.cat([x, x.flip(1)]), known(outer=2)),
    "views, by name": (sequence, lambda x: torch.concatenate([x, x], axis=0), known(outer=2)),
    "views of views": (matrix, lambda x: torch.cat([torch.cat([x, x]), x]), known(outer=3)),
    "views apart again": (matrix, lambda x: torch.cat([x, 2 * x]).chunk(2)[1], known()),
    "views split again": (matrix, lambda x: torch.cat([x, 2 * x]).split(N)[1], known()),
    "half of the samples": (matrix, lambda x: x.chunk(2)[1], part(2, 2)),
    "uneven pieces": (matrix, lambda x: torch.cat([x, x]).split([N, N])[1], LOST),
    "a slice of the samples": (matrix, lambda x: x[:2], part(0, 2)),
    "channels": (sequence, lambda x: torch.cat([x, x], -1), known()),
    "a class token": (sequence, lambda x: torch.cat([weight[:1].expand(N, 1, C), x], 1), known()),
    "other rows": (matrix, lambda x: torch.cat([x, torch.ones(N, C)]), LOST),
    "chunk of channels": (sequence, lambda x: x.chunk(2, -1)[0], known()),
    "repeat": (sequence, lambda x: x.repeat(3, 1, 1), known(outer=3)),
    "repeat in front": (matrix, lambda x: x.repeat(3, 1, 1), known(1)),
    "repeat channels": (sequence, lambda x: x.repeat(1, 1, 3), known()),
    "tile": (sequence, lambda x: torch.tile(x, (3, 1, 1)), known(outer=3)),
    "tile the last": (sequence, lambda x: x.tile(3), known()),
    "repeat_interleave": (sequence, lambda x: x.repeat_interleave(3, 0), known(inner=3)),
    "repeat_interleave, by name": (
        sequence,
        lambda x: torch.repeat_interleave(x, repeats=3, dim=-3),
        known(inner=3),
    ),
    "repeat_interleave tokens": (sequence, lambda x: x.repeat_interleave(3, dim=1), known()),
    "repeat_interleave unevenly": (
        matrix,
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 1, 0]), 0),
        LOST,
    ),
    "repeat_interleave tokens unevenly": (
        sequence,
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 1, 0]), 1),
        known(),
    ),
    "repeat_interleave of all": (matrix, lambda x: x.repeat_interleave(2), LOST),
    "both": (matrix, lambda x: x.repeat_interleave(3, 0).repeat(2, 1), known(0, 2, 3)),
    "both, unflattened": (
        matrix,
        lambda x: x.repeat_interleave(3, 0).repeat(2, 1).view(2, N, 3, C),
        known(1),
    ),
}
ORDERED: dict[str, tuple[Tensor, Step, Descent]] = {
    "sort by default": (sequence, lambda x: x.sort().values, known()),
    "sort by default, the samples last": (matrix, lambda x: x.T.sort(descending=True).values, LOST),
    "topk by default": (sequence, lambda x: x.topk(2).values, known()),
    "index": (sequence, lambda x: x[places], ordered()),
    "index with one twice": (sequence, lambda x: x[torch.tensor([2, 0, 2, 1])], LOST),
    "index a list": (sequence, lambda x: x[[2, 0, 3, 1]], LOST),
    "index tokens": (sequence, lambda x: x[:, places], known()),
    "index channels": (sequence, lambda x: x[..., places], known()),
    "index behind dots": (sequence, lambda x: x.transpose(0, 1)[..., places, :], LOST),
    "index by pairs": (sequence, lambda x: x[places, places], LOST),
    "boolean mask": (sequence, lambda x: x[torch.tensor([True, True, True, True])], LOST),
    "boolean mask of tokens": (sequence, lambda x: x[:, torch.ones(T, dtype=torch.bool)], known()),
    "boolean mask of both": (sequence, lambda x: x[x[..., 0] > -9], LOST),
    "masked_select": (matrix, lambda x: x.masked_select(x > -9), LOST),
    "nonzero": (matrix, lambda x: x[:, 0].abs().nonzero().float(), LOST),
    "where": (matrix, lambda x: torch.where(x[:, 0] < 9)[0].float(), LOST),
    "unique": (matrix, lambda x: x[:, 0].unique(), LOST),
    "as long as before": (sequence, lambda x: x.roll((1, 1), (1, 2)), known()),
    "roll all": (sequence, lambda x: x.roll(1), LOST),
    "flip several": (sequence, lambda x: x.flip(1, 2), known()),
    "flip several, the samples too": (sequence, lambda x: x.flip(1, 0), LOST),
    "flip a list": (sequence, lambda x: x.flip((1, 2)), known()),
    "take_along_dim of all": (matrix, lambda x: torch.take_along_dim(x, places), LOST),
    "fewer": (sequence, lambda x: x[:, :2], known()),
    "lost stays lost": (sequence, lambda x: (2 * x[[2, 0, 3, 1]]).reshape(-1, C), LOST),
    "found again by a sum": (sequence, lambda x: x + x[places], known()),
}
by: dict[str, Callable[[Tensor, int], Tensor]] = {
    "index_select": lambda x, dim: x.index_select(dim, places),
    "gather": lambda x, dim: x.gather(dim, places.view(-1, *[1] * (2 - dim)).expand(N, T, C)),
    "scatter": lambda x, dim: x.scatter(dim, places.view(-1, *[1] * (2 - dim)).expand(N, T, C), x),
    "take_along_dim": lambda x, dim: x.take_along_dim(
        places.view(-1, *[1] * (2 - dim)).expand(N, T, C), dim
    ),
    "sort": lambda x, dim: x.sort(dim).values,
    "argsort": lambda x, dim: x.argsort(dim).float(),
    "topk": lambda x, dim: x.topk(N, dim).values,
    "roll": lambda x, dim: x.roll(1, dim),
    "flip": lambda x, dim: x.flip(dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: x.cumprod(dim=dim),
}
for mixing, dim in itertools.product(by, (0, 1, 2)):
    ORDERED[f"{mixing} {dim}"] = (
        sequence,
        lambda x, name=mixing, dim=dim: by[name](x, dim),
        known() if dim else ordered() if mixing == "index_select" else LOST,
    )
MERGING: dict[str, tuple[Tensor, Step, Descent]] = {
    "one sample": (sequence, lambda x: x[0], single(0)),
    "one sample, select": (sequence, lambda x: x.select(0, 1), single(1)),
    "one token": (sequence, lambda x: x[:, 0], known()),
    "one step": (sequence, lambda x: x.transpose(0, 1)[0], known()),
    "one number": (matrix, lambda x: x[:, 0][0], single(0)),
    "mean": (matrix, lambda x: x.mean(0), MERGED),
    "mean, kept": (matrix, lambda x: x.mean(0, keepdim=True), MERGED),
    "mean of all": (matrix, lambda x: x.mean(), MERGED),
    "mean of tokens": (sequence, lambda x: x.mean(1), known()),
    "mean of tokens, time-major": (sequence, lambda x: x.transpose(0, 1).mean(0), known()),
    "max": (sequence, lambda x: x.max(0).values, MERGED),
    "max of tokens": (sequence, lambda x: x.max(dim=1)[0], known()),
    "the larger": (sequence, lambda x: torch.max(x, 2 * x), known()),
    "std": (sequence, lambda x: x.std(1, False), known()),
    "std, kept": (sequence, lambda x: x.std(1, True, True), known()),
    "std of the samples": (matrix, lambda x: x.std(0, False), MERGED),
    "std of all": (matrix, lambda x: x.std(False), MERGED),
    "norm": (sequence, lambda x: x.norm(2, 1), known()),
    "norm of the samples": (sequence, lambda x: x.norm(1, 0), MERGED),
    "argmax": (sequence, lambda x: x.argmax(1).float(), known()),
    "argmax of the samples": (sequence, lambda x: x.argmax(0).float(), MERGED),
    "merged stays merged": (
        matrix,
        lambda x: F.linear(x.mean(0, keepdim=True), weight).expand(N, C),
        MERGED,
    ),
    "centered": (matrix, lambda x: x - x.mean(0), known()),
    "summed in a product": (matrix, lambda x: x.T @ x, LOST),
}
COMPUTED: dict[str, tuple[Tensor, Step, Descent]] = {
    "linear": (sequence, nn.Linear(C, C), known()),
    "conv": (image, nn.Conv2d(C, 6, 3, stride=2), known()),
    "conv transposed": (image, nn.ConvTranspose2d(C, 6, 2), known()),
    "conv1d": (sequence, nn.Conv1d(C, C, 3, padding=1), known()),
    "batch norm": (image, nn.BatchNorm2d(C), known()),
    "group norm": (image, nn.GroupNorm(2, C), known()),
    "layer norm": (sequence, nn.LayerNorm(C), known()),
    "layer norm, time-major": (sequence, lambda x: F.layer_norm(x.transpose(0, 1), (C,)), known(1)),
    "pool": (image, nn.AdaptiveAvgPool2d(1), known()),
    "matmul": (sequence, lambda x: torch.matmul(x, weight), known()),
    "matmul, behind": (sequence, lambda x: torch.matmul(weight, x), known()),
    "@": (matrix, lambda x: x @ weight, known()),
    "@, behind": (matrix, lambda x: weight @ x.T, known(1)),
    "@, summed": (matrix, lambda x: weight @ x, LOST),
    "@, a vector": (sequence, lambda x: x @ torch.ones(C), known()),
    "@, a vector, time-major": (steps_first, lambda x: x.transpose(0, 1) @ torch.ones(C), known(1)),
    "@, a vector in front": (sequence, lambda x: torch.ones(T) @ x, known()),
    "@, a vector in front, samples last": (
        sequence,
        lambda x: torch.ones(T) @ x.permute(2, 1, 0),
        known(1),
    ),
    "mm": (matrix, lambda x: torch.mm(x, weight), known()),
    "bmm": (sequence, lambda x: torch.bmm(x, x.mT), known()),
    "bmm, weights in front": (sequence, lambda x: torch.bmm(weight.expand(N, C, C), x), known()),
    "addmm": (matrix, lambda x: torch.addmm(torch.ones(C), x, weight), known()),
    "addmm, behind": (matrix, lambda x: torch.addmm(torch.ones(C), weight, x.T), known(1)),
    "baddbmm": (sequence, lambda x: torch.baddbmm(torch.ones(1), x, x), known()),
    "einsum": (sequence, lambda x: torch.einsum("ntc,cd->ntd", x, weight), known()),
    "einsum, behind": (sequence, lambda x: torch.einsum("cd, ntd -> tnc", weight, x), known(1)),
    "einsum, summed": (sequence, lambda x: torch.einsum("ntc,nd->tdc", x, x[:, 0]), LOST),
    "einsum with dots": (sequence, lambda x: torch.einsum("...c,dc->d...", x, weight), known(1)),
    "einsum with dots of two lengths": (
        sequence,
        lambda x: torch.einsum("...c,...c->...c", weight, x),
        known(),
    ),
    "einsum without an arrow": (sequence, lambda x: torch.einsum("ntc,cd", x, weight), LOST),
    "attention": (sequence, lambda x: torch.softmax(x @ x.mT, -1) @ x, known()),
    "fused attention": (
        sequence[:, None],
        lambda x: F.scaled_dot_product_attention(x, x, x),
        known(),
    ),
    "attention by name": (
        sequence,
        lambda x: F.scaled_dot_product_attention(query=x, key=x, value=x),
        known(),
    ),
    "embedding": (torch.randint(9, (N, T)), nn.Embedding(9, C), known()),
    "embedding, time-major": (
        torch.randint(9, (N, T)),
        lambda x: F.embedding(x.T, weight.repeat(3, 1)),
        known(1),
    ),
    "embedding bag": (torch.randint(9, (N, T)), nn.EmbeddingBag(9, C), known()),
    "a table that is indexed": (torch.randint(C, (N, T)), lambda x: weight[x], known()),
    "a table that is indexed behind": (torch.randint(C, (N,)), lambda x: weight[:, x], known(1)),
    "a table that is selected from": (
        torch.randint(C, (N,)),
        lambda x: weight.index_select(0, x),
        known(),
    ),
    "one token each": (sequence, lambda x: x[torch.arange(N), x[..., 0].argmax(1)], known()),
    "one_hot": (torch.randint(9, (N, T)), lambda x: F.one_hot(x, 9).float(), known()),
    "one_hot by scatter": (
        torch.randint(C, (N, 1)),
        lambda x: torch.zeros(N, C).scatter_(1, x, 1.0),
        known(),
    ),
    "pixel shuffle": (image, nn.PixelShuffle(2), known()),
}
FREE: dict[str, tuple[Tensor, Step, Descent]] = {
    "a parameter": (matrix, lambda x: weight, CONSTANT),
    "of a parameter": (matrix, lambda x: F.linear(weight.T, weight).reshape(2, -1), CONSTANT),
    "made of numbers": (matrix, lambda x: torch.ones(N, C), CONSTANT),
    "made of numbers and weights": (matrix, lambda x: torch.ones(N, C) @ weight, CONSTANT),
    "made of samples and numbers": (matrix, lambda x: torch.ones(N, C) * x, known()),
}
CASES = {**MOVED, **JOINED, **ORDERED, **MERGING, **COMPUTED, **FREE}


@pytest.mark.parametrize(("x", "step", "expected"), CASES.values(), ids=CASES)
def test_descent(x: Tensor, step: Step, expected: Descent) -> None:
    assert descent(x, step) == expected


# Of these the values do not tell: they change little, or with several samples.
VAGUE = ("zeros like", "found again by a sum", *(f"argsort {dim}" for dim in (1, 2)))
EXACT = [
    name
    for name, case in {**MOVED, **JOINED, **ORDERED}.items()
    if case[2].state == "known" and not case[2].order and name not in VAGUE
]


@pytest.mark.parametrize("name", EXACT)
def test_what_is_known_is_true(name: str) -> None:
    """Change one sample: only what is said to be its entries changes."""
    x, step, place = CASES[name]
    for sample in range(N):
        changed = x.clone()
        changed[sample] += 1 + torch.rand_like(changed[sample])
        with torch.no_grad():
            differs = step(changed) != step(x)
        moved = differs.movedim(place.axis, 0).reshape(place.outer, N, place.inner, -1)
        others = [other for other in range(N) if other != sample]
        assert not moved[:, others].any(), "entries of other samples"
        assert moved[:, sample].any(-1).any(), "its own"


class Weights(nn.Module):
    """An activation of weights and one of a buffer."""

    def __init__(self, *, buffered: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(N, C))
        self.register_buffer("fixed", torch.randn(N, C))
        self.buffered = buffered

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(self.fixed, Tensor)
        table = self.fixed.abs() + 1 if self.buffered else self.weight * 2
        return torch.relu(table) * x


@pytest.mark.parametrize("buffered", [False, True])
def test_weights_and_buffers_are_constant(buffered: bool) -> None:
    model = Weights(buffered=buffered)
    assert descent_of(model, matrix) == CONSTANT
    assert descent_of(nn.Sequential(model, nn.ReLU()), matrix) == known()


class Experts(nn.Module):
    """A mixture of experts, with the activation inside or behind."""

    def __init__(self, *, inside: bool, residual: bool = True) -> None:
        super().__init__()
        self.router, self.experts = (
            nn.Linear(C, 2),
            nn.ModuleList(nn.Linear(C, C) for _ in range(2)),
        )
        self.inside, self.residual = inside, residual

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, C)
        chosen = self.router(tokens).argmax(-1)
        total = torch.zeros(len(tokens), C)
        for number, expert in enumerate(self.experts):
            (rows,) = torch.where(chosen == number)
            hidden = expert(tokens[rows])
            total.index_add_(0, rows, torch.relu(hidden) if self.inside else hidden)
        if self.residual:
            total = total + tokens
        return total if self.inside else torch.relu(total.view(N, T, C))


def test_mixture_of_experts() -> None:
    torch.manual_seed(0)  # both experts receive tokens
    assert descent_of(Experts(inside=True), sequence) == LOST
    assert descent_of(Experts(inside=False), sequence) == known()
    assert descent_of(Experts(inside=False, residual=False), sequence) == LOST


def test_rows_added_at_places_of_their_own() -> None:
    assert descent(matrix, lambda x: torch.zeros(N, C).index_add(0, places, x)) == LOST
    assert (
        descent(matrix, lambda x: torch.zeros(N, C).scatter_add(0, places[:, None].expand(N, C), x))
        == LOST
    )
    assert descent(matrix, lambda x: torch.zeros(N, C).index_add(1, places, x)) == known()
    assert descent(matrix, lambda x: x.index_add(0, places, torch.ones(N, C))) == known()


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers(layer: Any, bidirectional: bool) -> None:
    # As many states as samples.
    options = {"num_layers": 2 if bidirectional else 4, "bidirectional": bidirectional}
    batch_first, time_first = layer(C, C, batch_first=True, **options), layer(C, C, **options)

    def state(found: Any) -> Tensor:
        return found[1][0] if isinstance(found[1], tuple) else found[1]

    assert descent(sequence, batch_first, lambda y: y[0]) == known()
    assert descent(sequence, batch_first, state) == known(1)
    assert descent(sequence, lambda x: time_first(x.transpose(0, 1))[0]) == known(1)
    assert descent(steps_first, time_first, lambda y: y[0], batch_axis=1) == known(1)
    assert descent(steps_first, time_first, state, batch_axis=1) == known(1)
    assert descent(sequence, batch_first, state, lambda h: h[-1]) == known()
    assert descent(sequence, lambda x: x.repeat_interleave(3, 0), batch_first, state) == known(
        1, inner=3
    )
    assert descent(sequence, lambda x: x[[2, 0, 3, 1]], batch_first, state) == LOST


@pytest.mark.parametrize("batch_first", [False, True])
def test_attention_that_is_not_watched(batch_first: bool) -> None:
    attention = nn.MultiheadAttention(C, 2, batch_first=batch_first)
    x, axis = (sequence, 0) if batch_first else (steps_first, 1)
    assert descent(x, lambda x: attention(x, x, x), lambda y: y[0], batch_axis=axis) == known(axis)
    assert descent(x, lambda x: attention(x, x, x), lambda y: y[1], batch_axis=axis) == known()


def test_attention_as_a_part_of_the_network() -> None:
    """Then it is suspended, and only what goes in and comes out is seen."""

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(C, 2)

        def forward(self, x: Tensor) -> Tensor:
            steps = x.transpose(0, 1)
            mixed, weights = self.attention(steps, steps, value=steps)
            return torch.relu(mixed) + torch.relu(weights).mean()

    seen: list[Call] = []
    model = Attending()
    with recording(model, lambda call, _: seen.append(call)) as recorder:
        recorder.stop()
        with recorder.forward_pass([sequence], size=N):
            model(sequence)
    assert [call.descent for call in seen] == [known(1), known()]


def test_index_of_a_length_of_its_own_does_not_stop_the_network() -> None:
    """An index that depends on the samples has fewer axes than what it is used on."""
    assert descent(matrix, lambda x: torch.ones(2, 9, 3)[:, x.argmax(1)]) == known(1)
    assert descent(matrix, lambda x: torch.ones(2, 9, 3)[..., x.argmax(1).clamp(0, 2)]) == LOST


class Two(nn.Module):
    """Two inputs, one used."""

    def __init__(self, used: int) -> None:
        super().__init__()
        self.used = used

    def forward(self, *inputs: Tensor) -> Tensor:
        return torch.relu(inputs[self.used] * 2)


@pytest.mark.parametrize(
    ("inputs", "used", "batch_axis", "expected"),
    [
        ((matrix, sequence), 1, 0, known()),
        ((matrix, torch.ones(7, N)), 1, 0, UNKNOWN),
        ((torch.ones(7, N), matrix), 0, 1, known(1)),
        ((torch.ones(7, N), matrix), 1, 1, known(1)),
        ((torch.ones(7, N), torch.ones(N)), 1, 1, UNKNOWN),
    ],
)
def test_inputs_hold_the_samples_on_the_axis_that_was_named(
    inputs: Sequence[Tensor], used: int, batch_axis: int, expected: Descent
) -> None:
    assert descent_of(Two(used), *inputs, batch_axis=batch_axis) == expected


def test_without_a_word_on_the_samples_the_first_input_counts_them() -> None:
    calls: list[Call] = []
    model = Two(1)
    with recording(model, lambda call, _: calls.append(call)) as recorder:
        model(torch.ones(3, 2), torch.ones(3, 5))
        assert recorder.samples == 3
    assert [call.descent for call in calls] == [known()]


def test_inputs_may_be_made_while_the_network_is_watched() -> None:
    calls: list[Call] = []
    model = Two(0)
    with recording(model, lambda call, _: calls.append(call)):
        model(torch.arange(6.0).reshape(3, 2) + 1)
        samples = calls[-1].descent
        model(nn.Parameter(torch.ones(3, 2)))
    assert (samples, calls[-1].descent) == (known(), CONSTANT)


def test_a_tensor_that_changes_its_shape_unseen_is_not_trusted() -> None:
    def resize(x: Tensor) -> Tensor:
        y = x.clone()
        y.data = torch.ones(9, N)
        return y

    assert descent(matrix, resize) == LOST


def test_no_samples_at_all() -> None:
    assert descent_of(Steps(lambda x: x.reshape(-1, C)), torch.ones(0, T, C), size=0) == LOST
    assert descent_of(Steps(lambda x: x.reshape(-1, C)), torch.ones(1, T, C), size=1) == known(
        inner=T
    )
