"""Linearized networks: each map in place of its own call, and nothing else changed."""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import sigmascope as sg
from sigmascope.errors import NetworkError
from sigmascope.linearize import Affine, Plan
from tests.linearize.small import (
    IMAGES,
    VECTORS,
    Aliased,
    ChangedOutput,
    Functions,
    Residual,
    Reusing,
    Shared,
    Walking,
    built,
    expected,
    images,
    vectors,
)

KINDS = (*IMAGES, *VECTORS)


def inputs_of(kind: type[nn.Module], seed: int = 0) -> Tensor:
    return (images if kind in IMAGES else vectors)(seed=seed).double()


def planned(network: nn.Module, x: Tensor, budget: Any = 1.0, **options: Any) -> Plan:
    return sg.linearize.plan(network, x, budget=budget, by="r2", scores=False, **options)


def choosing(plan: Plan, names: set[str]) -> Plan:
    sites = [dataclasses.replace(site, chosen=site.name in names) for site in plan.sites]
    return dataclasses.replace(plan, sites=tuple(sites))


def activation(site: sg.linearize.PlannedSite) -> Any:
    leaky = functools.partial(F.leaky_relu, negative_slope=0.5)
    return {"relu": F.relu, "gelu": F.gelu, "leaky_relu": leaky}[site.kind]


def map_of(plan: Plan, site: sg.linearize.PlannedSite) -> Any:
    values = plan.values_of(site)
    if values is None:
        return lambda x: x.clone()
    factor, shift = values

    def compute(x: Tensor) -> Tensor:
        moved = x if x.ndim == 2 else x.movedim(1, -1)
        y = (moved * factor if factor.ndim == 1 else moved @ factor.T) + shift
        return y if x.ndim == 2 else y.movedim(-1, 1)

    return compute


def reference(network: nn.Module, plan: Plan, x: Tensor) -> Tensor:
    return expected(
        network, x, [map_of(plan, site) if site.chosen else activation(site) for site in plan.sites]
    )


@pytest.mark.parametrize("maps", ["channel", "full", "identity"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_map_takes_the_place_of_its_own_call(kind: type[nn.Module], maps: Any) -> None:
    network, x, other = built(kind), inputs_of(kind), inputs_of(kind, seed=1)
    plan = planned(network, x, maps=maps)
    assert len(plan.chosen) == len(plan.sites) == (10 if kind is Residual else len(plan.sites))
    subsets = [{site.name} for site in plan.sites]
    subsets += [{site.name for site in plan.sites}, {site.name for site in plan.sites[::2]}]
    for names in subsets:
        some = choosing(plan, names)
        made = sg.linearize.apply(network, some)
        torch.testing.assert_close(made(other), reference(network, some, other))


@pytest.mark.parametrize("kind", KINDS)
def test_activations_that_are_affine_are_replaced_without_a_change(kind: type[nn.Module]) -> None:
    network = built(kind).float()
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.constant_(module.bias, 100.0)
            module.weight.data.abs_()
    x = inputs_of(kind).float()
    plan = planned(network, x)
    made = sg.linearize.apply(network, plan)
    assert torch.equal(made(x), network(x))
    assert all(site.fit == 1 for site in plan.sites)


@pytest.mark.parametrize("kind", KINDS)
def test_the_original_is_untouched_and_the_copy_independent(kind: type[nn.Module]) -> None:
    network, x = built(kind).train(), inputs_of(kind)
    before = copy.deepcopy(network.state_dict())
    modules, outputs = [*network.modules()], network(x)
    classes = [type(module) for module in modules]
    plan = planned(network, x)
    made = sg.linearize.apply(network, plan)
    assert all(module.training for module in (*network.modules(), *made.modules()))
    for parameter in made.parameters():
        parameter.data.fill_(7.0)
    assert [*network.modules()] == modules
    assert [type(module) for module in modules] == classes
    assert torch.equal(network(x), outputs)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in modules)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_parameters_stay(kind: type[nn.Module]) -> None:
    network, x = built(kind), inputs_of(kind)
    made = sg.linearize.apply(network, planned(network, x))
    missing = made.load_state_dict(network.state_dict(), strict=False)
    assert missing.unexpected_keys == []
    assert all(name.endswith((".scale", ".shift")) for name in missing.missing_keys)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_files_and_traces_compute_the_same(kind: type[nn.Module]) -> None:
    network, x = built(kind), inputs_of(kind)
    names = {site.name for site in planned(network, x).sites[::2]}
    made = sg.linearize.apply(network, choosing(planned(network, x), names))
    outputs = made(x)
    assert torch.equal(copy.deepcopy(made)(x), outputs)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), outputs)
    graph = torch.fx.symbolic_trace(made)
    assert torch.equal(graph(x), outputs)
    maps = [
        node
        for node in graph.graph.nodes
        if node.op == "call_module" and isinstance(graph.get_submodule(node.target), Affine)
    ]
    assert len(maps) == len(names)
    again = sg.linearize.apply(network, choosing(planned(network, x), names))
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(x), outputs)


def test_a_copy_of_a_rerouted_network_trains_its_own_maps() -> None:
    network, x = built(Functions), inputs_of(Functions)
    made = sg.linearize.apply(network, planned(network, x))
    twin = copy.deepcopy(made)
    for name, parameter in twin.named_parameters():
        if name.endswith("shift"):
            parameter.data += 1
    assert not torch.equal(twin(x), made(x))
    made.load_state_dict(twin.state_dict())
    assert torch.equal(twin(x), made(x))
    twin(x).sum().backward()
    assert all(parameter.grad is not None for parameter in twin.parameters())


