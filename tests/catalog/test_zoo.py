"""Our own networks and the weights of a folder `zoo`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import sigmascope as sg
from sigmascope.catalog import model, model_names
from sigmascope.catalog.cifar import NETWORKS

REPOSITORY = Path(__file__).resolve().parents[2] / "zoo"


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo with a Myrtle network of seed 0, at two epochs, and a leaky one of seed 2."""
    (tmp_path / "weights").mkdir()
    index = {}
    for number, (network, suffix) in enumerate(
        [("myrtle", "s0"), ("myrtle", "s0-e1"), ("resnet20-leaky0.1", "s2")]
    ):
        torch.manual_seed(number)
        path = tmp_path / "weights" / f"{network}-{suffix}.safetensors"
        save_file(
            {name: value.half() for name, value in NETWORKS[network]().state_dict().items()}, path
        )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        index[path.stem] = {"network": network, "accuracy": 90.0 + number, "sha256": digest}
    (tmp_path / "index.json").write_text(json.dumps(index))
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "entry", "accuracy"),
    [
        ("myrtle", "myrtle-s0", 90),
        ("myrtle:0", "myrtle-s0", 90),
        ("myrtle:0-e1", "myrtle-s0-e1", 91),
        ("resnet20-leaky0.1:2", "resnet20-leaky0.1-s2", 92),
    ],
)
def test_weights_of_the_zoo(zoo: Path, name: str, entry: str, accuracy: float) -> None:
    from safetensors.torch import load_file

    found = model(f"sigmascope/{name}")
    assert (found.weights, found.accuracy) == (f"zoo: {entry}", accuracy)
    stored = load_file(zoo / "weights" / f"{entry}.safetensors")
    state = found.network.state_dict()
    assert all(torch.equal(state[key], stored[key].to(state[key].dtype)) for key in state)


def test_the_folder_of_the_working_directory_is_found(
    zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SIGMASCOPE_ZOO")
    (zoo / "here").mkdir()
    (zoo / "here" / "zoo").symlink_to(zoo)
    monkeypatch.chdir(zoo / "here")
    assert model("sigmascope/myrtle").accuracy == 90


def test_what_is_stored_is_listed(zoo: Path) -> None:
    names = model_names()["sigmascope"]
    assert names[-3:] == [
        "sigmascope/myrtle:0",
        "sigmascope/myrtle:0-e1",
        "sigmascope/resnet20-leaky0.1:2",
    ]
    assert "sigmascope/vit" in names
    (zoo / "index.json").unlink()
    assert model_names()["sigmascope"] == names[:-3]


def test_the_zoo_of_this_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(REPOSITORY))
    index = json.loads((REPOSITORY / "index.json").read_text())
    for name, entry in (("resnet20:1", "resnet20-s1"), ("resnet20:3-e10", "resnet20-s3-e10")):
        assert model(f"sigmascope/{name}").accuracy == index[entry]["accuracy"]


@pytest.mark.parametrize(("network", "seed"), [("resnet20", 3)])
def test_a_seed_gives_the_weights_that_training_began_with(network: str, seed: int) -> None:
    from safetensors.torch import load_file

    state = model(f"sigmascope/{network}:{seed}-init").network.state_dict()
    stored = load_file(REPOSITORY / "weights" / f"{network}-s{seed}-init.safetensors")
    assert all(torch.equal(state[key].to(stored[key].dtype), stored[key]) for key in stored)
    other = model(f"sigmascope/{network}:{seed + 1}-init").network.state_dict()
    assert not torch.equal(next(iter(other.values())), next(iter(state.values())))


def test_the_pair_is_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(tmp_path))
    assert [
        model(f"sigmascope/{name}").weights for name in ("resnet20", "plain20", "resnet20:0")
    ] == ["embedded"] * 3


def test_without_a_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIGMASCOPE_ZOO", raising=False)
    for name in ("vit", "resnet20:1"):
        with pytest.raises(
            sg.InputError,
            match=r"ships weights for resnet20 and plain20 only, and zoo is not .*set "
            r"SIGMASCOPE_ZOO",
        ):
            model(f"sigmascope/{name}")


def test_weights_that_the_zoo_does_not_list(zoo: Path) -> None:
    with pytest.raises(
        sg.OptionError,
        match=r"sigmascope/myrtle:7 is not in the zoo, which has sigmascope/myrtle:0, "
        r"sigmascope/myrtle:0-e1\.",
    ):
        model("sigmascope/myrtle:7")
    with pytest.raises(
        sg.OptionError,
        match=r"sigmascope/vit:0 is not in the zoo, which has no weights of this network\.",
    ):
        model("sigmascope/vit")


def test_the_end_may_be_named_and_a_seed_must_be(zoo: Path) -> None:
    assert model("sigmascope/myrtle:0-end").weights == "zoo: myrtle-s0"
    assert model("sigmascope/resnet20:0-end").weights == "embedded"
    with pytest.raises(
        sg.OptionError,
        match=r"'sigmascope/resnet20:' has no seed after the colon. Write sigmascope/resnet20, or",
    ):
        model("sigmascope/resnet20:")
    with pytest.raises(
        sg.OptionError,
        match=r"seed must be a whole number from 0 to 9223372036854775807, got 9{23}",
    ):
        model(f"sigmascope/resnet20:{'9' * 23}-init")


def test_a_name_of_weights_with_other_weights() -> None:
    with pytest.raises(
        sg.OptionError, match=r"resnet20:1 names weights of the zoo, but weights= asks for others"
    ):
        model("sigmascope/resnet20:1", weights=None)


def test_files_that_are_not_the_listed_ones(zoo: Path) -> None:
    path = zoo / "weights" / "myrtle-s0.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(sg.FileFormatError, match="its checksum differs from the index"):
        model("sigmascope/myrtle")
    path.unlink()
    with pytest.raises(sg.InputError, match=r"is in the index but missing.*python zoo/train\.py"):
        model("sigmascope/myrtle")
    (zoo / "index.json").write_text("{")
    with pytest.raises(sg.FileFormatError, match=r"index\.json: not valid JSON"):
        model("sigmascope/myrtle")


def test_images_of_any_size_are_brought_to_that_of_cifar() -> None:
    transform = model("sigmascope/resnet20").transform
    assert transform is not None
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    mean, std = (
        torch.tensor(values)[:, None, None]
        for values in ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    )
    assert torch.equal(transform(images), (images / 255 - mean) / std)
    for size in ((28, 28), (60, 90)):
        assert transform(torch.zeros(1, 3, *size, dtype=torch.uint8)).shape == (1, 3, 32, 32)
