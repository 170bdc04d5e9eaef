"""Aligning: planted elements, brute force, laws of the descent, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment, minimize_scalar
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.errors import InputError, OptionError
from sigmascope.symmetry import align, check_equivalence, move
from sigmascope.symmetry.aligning import align as searching
from sigmascope.symmetry.aligning.features import unlikeness
from tests.symmetry.lively import lively


def mlp(activation: nn.Module, width: int = 5, depth: int = 1) -> nn.Module:
    inner = [part for _ in range(depth - 1) for part in (nn.Linear(width, width), activation)]
    return nn.Sequential(nn.Linear(3, width), activation, *inner, nn.Linear(width, 2))


class Residual(nn.Module):
    """A stem, two blocks that add to a stream, the second projected, and a depthwise filter."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.inner = nn.Sequential(nn.Conv2d(6, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU())
        self.back = nn.Sequential(nn.Conv2d(5, 6, 1), nn.BatchNorm2d(6))
        self.wide = nn.Conv2d(6, 8, 1)
        self.filters = nn.Conv2d(8, 8, 3, groups=8)
        self.fc = nn.Linear(8 * 16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.relu(x + self.back(self.inner(x)))
        x = torch.relu(self.filters(torch.relu(self.wide(x))))
        out: Tensor = self.fc(x.flatten(1))
        return out


class Attending(nn.Module):
    """Tokens, attention, a layer norm and an MLP on a residual stream."""

    def __init__(self, *, separate: bool = False) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(3, 8), nn.LayerNorm(8)
        more = {"kdim": 3, "vdim": 3} if separate else {}
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **more)
        self.fc1, self.act, self.fc2 = nn.Linear(8, 7), nn.GELU(), nn.Linear(7, 8)
        self.last, self.fc, self.separate = nn.LayerNorm(8), nn.Linear(8, 2), separate

    def forward(self, x: Tensor) -> Tensor:
        h = self.enter(x)
        y = self.norm(h)
        other = x if self.separate else y
        h = h + self.attention(y, other, other, need_weights=False)[0]
        h = h + self.fc2(self.act(self.fc1(h)))
        out: Tensor = self.fc(self.last(h).mean(dim=1))
        return out


NETWORKS = {
    "relu": (lambda: mlp(nn.ReLU(), 7, 3), (3,)),
    "leaky": (lambda: mlp(nn.LeakyReLU(0.2), 7, 2), (3,)),
    "tanh": (lambda: mlp(nn.Tanh(), 7, 3), (3,)),
    "gelu": (lambda: mlp(nn.GELU(), 7, 3), (3,)),
    "residual": (Residual, (3, 8, 8)),
    "attention": (Attending, (5, 3)),
    "separate": (lambda: Attending(separate=True), (5, 3)),
}


