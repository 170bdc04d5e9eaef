"""With the version of the oldest torch allowed: everything imports, measures, and is careful."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = """
import importlib, pkgutil, sys
import torch
from torch.torch_version import TorchVersion

torch.__version__ = TorchVersion(sys.argv[1])
import sigmascope as sg

for name in sg.__all__:
    getattr(sg, name)
for module in pkgutil.walk_packages(sg.__path__, "sigmascope."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
network = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU())
found = sg.signature(network, torch.randn(64, 4), progress=False)
print(found.versions["torch"], found.coverage.scored)
torch.save(network.state_dict(), sys.argv[2])
try:
    sg.catalog.model("sigmascope/resnet20", weights=sys.argv[2])
except sg.MissingExtraError as error:
    print(error)
"""


def test_the_oldest_version_imports_and_measures(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [oldest] = [
        one.partition(">=")[2] for one in project["dependencies"] if one.startswith("torch>")
    ]
    done = subprocess.run(
        [sys.executable, "-c", CODE, f"{oldest}.0", str(tmp_path / "weights.pt")],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured, refused = done.stdout.splitlines()
    assert measured == f"{oldest}.0 1"
    assert "CVE-2026-24747" in refused  # weights of others need a newer one
    assert "safetensors" in refused
