"""Packages that are too old to read files of others: refused there, and nowhere else."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import sigmascope as sg
from sigmascope.catalog import model
from sigmascope.catalog.floors import FLOORS, check_floor, is_below_floor
from sigmascope.catalog.optional import optional
from sigmascope.catalog.weights import load_weights
from sigmascope.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 10,
}


@pytest.fixture
def old_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")


def pretend(monkeypatch: pytest.MonkeyPatch, package: str, version: str) -> None:
    real = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: version if name == package else real(name)
    )


@pytest.mark.usefixtures("old_torch")
def test_old_torch_reads_no_file_of_torch(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "w.pt")
    wanted = (
        r"w\.pt is not read with torch 2\.9\.1\+cpu: before 2\.10, a \.pt, .* \(CVE-2026-24747\)\. "
        r'pip install "torch>=2\.10"\. Or save model\.state_dict\(\) as safetensors\.$'
    )
    with pytest.raises(MissingExtraError, match=wanted):
        load_weights(nn.Linear(2, 2), tmp_path / "w.pt")


@pytest.mark.usefixtures("old_torch")
def test_old_torch_measures_and_reads_safetensors(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    load_weights(network, tmp_path / "w.safetensors")
    assert sg.signature(network, torch.randn(64, 4)).scores.shape == (1,)


@pytest.mark.usefixtures("old_torch")
def test_old_torch_reads_no_weights_of_torchvision() -> None:
    with pytest.raises(MissingExtraError, match=r"resnet18-.*\.pth is not read with torch 2\.9"):
        model("torchvision/resnet18")
    assert model("torchvision/resnet18", weights=None).network is not None


@pytest.mark.usefixtures("old_torch")
def test_old_torch_reads_no_file_of_torch_in_a_folder_of_transformers(tmp_path: Path) -> None:
    library = optional("transformers")
    network = library.AutoModel.from_config(library.AutoConfig.for_model("bert", **TINY))
    network.save_pretrained(tmp_path)
    assert model(f"hf/{tmp_path}").network is not None
    (tmp_path / "model.safetensors").unlink()
    torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(sg.FileFormatError, match="safetensors"):
        model(f"hf/{tmp_path}")


def test_old_transformers_read_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "transformers", "5.4.9")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **TINY}))
    for weights in ("default", None):
        wanted = r"is not read with transformers 5\.4\.9: before 5\.5, a config\.json can run code"
        with pytest.raises(MissingExtraError, match=wanted):
            model(f"hf/{tmp_path}", weights=weights)
    assert model("hf/resnet", weights=None).network is not None


def test_old_onnx_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx2torch")
    pretend(monkeypatch, "onnx", "1.20.1")
    (tmp_path / "net.onnx").write_bytes(b"")
    with pytest.raises(MissingExtraError, match=r"net\.onnx is not read with onnx 1\.20\.1"):
        model(f"onnx:{tmp_path / 'net.onnx'}")


@pytest.mark.parametrize("package", FLOORS)
def test_floors(package: str) -> None:
    major, minor = FLOORS[package].version
    assert is_below_floor(package, f"{major}.{minor - 1}.3")
    assert is_below_floor(package, f"{major}.{minor}.0rc1")
    assert not is_below_floor(package, f"{major}.{minor}.0")
    assert not is_below_floor(package, "a version of one's own")
    check_floor(package, "a file")  # the tested set is new enough


def test_the_metadata_of_the_package_have_the_floors() -> None:
    """But for torch, which measures networks of one's own when it is older."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {one for extra in project["optional-dependencies"].values() for one in extra}
    for package in FLOORS.keys() - {"torch"}:
        floor = ".".join(map(str, FLOORS[package].version))
        assert {one for one in asked if re.match(rf"{package}\b", one)} == {f"{package}>={floor}"}


KEYS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("weights", ["default", None])
def test_a_folder_names_no_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, weights: str | None
) -> None:
    library = optional("transformers")
    asked: list[Any] = []
    network = library.AutoModel.from_config(library.AutoConfig.for_model("bert", **TINY))
    network.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: "somebody/kernel"}))
    base = library.PreTrainedModel
    check = base._check_and_adjust_attn_implementation

    def noted(self: Any, wanted: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(wanted)
        return check(self, wanted, *args, **kwargs)

    monkeypatch.setattr(base, "_check_and_adjust_attn_implementation", noted)
    found: Any = model(f"hf/{tmp_path}", weights=weights).network
    assert asked == [None]
    assert found.config._attn_implementation in ("sdpa", "eager")
