"""The examples run, and end with a picture that shows what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from sigmascope.catalog.optional import optional

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FRAMEWORKS = ("plain_loop", "lightning", "huggingface", "accelerate")
TRACKS = [*(f"monitor_{name}" for name in FRAMEWORKS), "affinity_penalty"]
CURVES = {"linearize_a_network": 5, "align_two_networks": 5}  # -> rows of the figure's data

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the log"),
]


def run(name: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> dict[str, Any]:
    """Run an example where it could leave files, and return its names."""
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(EXAMPLES.parent / "zoo"))
    optional("torchvision")  # which others import; it may be one for another torch
    monkeypatch.chdir(directory)
    with mpl.rc_context({"backend": "agg"}):
        return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        *TRACKS,
        *CURVES,
        "torchmetrics_affinity",
    }


@pytest.mark.thorough
@pytest.mark.parametrize("name", CURVES)
def test_an_example_ends_with_a_picture(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = run(name, monkeypatch, tmp_path)
    assert len(found["drawn"].table) >= CURVES[name]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "name", [TRACKS[0], *(pytest.param(one, marks=pytest.mark.thorough) for one in TRACKS[1:])]
)
def test_a_training_ends_with_its_track(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = run(name, monkeypatch, tmp_path)
    rows = found["drawn"].table
    assert len({row["step"] for row in rows}) >= 8
    assert len({row["site"] for row in rows}) >= 4
    scores = [row["score"] for row in rows]
    assert all(score == score for score in scores)
    assert max(scores) - min(scores) > 0.05  # there is something to see
    assert not [*tmp_path.iterdir()]
    if name == "affinity_penalty":
        change = found["pushed"].scores[-1] - found["free"].scores[-1]
        assert change[3:].min() > 0.05


def test_a_metric_ends_with_a_curve_for_each_activation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = run("torchmetrics_affinity", monkeypatch, tmp_path)
    assert {name: len(values) for name, values in found["scores"].items()} == {
        "ReLU": 17, "GELU": 17, "SiLU": 17, "tanh": 17
    }  # fmt: skip
    relu = found["scores"]["ReLU"]
    assert relu[-1] > 0.9 > 0.7 > relu[8]
    assert not [*tmp_path.iterdir()]
    plt.close(found["figure"])
