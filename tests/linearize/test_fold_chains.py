"""Merged layers are the same function as the layers, inside and at the border."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.linearize import Affine, Folded
from sigmascope.linearize.folding.layers import Geometry, MergedConv, borders, spans
from sigmascope.linearize.folding.merging import in_groups, merged
from sigmascope.linearize.folding.pieces import Piece, module_of, piece_of

CONVOLUTIONS: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORMS: dict[int, Any] = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
MODES = ("zeros", "zeros", "zeros", "reflect", "replicate", "circular")


def no_clock(calls: Sequence[object]) -> list[float]:
    return [1.0] * len(calls)


def folded(network: nn.Module, x: Any, **options: Any) -> Folded:
    return sg.linearize.fold(network.eval(), x, **{"keep": "all", "timer": no_clock, **options})


def norm(rank: int, channels: int, *, affine: bool = True) -> nn.Module:
    made = NORMS[rank](channels, affine=affine)
    made.running_mean.normal_()
    made.running_var.uniform_(0.5, 2.0)
    if affine:
        nn.init.normal_(made.weight)
        nn.init.normal_(made.bias)
    return made  # type: ignore[no-any-return]


class CalledNorm(nn.Module):
    """A norm that is the call of a function, with the statistics of another."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.kept = norm

    def forward(self, x: Tensor) -> Tensor:
        torch._assert(x.dim() > 2, f"expected positions, got {x.dim()} axes")
        kept = self.kept
        rest = (kept.weight, kept.bias, self.training, 0.1, kept.eps)
        return F.batch_norm(x, kept.running_mean, kept.running_var, *rest)


def some_map(rng: random.Random, rank: int, c: int) -> list[nn.Module]:
    return [
        Affine(torch.randn(c), torch.randn(c), 1),
        Affine.full(torch.randn(c, c), torch.randn(c), 1),
        nn.Identity(),
        nn.Dropout(),
        norm(rank, c, affine=rng.random() < 0.7),
        CalledNorm(norm(rank, c, affine=rng.random() < 0.7)),
    ][rng.randrange(6) :][:1]


def some_convolution(rng: random.Random, rank: int, before: int, after: int) -> nn.Module:
    def each(*values: int) -> tuple[int, ...]:
        return tuple(rng.choice(values) for _ in range(rank))

    groups = [one for one in (1, 2, before) if before % one == 0 and after % one == 0]
    padding = rng.choice(["same", "valid", 0, 1, 1, each(0, 1, 2)])
    return CONVOLUTIONS[rank](  # type: ignore[no-any-return]
        *(before, after, each(1, 2, 3)),
        stride=1 if padding == "same" else each(1, 1, 2, 3),
        padding=padding,
        dilation=each(1, 1, 2),
        groups=rng.choice(groups),
        bias=rng.random() < 0.6,
        padding_mode=rng.choice(MODES),
    )


def some_chain(rng: random.Random, rank: int) -> tuple[nn.Sequential, int]:
    widths = [rng.choice([2, 4, 6]) for _ in range(rng.choice([3, 3, 4]))]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += some_map(rng, rank, before) if rng.random() < 0.5 else []
        layers.append(some_convolution(rng, rank, before, after))
    layers += some_map(rng, rank, widths[-1])
    return nn.Sequential(*layers).double().eval(), widths[0]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_chains_are_the_same_function_at_every_size(rank: int) -> None:
    made, called, kinds = 0, 0, set()
    for seed in range(14):
        rng = random.Random(100 * rank + seed)
        torch.manual_seed(seed)
        network, channels = some_chain(rng, rank)
        sizes = [rng.choice([7, 8, 9]) for _ in range(rank)]
        inputs = [torch.randn(2, channels, *(n + more for n in sizes)).double() for more in (0, 2)]
        try:
            wanted = [network(x) for x in inputs]
        except RuntimeError:  # padding or kernels larger than the map
            continue
        found = folded(network, inputs[0])
        made += len(found.steps)
        kinds |= {type(module) for module in found.network.modules()}
        for x, y in zip(inputs, wanted, strict=True):
            difference = (found.network(x) - y).abs().max() / y.abs().max()
            assert difference < 1e-9, (seed, found)
        called += any(".kept" in step for step in found.steps)
    assert made > 10
    assert called
    assert MergedConv in kinds


def pair(first: nn.Module, then: nn.Module) -> Piece:
    pieces = [piece_of(one.double(), 4) for one in (first, then)]
    found = merged([one for one in pieces if one is not None])
    assert isinstance(found, Piece), found
    return found


@pytest.mark.parametrize(
    ("first", "then", "parts", "ones"),
    [
        (nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 4, 1), 0, False),
        (nn.Conv2d(3, 5, 1), nn.Conv2d(5, 4, 3, padding=1), 0, True),
        (nn.Conv2d(3, 5, 1, bias=False), nn.Conv2d(5, 4, 3, padding=1), 0, False),
        (nn.Conv2d(3, 5, 1, stride=2), nn.Conv2d(5, 4, 3, padding=1, stride=2), 0, True),
        (nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, padding=1, groups=6), 0, True),
        (nn.Conv2d(3, 5, 3), nn.Conv2d(5, 4, 3), 0, False),
        (nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 4, 3, padding=1), 2, False),
        (nn.Conv2d(3, 5, 3, 2, 1), nn.Conv2d(5, 4, 5, 2, 2), 2, False),
        (nn.Conv2d(3, 5, 3, dilation=2, padding=2), nn.Conv2d(5, 4, 3, padding=1), 2, False),
    ],
)
def test_borders(first: nn.Module, then: nn.Module, parts: int, ones: bool) -> None:
    made = module_of(pair(first, then))
    assert len(getattr(made, "parts", ())) == parts
    assert (getattr(made, "ones", None) is not None) == ones
    for height, width in ((5, 5), (12, 9), (13, 16), (1, 7) if not parts and ones else (6, 7)):
        x = torch.randn(2, 3, height, width).double()
        torch.testing.assert_close(made(x), then(first(x)), rtol=1e-10, atol=1e-10)


