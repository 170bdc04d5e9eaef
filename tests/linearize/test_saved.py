"""Linearized networks in files: they come back the same, and what does not fit is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.errors import FileFormatError, InputError, InputTypeError, NetworkError, OptionError
from sigmascope.linearize import Plan, SavedNetwork, fold, load, save
from sigmascope.linearize.layers import Layer, build, describe, layers_of
from tests.linearize.small import (
    IMAGES,
    VECTORS,
    Functions,
    Modules,
    Residual,
    Reusing,
    built,
    images,
    vectors,
)


def inputs_of(kind: type[nn.Module]) -> torch.Tensor:
    return (images if kind in IMAGES else vectors)().double()


def planned(network: nn.Module, x: torch.Tensor, **options: Any) -> Plan:
    return sg.linearize.plan(network, x, **{"budget": 0.6, "by": "r2", "scores": False, **options})


def perturbed(network: nn.Module) -> nn.Module:
    """Stands for a tuned network."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator).to(parameter)
    return network.eval()


@pytest.mark.parametrize("maps", ["channel", "full", "identity"])
@pytest.mark.parametrize("kind", [*IMAGES, *VECTORS])
def test_a_network_comes_back_the_same(kind: type[nn.Module], maps: Any, tmp_path: Path) -> None:
    original, x = built(kind), inputs_of(kind)
    plan = planned(original, x, maps=maps)
    network = perturbed(sg.linearize.apply(original, plan))
    path = save(network, tmp_path / "made", plan=plan)
    assert path == tmp_path / "made" / "network.json"
    assert sorted(one.name for one in path.parent.iterdir()) == [
        "network.json",
        "network.safetensors",
    ]
    other = built(kind, seed=5)  # the architecture, with other weights
    before = {name: value.clone() for name, value in other.state_dict().items()}
    again = load(tmp_path / "made", other)
    assert torch.equal(again(x), network(x))
    assert again.state_dict().keys() == network.state_dict().keys()
    assert not any(module.training for module in again.modules())
    assert all(torch.equal(before[name], value) for name, value in other.state_dict().items())
    # negative control: the outputs depend on the weights in the file
    assert not torch.equal(sg.linearize.apply(original, plan)(x), network(x))


def test_a_folded_network_is_folded_again(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 6), nn.BatchNorm1d(6), nn.Tanh()]
    original = nn.Sequential(*layers, nn.Linear(6, 3)).double().eval()
    x = torch.randn(64, 6, dtype=torch.float64)
    plan = planned(original, x, budget=1, sites="relu")
    network = perturbed(sg.linearize.apply(original, plan))
    folded = fold(network, keep="fewer")
    assert folded.after.layers < folded.before.layers
    save(network, tmp_path, plan=plan, folded=folded)
    again = load(tmp_path, original)
    assert torch.equal(again(x), folded.network(x))
    count = sum(isinstance(one, nn.Linear) for one in again.modules())
    assert count < 3
    torch.testing.assert_close(again(x), network(x))


def test_networks_of_the_catalog_are_found_by_name(tmp_path: Path) -> None:
    model = sg.catalog.model("sigmascope/resnet20:3-init")
    x = torch.randn(16, 3, 32, 32)
    plan = planned(model.network, x, budget=3)
    network = sg.linearize.apply(model.network, plan)
    save(network, tmp_path, plan=plan, name=model.name)
    for given in (None, "sigmascope/resnet20", model.network):
        again = load(tmp_path, given)
        assert torch.equal(again(x), network(x))
    with pytest.raises(NetworkError, match=r"resnet20.* whose layers differ.*saved with torch"):
        load(tmp_path, "sigmascope/resnet32")
    # the same layers without residual connections
    with pytest.raises(NetworkError, match=r"has the layers of the .* but computes something else"):
        load(tmp_path, "sigmascope/plain20")


