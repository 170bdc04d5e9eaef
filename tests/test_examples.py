"""The examples run, say the truth, and end with a picture."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sigmascope.catalog.optional import optional
from sigmascope.figures import Drawn
from tests.example_claims import CLAIMS

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
# These take some 12 seconds together; the others are tried by `make test-thorough`.
QUICK = {
    "affinity_penalty",
    "channels_of_a_layer",
    "first_signature",
    "formulas",
    "gated_units",
    "where_inputs_lie",
    "your_own_activation",
}
NEEDS = {
    "first_signature": "pandas",
    "monitor_accelerate": "accelerate",
    "monitor_huggingface": "transformers",
    "monitor_lightning": "lightning",
    "survey_of_networks": "pandas",
    "torchmetrics_affinity": "torchmetrics",
}

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


def picture_of(found: dict[str, Any]) -> Figure:
    """Return the figure that the gallery shows: the last one of the library, or of pyplot."""
    drawn = [value.figure for value in found.values() if isinstance(value, Drawn)]
    pyplot = [plt.figure(number) for number in plt.get_fignums()]
    assert len(drawn) + len(pyplot) == 1
    return (drawn + pyplot)[0]


def ink(figure: Figure) -> float:
    """Return the share of pixels that are not white."""
    pixels = Drawn(figure, (), ()).pixels()
    return float((pixels < 250).any(axis=2).mean())


def words(panel: Axes) -> str:
    """Return what is written on the sides of a panel."""
    titles = [panel.get_title(side) for side in ("left", "center", "right")]
    return "".join([panel.get_xlabel(), panel.get_ylabel(), *titles])


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


def test_the_header_of_the_gallery_has_each_of_them() -> None:
    header = (EXAMPLES / "GALLERY_HEADER.rst").read_text(encoding="utf-8")
    assert sorted(re.findall(r"<([a-z_]+)>`", header)) == NAMES


def test_there_are_enough_of_them_and_each_is_judged() -> None:
    assert len(NAMES) >= 28
    assert set(CLAIMS) == set(NAMES)
    assert set(NAMES) >= QUICK


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_a_title_prose_and_a_last_block_that_draws(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    title, line, empty, prose = (ast.get_docstring(ast.parse(text)) or "").splitlines()[:4]
    assert line == "=" * len(title)
    assert not empty
    assert prose
    assert len(title) <= 70
    last = text.split("# %%\n")[-2 if "console" in text.split("# %%\n")[-1] else -1]
    assert last.startswith("# ")  # what the picture shows
    assert "drawn = " in last or "plt.subplot" in last


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.thorough) for one in NAMES]
)
def test_an_example_runs_and_ends_with_a_picture_that_shows_what_it_says(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if name in NEEDS:
        optional("torchvision")  # which they import; it may be one for another torch
        pytest.importorskip(NEEDS[name])
    found = run(name, monkeypatch, tmp_path)
    figure = picture_of(found)
    assert 0.01 < ink(figure) < 0.9
    assert any(map(words, figure.axes))
    assert not [*tmp_path.iterdir()]
    CLAIMS[name](found)


def test_a_picture_without_anything_in_it_would_be_noticed() -> None:
    figure = Figure(figsize=(4, 3))
    assert ink(figure) == 0.0
    figure.subplots().plot(np.arange(4))
    assert ink(figure) > 0.01