def test_one_large_convolution_without_the_border_is_not_the_same() -> None:
    first, then = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 4, 3, padding=1)
    made = module_of(pair(first, then))
    assert isinstance(made, MergedConv)
    x = torch.randn(2, 3, 9, 9).double()
    naive, wanted = made._merged(x), then(first(x))
    assert (naive - wanted)[:, :, 1:-1, 1:-1].abs().max() < 1e-12
    assert (naive - wanted)[:, :, 0].abs().max() > 1e-3
    shifted = module_of(pair(nn.Conv2d(3, 5, 1), then))
    assert isinstance(shifted, MergedConv)
    assert shifted.ones is not None
    everywhere = shifted.ones.sum((1, 2, 3))[:, None, None]
    plain = shifted._convolved(x, shifted.weight, shifted.bias, 1) + everywhere
    assert (plain - shifted(x))[:, :, 1:-1, 1:-1].abs().max() < 1e-12
    assert (plain - shifted(x))[:, :, 0].abs().max() > 1e-3


def test_merged_layers_have_gradients_copies_and_traces() -> None:
    first, then = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 4, 3, padding=1)
    made = module_of(pair(first, then))
    x = torch.randn(2, 3, 9, 9).double().requires_grad_()
    made(x).square().sum().backward()
    wanted = x.grad
    x.grad = None
    then(first(x)).square().sum().backward()
    torch.testing.assert_close(x.grad, wanted)
    graph = torch.fx.symbolic_trace(nn.Sequential(made))
    assert torch.equal(graph(x), made(x))


def test_geometry_by_brute_force() -> None:
    for kernel, stride, dilation, pad in itertools.product((1, 2, 3), (1, 2), (1, 2), (0, 1, 2)):
        then = Geometry(kernel, stride, dilation, pad, pad)
        if pad > dilation * (kernel - 1):
            continue
        first = Geometry(3, 2, 1, 1, 1)
        middle = first.size(17)
        low, high, count = borders((first, then), 17)
        seen = [
            [o * stride + j * dilation - pad for j in (0, kernel - 1)]
            for o in range(then.size(middle))
        ]
        assert count == len(seen)
        assert low == sum(start < 0 for start, _ in seen)
        assert high == sum(end >= middle for _, end in seen)
        for output in range(count):
            inner, outer = spans((first, then), 17, output, output)
            assert (
                outer.before + outer.after + outer.stop - outer.start == dilation * (kernel - 1) + 1
            )
            assert 0 <= inner.start < inner.stop <= 17


def test_groups_become_fewer_with_the_same_result() -> None:
    weight, x = torch.randn(12, 2, 3), torch.randn(1, 12, 5)
    wide = in_groups(weight, 6, 2)
    assert wide.shape == (2, 6, 6, 3)
    found = nn.functional.conv1d(x, wide.flatten(0, 1), groups=2)
    torch.testing.assert_close(found, nn.functional.conv1d(x, weight, groups=6))


@pytest.mark.parametrize(
    ("first", "then", "reason"),
    [
        ({"padding": 1}, {"padding": 1, "padding_mode": "reflect"}, "'reflect' pads between"),
        ({"padding": 1, "padding_mode": "circular"}, {"padding": 1}, "'circular' pads between"),
        ({"padding": 1}, {"padding": 3}, "wider than its kernel"),
        ({"padding": 1}, {"kernel_size": 2, "padding": "same"}, "differs between two sides"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_what_is_not_exact_is_refused(
    first: dict[str, Any], then: dict[str, Any], reason: str
) -> None:
    options = [{"kernel_size": 3, **one} for one in (first, then)]
    network = nn.Sequential(nn.Conv2d(3, 4, **options[0]), nn.Conv2d(4, 5, **options[1]))
    found = folded(network, torch.randn(2, 3, 9, 9))
    assert found.steps == ()
    assert len(found.refused) == 1
    assert found.refused[0].startswith("0 + 1: ")
    assert reason in found.refused[0]


def test_maps_smaller_than_their_border_are_refused() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3, padding=1))
    found = folded(network, torch.randn(2, 3, 2, 2))
    assert found.refused == ("0 + 1: the map is so small that all of it is border",)


def test_linear_layers_of_any_shape_and_norms() -> None:
    layers = (
        nn.Linear(6, 8),
        Affine(torch.randn(8), torch.randn(8), -1),
        nn.Linear(8, 3, bias=False),
    )
    network = nn.Sequential(*layers).double()
    for shape in ((2, 6), (2, 5, 6), (2, 3, 5, 6)):
        x = torch.randn(shape).double()
        found = folded(network, x)
        assert found.steps == ("0 + 1 + 2 → one linear layer, 6 to 3",)
        torch.testing.assert_close(found.network(x), network(x), rtol=1e-10, atol=1e-10)
    dense = nn.Sequential(nn.Linear(6, 4), norm(1, 4), nn.ReLU(), norm(1, 4), nn.Linear(4, 2))
    x: Tensor = torch.randn(3, 6)
    found = folded(dense, x)
    assert [type(one).__name__ for one in found.network.children()] == ["Linear", "ReLU", "Linear"]
    torch.testing.assert_close(found.network(x), dense(x))
