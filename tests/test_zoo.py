"""The zoo is what its index says, and the package carries a part of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from sigmascope.catalog.cifar import NETWORKS

ZOO = Path(__file__).resolve().parents[1] / "zoo"
EMBEDDED = ZOO.parent / "src" / "sigmascope" / "catalog" / "embedded_files"
INDEX = json.loads((ZOO / "index.json").read_text())


@pytest.mark.parametrize("name", INDEX)
def test_a_file_is_the_listed_one_and_fits_its_network(name: str) -> None:
    path, entry = ZOO / "weights" / f"{name}.safetensors", INDEX[name]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
    assert path.stat().st_size == entry["bytes"] < 6 * 2**20
    NETWORKS[entry["network"]]().load_state_dict(load_file(path))


def test_nothing_is_there_that_is_not_listed() -> None:
    assert {path.stem for path in (ZOO / "weights").iterdir()} == set(INDEX)
    assert sum(entry["bytes"] for entry in INDEX.values()) < 60 * 2**20


@pytest.mark.parametrize(("network", "least"), [("resnet20", 91.5), ("plain20", 90.0)])
def test_trained_networks_are_accurate_and_untrained_ones_are_not(network: str, least: float) -> None:
    entries = [entry for entry in INDEX.values() if entry["network"] == network]
    trained = [entry["accuracy"] for entry in entries if entry["checkpoint"] == "end"]
    assert len(trained) >= 3
    assert min(trained) >= least
    assert all(entry["accuracy"] < 20 for entry in entries if entry["checkpoint"] == "init")


def test_the_package_carries_the_first_pair() -> None:
    listed = json.loads((EMBEDDED / "index.json").read_text())
    for name, entry in listed.items():
        assert entry == INDEX[f"{name}-s0"]
        assert hashlib.sha256((EMBEDDED / f"{name}.safetensors").read_bytes()).hexdigest() == entry["sha256"]
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 4 * 2**20