@pytest.mark.parametrize("kind", [Functions, Residual, Aliased, Reusing])
def test_maps_have_the_gradients_of_the_formula(kind: type[nn.Module]) -> None:
    network, x = built(kind), inputs_of(kind)
    plan = planned(network, x)
    made = sg.linearize.apply(network, plan)
    wanted = torch.autograd.grad(reference(network, plan, x).square().sum(), network.parameters())
    made(x).square().sum().backward()
    found = dict(made.named_parameters())
    for (name, _), gradient in zip(network.named_parameters(), wanted, strict=True):
        torch.testing.assert_close(found[name].grad, gradient)


def test_sites_to_keep_that_share_a_module_stay_what_they_were() -> None:
    for kind in (Reusing, Shared):
        network, x = built(kind), inputs_of(kind)
        plan = planned(network, x)
        made = sg.linearize.apply(network, choosing(plan, {"act1"}))
        found = sg.signature(made, x, progress=False)
        assert [site.kind for site in found.sites] == ["relu"]


def test_a_part_that_is_called_on_its_own_is_refused_where_calls_cannot_be_told_apart() -> None:
    network, x = built(Residual), inputs_of(Residual)
    made: Any = sg.linearize.apply(network, choosing(planned(network, x), {"blocks.0"}))
    y = made.stem(x)
    with pytest.raises(NetworkError, match=r"called on its own.*Call the whole network"):
        made.blocks[0](y)
    assert made.blocks[1](y).shape == y.shape


class Checkpointing(nn.Module):
    """Computes a part again in the backward pass, with one activation for all calls or several."""

    def __init__(self, *, shares: bool, reentrant: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.act = nn.ReLU()
        self.other = self.act if shares else nn.ReLU()
        self.reentrant = reentrant

    def part(self, x: Tensor) -> Tensor:
        return self.other(self.second(x))

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.part, self.act(self.first(x)), use_reentrant=self.reentrant)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_of_calls_that_are_counted_is_refused(reentrant: bool) -> None:
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(0)).double()
    for shares in (True, False):
        torch.manual_seed(0)
        network = Checkpointing(shares=shares, reentrant=reentrant).double()
        plan = planned(network, x.clone().requires_grad_(), budget=1)
        made = sg.linearize.apply(network, plan)
        loss = made(x.clone().requires_grad_()).square().sum()
        if not shares:  # the remedy
            loss.backward()
            assert made.first.weight.grad.abs().max() > 0
            continue
        with pytest.raises(NetworkError, match=r"'act' is used several times.*checkpointing runs"):
            loss.backward()


def test_a_network_that_raised_runs_again() -> None:
    network, x = built(Residual), inputs_of(Residual)
    made = sg.linearize.apply(network, planned(network, x))
    outputs = made(x)
    with pytest.raises(RuntimeError, match="channels"):
        made(x[:, :2])
    assert torch.equal(made(x), outputs)


def test_a_network_that_runs_whatever_it_contains_is_refused() -> None:
    network = built(Walking)
    with pytest.raises(NetworkError, match=r"does not run with maps.*own modules"):
        planned(network, vectors().double())


def test_transformer_layers_do_not_take_the_path_that_hides_the_activation() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 5, 8)
    for given in (nn.GELU(), F.relu, "relu"):
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation=given, batch_first=True)
        network = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        plan = planned(network, x)
        made: Any = sg.linearize.apply(network, plan).eval()
        with torch.no_grad():
            fast = made(x)
        slow = made(x)  # with gradients, where there is no such path
        torch.testing.assert_close(fast, slow)
        assert not torch.allclose(fast, network(x))


def test_dtypes_and_formats() -> None:
    network, x = built(Functions).float(), images()
    made = sg.linearize.apply(network, planned(network, x))
    with torch.autocast("cpu", torch.bfloat16):
        assert made(x).dtype == network(x).dtype == torch.bfloat16
    assert made.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_compiled_networks_compute_the_same() -> None:
    torch._dynamo.reset()
    network, x = built(Residual), inputs_of(Residual)
    made = sg.linearize.apply(network, planned(network, x))
    compiled = torch.compile(made, backend="eager")
    assert torch.equal(compiled(x), made(x))


def test_output_changed_in_place_leaves_the_input_alone() -> None:
    network, x = built(ChangedOutput), inputs_of(ChangedOutput)
    plan = planned(network, x, maps="identity")
    made = sg.linearize.apply(network, plan)
    torch.testing.assert_close(made(x), network.two(3 * network.one(x)))


@pytest.mark.parametrize("maps", ["channel", "full"])
def test_one_image_without_an_axis_of_samples_is_mapped_by_its_channels(maps: Any) -> None:
    torch.manual_seed(0)
    # as many channels as rows, so that the wrong axis would go unnoticed
    layers = [nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 2, 1)]
    network = nn.Sequential(*layers).double().eval()
    x = images().double()
    made = sg.linearize.apply(network, planned(network, x, maps=maps))
    together = made(x)
    alone = torch.stack([made(one) for one in x])
    torch.testing.assert_close(alone, together)
    assert not torch.allclose(together, network(x))