def test_a_name_in_a_file_runs_no_code(tmp_path: Path) -> None:
    original, x = built(Modules), inputs_of(Modules)
    plan = planned(original, x)
    network = sg.linearize.apply(original, plan)
    for name in ("py:nets.py:one", "hf/somebody", "onnx:a.onnx", ""):
        save(network, tmp_path, plan=plan, name=name)
        with pytest.raises(OptionError, match=r"cannot be built from the catalog.*load\(path, mo"):
            load(tmp_path)
    with pytest.raises(InputTypeError, match="must be a network or its name"):
        load(tmp_path, 3)  # type: ignore[arg-type]


def test_dtypes_of_the_file_are_those_of_the_network(tmp_path: Path) -> None:
    original = built(Modules).float()
    plan = planned(original, inputs_of(Modules).float())
    network = sg.linearize.apply(original, plan).double()
    save(network, tmp_path, plan=plan)
    assert {one.dtype for one in load(tmp_path, original).parameters()} == {torch.float64}


def test_results_are_taken_and_other_things_refused(tmp_path: Path) -> None:
    x, y = torch.randn(64, 6), torch.zeros(64, dtype=torch.long)
    original = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    plan = planned(original, x, budget=1)
    network = sg.linearize.apply(original, plan)
    tuned = sg.linearize.tune(network, (x, y), epochs=1)
    save(tuned, tmp_path, plan=plan)
    assert torch.equal(load(tmp_path, original)(x), tuned.network(x))
    with pytest.raises(
        InputError, match=r"was folded\. Pass the network that fold was called with"
    ):
        save(fold(network, keep="all"), tmp_path, plan=plan)
    with pytest.raises(InputTypeError, match=r"not a torch\.nn\.Module"):
        save("network", tmp_path, plan=plan)
    with pytest.raises(InputTypeError, match="plan must be of type Plan"):
        save(network, tmp_path, plan="plan")  # type: ignore[arg-type]


