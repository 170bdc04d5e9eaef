"""Folding batch norms that are called as functions, as other libraries write them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import sigmascope as sg
from sigmascope.linearize import apply, fold, plan
from tests.linearize.test_fold_chains import folded


class NormAct(nn.BatchNorm2d):
    """A norm, a drop and an activation in one module, in the form that timm gives them."""

    def __init__(self, channels: int, **options: Any) -> None:
        super().__init__(channels, **options)
        self.drop, self.act = nn.Identity(), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        torch._assert(x.ndim == 4, f"expected 4D input (got {x.ndim}D input)")
        uses_batch = self.training or self.running_mean is None
        statistics = (self.running_mean, self.running_var)
        y = F.batch_norm(x, *statistics, self.weight, self.bias, uses_batch, 0.1, self.eps)
        return self.act(self.drop(y))  # type: ignore[no-any-return]


class Inherited(nn.BatchNorm2d):
    """A norm that leaves the work to the `forward` of torch, which checks its input."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x))


class Sync(nn.Module):
    """A norm for several processes, which torch.fx takes for one node."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.SyncBatchNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x).sigmoid()  # type: ignore[no-any-return]


class Direct(nn.BatchNorm2d):
    """A norm that calls the operator below the function, with arguments in another order."""

    def forward(self, x: Tensor) -> Tensor:
        rest = (self.running_mean, self.running_var, False, 0.1, self.eps, False)
        return torch.batch_norm(x, self.weight, self.bias, *rest).tanh()


class Stored(nn.Module):
    """A norm whose statistics have names of their own, without a weight."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(channels))
        self.register_buffer("square", torch.rand(channels) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(
            F.batch_norm(eps=1e-3, running_var=self.square, running_mean=self.mean, input=x)
        )


def filled(network: nn.Module) -> nn.Module:
    for one in network.modules():
        if isinstance(one, _BatchNorm) and one.running_mean is not None:
            assert one.running_var is not None
            one.running_mean.normal_()
            one.running_var.uniform_(0.5, 2.0)
        if isinstance(one, _BatchNorm) and one.affine:
            nn.init.normal_(one.weight)
            nn.init.normal_(one.bias)
    return network.double().eval()


def small(*kinds: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for kind in kinds:
        layers += [nn.Conv2d(4, 4, 3, padding=1, bias=False), kind(4)]
    filled(network := nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 36, 3)))
    return network


X = torch.randn(3, 4, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", [NormAct, Inherited, Sync, Direct, Stored])
def test_a_norm_in_a_function_goes_into_the_layer(kind: type[nn.Module]) -> None:
    network = small(kind, kind)
    state, wanted = copy.deepcopy(network.state_dict()), network(X)
    found = folded(network, X)
    names = {Stored: ["1.batch_norm", "3.batch_norm_1"], Sync: ["1.norm", "3.norm"]}.get(
        kind, ["1", "3"]
    )
    assert found.steps == tuple(
        f"{number} + {name} → one convolution of 3 × 3, 4 channels"
        for number, name in zip((0, 2), names, strict=True)
    )
    assert not found.refused
    assert (found.before.layers, found.before.maps) == (3, 2)
    assert (found.after.layers, found.after.maps) == (3, 0)
    assert found.after.multiply_adds == found.before.multiply_adds
    gone = 2 * 8 if kind is not Stored else 0  # the weights of the norms, and biases are new
    assert found.after.parameters == found.before.parameters + 2 * 4 - gone
    assert [*found.network.state_dict()] == [
        *("0.weight", "0.bias", "2.weight", "2.bias", "5.weight", "5.bias")
    ]
    for x in (X, torch.randn(2, 4, 6, 6, dtype=torch.float64)):
        torch.testing.assert_close(found.network(x), network(x), rtol=1e-10, atol=1e-10)
    assert torch.equal(network(X), wanted)
    assert all(torch.equal(one, state[name]) for name, one in network.state_dict().items())


def test_sites_have_the_names_that_they_had() -> None:
    network = small(NormAct, nn.BatchNorm2d, NormAct)
    found = folded(network, X)
    names = [
        [site.name for site in sg.signature(one, X, progress=False).sites]
        for one in (network, found.network)
    ]
    assert names[0] == names[1] == ["1.act", "5.act"]


def test_a_map_in_place_of_the_activation_goes_into_the_layer_as_well() -> None:
    torch.manual_seed(0)
    layers = (nn.Conv2d(4, 4, 3, padding=1), NormAct(4), nn.Conv2d(4, 4, 1), NormAct(4))
    network = filled(nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 36, 3)))
    shorter = apply(network, plan(network, torch.cat([X] * 8), budget=2, by="depth"))
    found = fold(shorter, keep="all", timer=lambda calls: [1.0] * len(calls))
    assert found.steps == ("0 + 1 + 1.act + 2 + 3 + 3.act → one convolution of 3 × 3, 4 channels",)
    assert (found.before.layers, found.after.layers) == (3, 2)
    assert (found.before.maps, found.after.maps) == (4, 0)
    torch.testing.assert_close(found.network(X), shorter(X), rtol=1e-10, atol=1e-10)


