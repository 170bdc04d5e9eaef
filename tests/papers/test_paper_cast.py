"""The paper's own networks, end to end through the command line: two of them, with random weights,
on a few pictures.

Every item whose networks can be others than ours is run. What comes out is meaningless with such
weights; that it runs, keeps what it has measured, and says what cannot be tried is not.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from PIL import Image

from sigmascope.figures.style import STYLE
from sigmascope.measure.result import load
from sigmascope_papers.item import UNTESTED, VERDICTS
from sigmascope_papers.setting import Setting
from sigmascope_papers.table import PAPERS, item
from tests.cli.running import run

NETWORKS = ("torchvision/resnet18", "torchvision/vit_b_32")
IMAGES = 4
# Items without any network of a cast; other tests run them.
WITHOUT = ("fig2a", "fig2b", "fig2c", "fig3", "fig4a", "fig4b", "fig8", "fig9")
# Items on seeds and ways of training, which only our networks have.
ZOO_ONLY = ("fig10", "fig11", "fig19", "fig20", "table3", "beyond-population", "beyond-training")
# Items on networks that one experiment trained.
STORED = ("beyond-linearize",)
OPEN = [name for name in PAPERS["nonlinearity"] if name not in (*WITHOUT, *ZOO_ONLY, *STORED)]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two classes of pictures of 64 × 64."""
    folder = tmp_path_factory.mktemp("pictures")
    generator = np.random.default_rng(0)
    for number in range(IMAGES + 2):
        place = folder / ("left", "right")[number % 2]
        place.mkdir(exist_ok=True)
        squares = (
            generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            .repeat(8, axis=0)
            .repeat(8, axis=1)
        )
        Image.fromarray(squares).save(place / f"{number}.png")
    return folder


def reproduced(
    names: list[str], pictures: Path, out: Path, networks: tuple[str, ...] = NETWORKS
) -> Result:
    """Run the command as a user would who has no data but the pictures."""
    chosen = [word for network in networks for word in ("--network", network)]
    manner = [
        "--weights",
        "none",
        "--data",
        f"imagefolder:{pictures}",
        "--limit",
        str(IMAGES),
        *chosen,
        "-o",
        str(out),
    ]
    return run("reproduce", *names, *manner, SIGMASCOPE_DATA=str(out / "nowhere"))


def outcome(out: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))[
        "content"
    ]
    return content


def written(out: Path) -> dict[Path, int]:
    """Return when each signature, with its facts, was written."""
    return {path: path.stat().st_mtime_ns for path in (out / "signatures").rglob("*.json")}


def test_every_item_runs_and_measures_once(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STYLE, "savefig.dpi", 30)
    first = reproduced(OPEN, pictures, tmp_path)
    assert first.exit_code == 0, f"{first.stderr} {first.exception!r}"
    for name in OPEN:
        found = outcome(tmp_path, name)
        assert found["checks"], name
        assert {check["verdict"] for check in found["checks"]} <= set(VERDICTS), name
        assert all(check["obtained"] for check in found["checks"]), name
        assert all(
            (tmp_path / f"{figure}.{end}").exists()
            for figure in found["figures"]
            for end in ("svg", "png", "csv")
        ), name
    kept = written(tmp_path)
    usual = [
        path.parent
        for path in kept
        if re.search(rf"-images-{IMAGES}-weights-none-\w{{8}}$", path.parent.name)
    ]
    assert {path.name for path in usual[0].glob("*.json")} >= {
        f"{name.replace('/', '-')}.json" for name in NETWORKS
    }
    assert all(
        load(usual[0] / f"{name.replace('/', '-')}.json").samples == IMAGES for name in NETWORKS
    )
    chosen = {"weights": "none", "data": f"imagefolder:{pictures}", "limit": IMAGES}
    setting = Setting(keep=tmp_path, networks=NETWORKS, progress=False, **chosen)
    monkeypatch.setenv("SIGMASCOPE_DATA", str(tmp_path / "nowhere"))
    for name in OPEN:  # what was measured is read again
        item(name).measure(setting)
    assert written(tmp_path) == kept


@pytest.mark.parametrize("name", [*ZOO_ONLY, *STORED])
def test_an_item_of_the_zoo_says_so(name: str, pictures: Path, tmp_path: Path) -> None:
    result = reproduced([name], pictures, tmp_path)
    assert result.exit_code == 1
    of = "one experiment" if name in STORED else "the zoo"
    assert f"this item is about networks of {of} only. Leave out --weights and --data." in " ".join(
        result.stderr.split()
    )


def test_the_published_capture_is_another_network(pictures: Path, tmp_path: Path) -> None:
    result = reproduced(["beyond-axes"], pictures, tmp_path, ("torchvision/efficientnet_b1",))
    assert result.exit_code == 0, f"{result.stderr} {result.exception!r}"
    files = list((tmp_path / "signatures").rglob("torchvision-efficientnet_b1.json"))
    clean, published = (
        load(path)
        for path in sorted(files, key=lambda path: "published-capture" in path.parent.name)
    )
    assert [site.name for site in clean.sites] == [site.name for site in published.sites]
    assert len(clean) == 92
    # nothing has acted twice before the first call
    assert clean.scores[0] == pytest.approx(published.scores[0])
    # many have no score with random weights
    assert np.nanmax(np.abs(clean.scores - published.scores)) > 0.01
    verdicts = {
        check["claim"]: check["verdict"] for check in outcome(tmp_path, "beyond-axes")["checks"]
    }
    assert verdicts.pop("EffNets are skewed toward linearity") != UNTESTED
    assert set(verdicts.values()) == {UNTESTED}


def test_a_network_that_is_not_in_the_cast_is_refused(pictures: Path, tmp_path: Path) -> None:
    result = reproduced(OPEN[:1], pictures, tmp_path, ("torchvision/squeezenet1_0",))
    assert result.exit_code == 1
    assert "torchvision/alexnet" in result.stderr  # all names are told