class Holder(nn.Module):
    """A network with a part of the name that the result of `tune` has for its network."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
        self.head = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.network(x))


def test_a_part_called_network_is_not_the_network(tmp_path: Path) -> None:
    original, x = built(Holder), vectors().double()
    plan = planned(original, x, budget=1)
    network = sg.linearize.apply(original, plan).eval()
    save(network, tmp_path, plan=plan)
    assert torch.equal(load(tmp_path, original)(x), network(x))


@pytest.mark.parametrize("maps", ["channel", "identity"])
@pytest.mark.parametrize("kind", [Modules, Functions, Reusing])
def test_a_network_of_another_plan_is_refused(
    kind: type[nn.Module], maps: Any, tmp_path: Path
) -> None:
    original, x = built(kind), inputs_of(kind)
    one, both = (planned(original, x, budget=count, maps=maps) for count in (1, 2))
    for network, plan, match in (
        (sg.linearize.apply(original, one), both, "has no map in place of .* plan replaces"),
        (sg.linearize.apply(original, both), one, "has a map in place of .* plan keeps"),
        (original, one, "has no map in place of"),
    ):
        with pytest.raises(InputError, match=match):
            save(network, tmp_path, plan=plan)
    assert not any(tmp_path.iterdir())


def test_the_network_of_a_fold_is_refused(tmp_path: Path) -> None:
    original, x = built(Modules), inputs_of(Modules)
    plan = planned(original, x, budget=1)
    folded = fold(sg.linearize.apply(original, plan).eval(), keep="all")
    assert folded.merges
    with pytest.raises(InputError, match=r"torch\.fx graph.*that fold was called with"):
        save(folded.network, tmp_path, plan=plan)


# what bad files get


@pytest.fixture
def saved(tmp_path: Path) -> SavedNetwork:
    original = built(Residual)
    plan = planned(original, inputs_of(Residual))
    path = save(sg.linearize.apply(original, plan), tmp_path, plan=plan)
    return SavedNetwork.load(path)


def test_other_architectures_are_refused(saved: SavedNetwork) -> None:
    with pytest.raises(NetworkError, match="made of a Residual whose layers differ"):
        saved.built(built(Modules))


def replaced(saved: SavedNetwork, first: str, **changes: Any) -> SavedNetwork:
    """Return a file in which the first layer of a kind is another."""
    place = next(n for n, layer in enumerate(saved.layers) if layer.kind == first)
    layers = list(saved.layers)
    layers[place] = dataclasses.replace(layers[place], **changes)
    return dataclasses.replace(saved, layers=tuple(layers))


def test_layers_that_do_not_fit_are_named(saved: SavedNetwork) -> None:
    model = built(Residual)
    wide = {"channels": (10**9,), "axis": (1,), "flags": (0, 0)}
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("cannot build. Upgrade", "Affine", {"kind": "Attention"}),
        ("cannot be built as a Affine", "Affine", {"sizes": {}}),
        ("in the file and .* in the network", "Affine", {"sizes": wide}),
        ("has no layer 'nowhere'", "Affine", {"paths": ("nowhere",)}),
        ("has no place", "Affine", {"paths": ()}),
        ("has no layer ''", "Affine", {"paths": ("",)}),
        ("nothing in the network", "Affine", {"kind": "Identity", "sizes": {}}),
    ]
    for match, kind, changes in cases:
        with pytest.raises(FileFormatError, match=match):
            replaced(saved, kind, **changes).built(model)


def test_weights_that_do_not_fit_are_named(saved: SavedNetwork) -> None:
    tensors = dict(saved.tensors)
    name = next(key for key in tensors if key.endswith("conv.weight"))
    for change in ({name: torch.zeros(2)}, {"more": torch.zeros(2)}):
        other = dataclasses.replace(saved, tensors={**tensors, **change})
        with pytest.raises(FileFormatError, match=r"in the file and .* in the network"):
            other.built(built(Residual))
    del tensors[name]
    with pytest.raises(FileFormatError, match="is nothing in the file"):
        dataclasses.replace(saved, tensors=tensors).built(built(Residual))


def test_merges_that_are_not_possible_are_named(saved: SavedNetwork) -> None:
    with pytest.raises(FileFormatError, match="cannot be folded as it says: merges has 'a:b'"):
        dataclasses.replace(saved, merges=("a:b",)).built(built(Residual))


def test_damaged_files_are_named(saved: SavedNetwork, tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    text = path.read_text()
    path.write_text(text.replace('"channel"', '"full"'))
    with pytest.raises(FileFormatError, match="does not match its digest"):
        load(tmp_path, built(Residual))
    path.write_text(text)
    tensors = tmp_path / "network.safetensors"
    data = tensors.read_bytes()
    tensors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FileFormatError, match="does not match its digest"):
        load(tmp_path, built(Residual))
    tensors.unlink()
    with pytest.raises(FileNotFoundError, match=r"network\.safetensors"):
        load(tmp_path, built(Residual))
    with pytest.raises(FileNotFoundError, match=r"network\.json"):
        load(tmp_path / "nowhere", built(Residual))


# layers as plain values


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 4),
        nn.Linear(3, 4, bias=False),
        nn.Conv1d(4, 6, 3, padding="same"),
        nn.Conv2d(4, 6, (3, 5), stride=2, padding=(1, 2), groups=2, padding_mode="reflect"),
        nn.Conv3d(2, 2, 1, dilation=2, bias=False),
        nn.Identity(),
        sg.linearize.Affine(torch.ones(3), torch.ones(3), axis=1, inplace=True),
        sg.linearize.Affine(torch.ones(1), torch.ones(1), axis=None),
        sg.linearize.Affine.full(torch.ones(3, 3), torch.ones(3), axis=-1),
    ],
)
def test_layers_are_built_as_they_were(module: nn.Module) -> None:
    layer = describe(module)
    assert layer is not None
    made = build(layer)
    assert repr(made) == repr(module)
    assert layer.is_like(describe(made))
    shapes = [{name: one.shape for name, one in m.state_dict().items()} for m in (module, made)]
    assert shapes[0] == shapes[1]
    assert all(parameter.is_meta for parameter in made.parameters())


def test_what_is_no_such_layer_is_left_to_the_architecture() -> None:
    assert describe(nn.BatchNorm2d(3)) is None
    assert describe(nn.MultiheadAttention(4, 2).out_proj) is None
    shared = nn.Linear(3, 3)
    found = [*layers_of(nn.Sequential(shared, nn.ReLU(), shared))]
    assert found == [Layer("Linear", ("0", "2"), {"features": (3, 3), "bias": (1,)})]