def made(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    build, shape = NETWORKS[name]
    source = torch.Generator().manual_seed(7)
    return lively(build(), seed), torch.randn(16, *shape, generator=source, dtype=torch.float64)


def error_of(a: nn.Module, b: nn.Module) -> float:
    one, other = a.state_dict(), b.state_dict()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("by", ["weights", "activations"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_planted_element_is_found_again(name: str, by: str) -> None:
    network, x = made(name)
    for seed in range(3):
        moved = move(network, seed, example_input=x)
        assert error_of(network, moved) > 0.1
        found = align(network, moved, x, by=by, example_input=x)
        aligned = found.apply(moved)
        assert error_of(network, aligned) < 1e-9  # parameters, and statistics of batch norm too
        assert check_equivalence(moved, aligned, x).holds
        assert found.overall == pytest.approx(1, abs=1e-12)
        assert found.equivalence.holds


@pytest.mark.parametrize("by", ["weights", "activations"])
@pytest.mark.parametrize("name", ["resnet20", "plain20"])
def test_planted_elements_of_trained_networks(name: str, by: str) -> None:
    entry = sg.catalog.model(f"sigmascope/{name}")
    network = entry.network.double()
    images = next(iter(sg.catalog.data("embedded", transform=entry.transform, limit=16)))[0]
    moved = move(network, 5)
    found = align(network, moved, images.double(), by=by)
    assert error_of(network, found.apply(moved)) < 1e-6


@pytest.mark.parametrize("name", NETWORKS)
def test_the_objective_never_rises_and_is_the_distance(name: str) -> None:
    (a, x), (b, _) = made(name), made(name, 1)
    found = align(a, b, example_input=x)
    assert all(after <= before for before, after in itertools.pairwise(found.objective))
    assert found.objective[-1] < found.before
    aligned = found.apply(b)
    parameters = zip(a.parameters(), aligned.parameters(), strict=True)
    distance = sum(float((p - q).detach().square().sum()) for p, q in parameters)
    assert distance == pytest.approx(found.objective[-1], rel=1e-9)
    assert check_equivalence(b, aligned, x).holds


def test_it_is_deterministic_and_changes_nothing() -> None:
    (a, x), (b, _) = made("residual"), made("residual", 1)
    states = [{name: one.clone() for name, one in net.state_dict().items()} for net in (a, b)]
    first, second = (align(a, b, example_input=x) for _ in range(2))
    assert first.objective == second.objective
    assert error_of(first.apply(b), second.apply(b)) == 0
    for net, state in zip((a, b), states, strict=True):
        assert all(torch.equal(one, state[name]) for name, one in net.state_dict().items())


def best_scale(x: Tensor, y: Tensor, u: Tensor, v: Tensor) -> float:
    """The squared distance of a pair at its best positive scale, by scipy on many brackets."""

    def at(r: float) -> float:
        d = math.exp(r)
        return float((x - d * y).square().sum() + (u - v / d).square().sum())

    brackets = zip(np.arange(-4, 4, 0.5), np.arange(-3, 5, 0.5), strict=True)
    return min(
        minimize_scalar(at, bounds=ends, method="bounded", options={"xatol": 1e-10}).fun
        for ends in brackets
    )


@pytest.mark.parametrize("seed", range(3))
def test_one_layer_equals_brute_force_over_permutations_and_scales(seed: int) -> None:
    a, b = lively(mlp(nn.ReLU()), seed), lively(mlp(nn.ReLU()), seed + 100)
    sides = []
    for net in (a, b):
        into = torch.cat([net[0].weight, net[0].bias[:, None]], dim=1).detach()
        sides.append((into, net[2].weight.detach().T))
    (x, u), (y, v) = sides
    cost = [[best_scale(x[j], y[i], u[j], v[i]) for i in range(5)] for j in range(5)]
    brute = min(
        sum(cost[j][i] for j, i in enumerate(order)) for order in itertools.permutations(range(5))
    )
    rest = float((a[2].bias - b[2].bias).detach().square().sum())
    assert align(a, b).objective[-1] == pytest.approx(brute + rest, rel=1e-7)


@pytest.mark.parametrize("seed", range(40))
def test_two_layers_equal_brute_force_over_permutations(seed: int) -> None:
    a, b = lively(mlp(nn.GELU(), 4, 2), seed), lively(mlp(nn.GELU(), 4, 2), seed + 100)
    w = [[one.detach() for one in net.parameters()] for net in (a, b)]
    orders = [list(order) for order in itertools.permutations(range(4))]
    brute = math.inf
    for p, q in itertools.product(orders, orders):
        moved = [w[1][0][p], w[1][1][p], w[1][2][q][:, p], w[1][3][q], w[1][4][:, q], w[1][5]]
        pairs = zip(w[0], moved, strict=True)
        brute = min(brute, sum(float((one - other).square().sum()) for one, other in pairs))
    found = align(a, b)
    assert found.objective[-1] == pytest.approx(brute, rel=1e-12)
    assert align(a, b, starts=1).objective[-1] >= brute * (1 - 1e-12)


def test_signs_of_tanh_equal_brute_force() -> None:
    a, b = lively(mlp(nn.Tanh(), 3), 0), lively(mlp(nn.Tanh(), 3), 9)
    w = [[one.detach() for one in net.parameters()] for net in (a, b)]
    brute = math.inf
    for order in itertools.permutations(range(3)):
        p = list(order)
        for signs in itertools.product([1.0, -1.0], repeat=3):
            s = torch.tensor(signs, dtype=torch.float64)
            moved = [w[1][0][p] * s[:, None], w[1][1][p] * s, w[1][2][:, p] * s, w[1][3]]
            pairs = zip(w[0], moved, strict=True)
            brute = min(brute, sum(float((one - other).square().sum()) for one, other in pairs))
    assert align(a, b).objective[-1] == pytest.approx(brute, rel=1e-12)


@pytest.mark.parametrize("name", ["relu", "attention"])
def test_permutations_alone_keep_scales_and_are_no_better(name: str) -> None:
    (a, x), (b, _) = made(name), made(name, 1)
    found = align(a, b, group="permutations", example_input=x)
    assert all(bool((one.scales == 1).all()) for one in found.elements.values())
    for one in found.heads.values():
        assert torch.equal(one.values, torch.eye(4, dtype=torch.float64).expand_as(one.values))
    aligned = found.apply(b)
    for p, q in zip(b.parameters(), aligned.parameters(), strict=True):  # the same numbers
        assert torch.equal(p.detach().flatten().sort().values, q.detach().flatten().sort().values)
    assert align(a, b, example_input=x).objective[-1] < found.objective[-1] < found.before


def test_heads_equal_brute_force_over_orders() -> None:
    """All but the heads is equal: then the two orders of two heads and polar factors decide."""
    a, x = made("attention")
    b, _ = made("attention")
    with torch.no_grad():
        for name, one in b.attention.named_parameters():
            if name != "out_proj.bias":
                one.copy_(torch.randn(one.shape, generator=torch.Generator().manual_seed(3)))
    pair = searching.Pair.of(a, b, x)
    descent = pair.descent()
    (number,) = descent.heads
    descent.update(number)
    block = pair.blocks[number]
    costs = []
    for order in ([0, 1], [1, 0]):
        total = 0.0
        for parts in (
            [(block.stacked(pair.target, k), block.stacked(pair.moving, k)) for k in (0, 1)],
            [
                (block.stacked(pair.target, 2), block.stacked(pair.moving, 2)),
                (block.columns(pair.target), block.columns(pair.moving)),
            ],
        ):
            for j, i in enumerate(order):
                u = torch.cat([one[j] for one, _ in parts], dim=1)
                v = torch.cat([other[i] for _, other in parts], dim=1)
                left, _, right = torch.linalg.svd(u @ v.T)
                total += float((u - left @ right @ v).square().sum())
        costs.append(total)
    assert descent.objective == pytest.approx(min(costs), rel=1e-9)
    assert max(costs) > min(costs) * 1.01


def test_activations_decide_the_assignment() -> None:
    (a, x), (b, _) = made("gelu"), made("gelu", 1)
    found = align(a, b, x, by="activations")
    pair = searching.Pair.of(a, b, None)
    prior = unlikeness(pair.networks, x, pair.blocks, progress=False)
    assert len(prior) == 3
    elements = found.elements
    for cost, name in zip(prior.values(), ("0", "2", "4"), strict=True):
        _, columns = linear_sum_assignment(cost.numpy())
        assert elements[name].permutation.tolist() == columns.tolist()
    h = [net[1](net[0](x)).detach().T for net in (a, b)]
    expected = np.corrcoef(h[0].numpy(), h[1].numpy())[:7, 7:]
    np.testing.assert_allclose(1 - prior[0].numpy(), expected, atol=1e-12)


def test_features_add_up_over_batches() -> None:
    (a, x), (b, _) = made("residual"), made("residual", 1)
    pair = searching.Pair.of(a, b, x)
    whole = unlikeness(pair.networks, x, pair.blocks, progress=False)
    parts = unlikeness(pair.networks, [x[:3], x[3:]], pair.blocks, progress=False)
    for number, one in whole.items():
        torch.testing.assert_close(parts[number], one)


def test_silent_channels_are_decided_by_weights() -> None:
    network, x = made("relu")
    with torch.no_grad():
        network[0].bias[:4] = -100.0  # four channels that no input wakes
    moved = move(network, 2)
    found = align(network, moved, x, by="activations")
    assert error_of(network, found.apply(moved)) < 1e-9


def test_noise_is_reported_as_unlike_and_a_moved_network_as_alike() -> None:
    (a, _), (b, _) = made("gelu"), made("gelu", 1)
    noise = align(a, b, controls=3)
    assert noise.alike is False
    assert "unlike: not a quarter above every control" in repr(noise)
    same = align(a, move(a, 0), controls=3)
    assert same.alike is True
    assert align(a, b).alike is None


@pytest.mark.parametrize(
    ("a", "b", "alike"), [("vgg16:1", "vgg16:2", True), ("vgg16:1-init", "vgg16:2-init", False)]
)
def test_trained_pairs_gain_more_than_noise_and_untrained_ones_nothing(
    a: str, b: str, alike: bool
) -> None:
    networks = [sg.catalog.model(f"sigmascope/{name}").network for name in (a, b)]
    found = align(*networks, starts=1, controls=1)
    assert found.alike is alike
    ratio = found.overall / max(found.controls)
    assert ratio > 1.5 if alike else ratio < 1.1


@pytest.mark.parametrize(
    ("a", "b", "match"),
    [
        (mlp(nn.ReLU()), mlp(nn.ReLU(), 6), r"0\.weight is \(5, 3\) in .* and \(6, 3\)"),
        (mlp(nn.ReLU()), mlp(nn.ReLU(), 5, 2), r"2\.weight is \(2, 5\) .* and \(5, 5\)"),
        (mlp(nn.ReLU()), mlp(nn.GELU()), r"the layer .1. is ReLU\(\) in .* and GELU"),
        (mlp(nn.ReLU()), Residual(), "not in"),
    ],
)
def test_other_architectures_are_refused(a: nn.Module, b: nn.Module, match: str) -> None:
    with pytest.raises(InputError, match=match):
        align(a, b)


def test_other_layers_are_refused() -> None:
    slopes = [mlp(nn.LeakyReLU(slope)) for slope in (0.1, 0.3)]
    with pytest.raises(InputError, match=r"the layer '1' is LeakyReLU\(negative_slope=0\.1\) in"):
        align(*slopes)
    found = align(mlp(nn.ReLU()), mlp(nn.ReLU()))
    with pytest.raises(InputError, match=r"is ReLU\(\) in the network 'aligned' and GELU\("):
        found.apply(mlp(nn.GELU()))
    inplace = mlp(nn.ReLU(inplace=True))
    assert check_equivalence(inplace, found.apply(inplace), torch.randn(8, 3)).holds


def test_bad_input() -> None:
    network, _ = made("relu")
    with pytest.raises(InputError, match=r"needs inputs\. Pass batches"):
        align(network, network, by="activations")
    with pytest.raises(InputError, match="batches is empty"):
        align(network, network, [], by="activations")
    with pytest.raises(OptionError, match="by"):
        align(network, network, by="colors")
    with pytest.raises(OptionError, match="group"):
        align(network, network, group="rotations")
    with pytest.raises(OptionError, match="option"):
        align(network, network, exemple=1)
    with pytest.raises(OptionError, match="starts"):
        align(network, network, starts=0)
    wide = mlp(nn.ReLU(), 8)
    with pytest.raises(InputError, match="different architectures"):
        align(network, network).apply(wide)
    broken = mlp(nn.ReLU())
    with torch.no_grad():
        broken[2].weight[0, 1] = math.nan
    with pytest.raises(InputError, match=r"2\.weight of the network 'b' has 1 of 10 values that"):
        align(mlp(nn.ReLU()), broken)


def test_it_prints_itself() -> None:
    network, _ = made("relu")
    found = align(network, move(network, 0))
    text = repr(found)
    assert text.startswith("Sequential aligned to Sequential by weights")
    assert "the same function" in text
    assert set(found.similarity) == {"0", "2", "4", "6"}
    assert found.to_dict("x/")["x/similarity/0"] == pytest.approx(1)
    assert found.elements["0"].permutation.sort().values.tolist() == list(range(7))