def test_a_norm_that_is_not_merged_stays_the_call_that_it_was() -> None:
    layers = (nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), NormAct(4), nn.Flatten())
    network = filled(nn.Sequential(*layers, nn.Linear(4 * 36, 3)))
    found = folded(network, X)
    assert found.steps == ("0 + 1 → one convolution of 1 × 1, 4 channels",)
    assert found.refused[0].startswith("3: it follows 2 (ReLU), and is read by 3.act (ReLU)")
    assert (found.before.maps, found.after.maps) == (2, 1)
    assert {"3.weight", "3.running_mean"} <= {*found.network.state_dict()}
    torch.testing.assert_close(found.network(X), network(X))
    with pytest.raises(Exception, match=r"expected 4D|[Ee]xpected|must match"):
        found.network(X[0])


class Checked(nn.Module):
    """Norms in a row around nothing, with a check of the size that stays a reader."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.then = nn.Conv2d(4, 4, 1), Stored(4), nn.Conv2d(4, 2, 1)
        self.norm_2 = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        torch._assert(x.shape[-1] % 2 == 0, "expected an even width")
        rest = (self.norm_2.weight, self.norm_2.bias)
        x = F.batch_norm(x, self.norm.mean, self.norm.square)
        return self.then(F.batch_norm(x, self.norm_2.running_mean, self.norm_2.running_var, *rest))


def test_checks_of_sizes_stay() -> None:
    network = filled(Checked())
    found = folded(network, X)
    assert found.steps == ("batch_norm + norm_2 + then → one convolution of 1 × 1, 2 channels",)
    torch.testing.assert_close(found.network(X), network(X))
    for one in (network, found.network):
        with pytest.raises(AssertionError, match="even width"):
            one(X[..., 1:])


class Read(nn.Module):
    """A norm with an option to refuse it for."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.conv, self.way, self.norm = nn.Conv2d(4, 4, 1), way, nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        y, norm = self.conv(x), self.norm
        weight = norm.weight.abs() if self.way == "computed" else norm.weight
        mean, var = norm.running_mean, norm.running_var
        if self.way == "batch":
            mean = var = None
        y = F.batch_norm(y, mean, var, weight, norm.bias, self.way in ("batch", "training"), 0.0)
        return y * norm.weight.sum() if self.way == "elsewhere" else y


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("batch", "it has no running statistics, and normalizes by those of the batch"),
        ("training", "with training=True, and normalizes by the statistics of the batch"),
        ("computed", "its weight is computed by the network, or is read elsewhere"),
        ("elsewhere", "its weight is computed by the network, or is read elsewhere"),
    ],
)
def test_what_is_no_map_of_channels_stays_for_a_reason(way: str, reason: str) -> None:
    network = filled(Read(way))
    found = folded(network, X)
    assert not found.steps
    assert len(found.refused) == 1
    assert reason in found.refused[0]
    assert torch.equal(found.network(X), network(X))


def test_training_mode_and_missing_statistics_are_refused() -> None:
    network = small(NormAct)
    network[1].train()
    with pytest.raises(sg.errors.NetworkError, match="'1' of the network is in training mode"):
        fold(network, X)
    network = filled(nn.Sequential(nn.Conv2d(4, 4, 1), NormAct(4, track_running_stats=False)))
    found = folded(network, X)
    assert not found.steps
    assert found.refused == (
        "1: it has no running statistics, and normalizes by those of the batch",
    )


def test_a_part_with_a_hook_stays_and_its_hook_runs() -> None:
    for inside in (NormAct(4), nn.Sequential(nn.BatchNorm2d(4), nn.ReLU())):
        layers = (nn.Conv2d(4, 4, 1), inside, nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
        network = filled(nn.Sequential(*layers))
        seen: list[type] = []
        inside.register_forward_hook(lambda _, args, y, seen=seen: seen.append(type(y)))
        found = folded(network, X)
        assert found.steps == ("2 + 3 → one convolution of 1 × 1, 4 channels",)
        line = "1: it has a hook, which a merged layer would not call"
        assert found.refused.count(line) == 1
        assert {*seen} == {Tensor}  # never a symbolic value
        seen.clear()
        torch.testing.assert_close(found.network(X), network(X))
        assert seen == [Tensor, Tensor]
