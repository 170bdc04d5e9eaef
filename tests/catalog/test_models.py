"""Networks by name: what they are, which weights they take, and what is said when something is
missing.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import sigmascope as sg
from sigmascope.catalog import model, model_names
from sigmascope.catalog.cifar import NETWORKS
from tests.catalog.stubs import Code

BAD_SEEDS = ("a", 2**70, 2**32, -1, 1.5, None, True)
PARAMETERS = {
    "resnet20": 269_722,
    "resnet32": 464_154,
    "resnet56": 853_018,
    "myrtle": 1_557_066,
    "myrtle-nobn": 1_556_106,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_our_own_networks(name: str) -> None:
    found = model(f"sigmascope/{name}", weights=None)
    assert not found.network.training
    assert found.network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert found.parameters == PARAMETERS.get(
        name.replace("plain", "resnet").partition("-leaky")[0], found.parameters
    )


@pytest.mark.parametrize(
    ("name", "depth"),
    [("resnet20", 19), ("plain20", 19), ("resnet56", 55), ("myrtle", 4), ("vit", 6)],
)
def test_depth_is_the_longest_path(name: str, depth: int) -> None:
    assert model(f"sigmascope/{name}", weights=None).depth == depth


def test_random_weights_follow_the_seed_and_leave_the_generator_alone() -> None:
    state = torch.get_rng_state()
    first, again, other = (
        model("sigmascope/resnet20", weights=None, seed=seed).network.state_dict()
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first["conv1.weight"], again["conv1.weight"])
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


def test_embedded_weights_are_right_on_the_embedded_images() -> None:
    from sigmascope.catalog import data

    for name, accuracy in (("resnet20", 91.5), ("plain20", 90)):
        found = model(f"sigmascope/{name}")
        assert found.weights == "embedded"
        assert found.accuracy is not None
        assert found.accuracy >= accuracy
        (images, labels), *_ = data("embedded", transform=found.transform)
        with torch.no_grad():
            right = float((found.network(images).argmax(1) == labels).float().mean())
        assert right > 0.88


@pytest.mark.parametrize("library", ["torchvision/resnet18", "timm/resnet10t", "hf/vit"])
def test_networks_of_other_libraries(library: str) -> None:
    found = model(library, weights=None)
    assert found.parameters > 0
    assert found.accuracy is None
    assert found.transform is not None
    images = found.transform(torch.randint(0, 256, (1, 3, 300, 260)))
    expected = found.inputs["pixel_values"] if isinstance(found.inputs, dict) else found.inputs
    assert images.shape == expected.shape


def test_every_library_is_listed() -> None:
    names = model_names()
    assert {"sigmascope", "torchvision", "timm", "hf"} <= set(names)
    assert "torchvision/resnet50" in names["torchvision"]
    assert names["files"] == ["onnx:FILE", "py:FILE:FUNCTION"]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (
            {"weights": "none"},
            sg.OptionError,
            r"weights='none' is not a file.* None for random ones, or the path",
        ),
        ({"weights": "Default"}, sg.OptionError, r"weights='Default' is not a file"),
        ({"weights": ""}, sg.OptionError, r"weights='' is not a file"),
        ({"weights": 5}, sg.OptionError, r"weights=5 is not valid. Pass \"default\""),
        ({"weights": True}, sg.OptionError, r"weights=True is not valid"),
        ({"weights": "none.pt"}, sg.InputError, r"none\.pt: no such file"),
        *(
            (
                {"seed": value},
                sg.OptionError,
                r"seed must be a whole number from 0 to 4294967295, got .*",
            )
            for value in BAD_SEEDS
        ),
    ],
)
def test_options_that_are_none(
    options: dict[str, object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        model("sigmascope/myrtle", **{"weights": None, **options})  # type: ignore[arg-type]


def test_a_gpu_that_is_not_in_use_is_not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch keeps a seed for a GPU until its first use: ours would replace the caller's."""
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    for name, weights in (("myrtle", None), ("myrtle:3-init", "default")):
        model(f"sigmascope/{name}", weights=weights)
    assert seeds == []
    torch.manual_seed(0)
    assert seeds == [0]  # what is avoided


def test_the_random_states_of_gpus_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {device: torch.full((16,), 40 + device, dtype=torch.uint8) for device in range(2)}
    before = dict(states)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "get_rng_state", lambda device: states[int(getattr(device, "index", device))]
    )
    monkeypatch.setattr(
        torch.cuda,
        "set_rng_state",
        lambda state, device: states.update({int(getattr(device, "index", device)): state}),
    )
    monkeypatch.setattr(
        torch.cuda,
        "manual_seed_all",
        lambda seed: states.update(dict.fromkeys(states, torch.zeros(16, dtype=torch.uint8))),
    )
    model("sigmascope/myrtle", weights=None)
    assert all(torch.equal(states[device], before[device]) for device in before)


WEIGHTS = {"safetensors": save_file, "pt": torch.save}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_from_a_file(tmp_path: Path, kind: str, prefix: str) -> None:
    state = {
        f"{prefix}{name}": value.contiguous()
        for name, value in NETWORKS["myrtle"]().state_dict().items()
    }
    path = tmp_path / f"weights.{kind}"
    WEIGHTS[kind](state, path)
    found = model("sigmascope/myrtle", weights=path)
    assert torch.equal(found.network.state_dict()["0.weight"], state[f"{prefix}0.weight"])
    assert found.weights == str(path)


def test_a_file_that_would_run_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "weights.pt"
    torch.save({"a": Code()}, path)
    with pytest.raises(
        sg.FileFormatError, match=r"could run code. Save model.state_dict\(\) as safetensors"
    ):
        model("sigmascope/myrtle", weights=path)
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(Code()))
    with pytest.raises(sg.FileFormatError, match=r"could run code"):
        model("sigmascope/myrtle", weights=tmp_path / "plain.pkl")
    assert not (tmp_path / "ran").exists()


def test_weights_of_another_network(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "w.safetensors")
    with pytest.raises(sg.FileFormatError, match="not the weights of MyrtleCNN"):
        model("sigmascope/myrtle", weights=tmp_path / "w.safetensors")
    with pytest.raises(sg.InputError, match=r"no such file\. Pass the path"):
        model("sigmascope/myrtle", weights=tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        (
            "resnet20",
            sg.OptionError,
            r"'resnet20' is not in the catalog.*Did you mean 'sigmascope/resnet20'\?",
        ),
        ("plain20:1", sg.OptionError, r"Did you mean 'sigmascope/plain20:1'\?"),
        (
            "resnet50",
            sg.OptionError,
            r"'resnet50' is not in the catalog. Names start with torchvision/, timm/",
        ),
        ("sigmascope/resnet2", sg.OptionError, r"Did you mean 'sigmascope/resnet"),
        ("sigmascope/", sg.OptionError, r"'sigmascope/' is not in the catalog"),
        (
            "hf:bert",
            sg.OptionError,
            r"'hf:bert' is not in the catalog. .* Did you mean 'hf/bert'\?",
        ),
        ("torchvison/resnet50", sg.OptionError, r"Did you mean 'torchvision/resnet50'\?"),
        (3, sg.InputTypeError, r"name must be a string such as 'torchvision/resnet50', got int"),
    ],
)
def test_names_that_are_none(name: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        model(name)


def test_a_generator_is_a_seed() -> None:
    one, two = (
        model("sigmascope/resnet20", weights=None, seed=torch.Generator().manual_seed(3)).weights
        for _ in range(2)
    )
    assert one == two
