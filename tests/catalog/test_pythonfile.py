"""Networks of Python files: what they may do, what they leave behind, and what is said when they
fail.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.catalog import data, model

NETWORK = (
    "from torch import nn, zeros\ndef build():\n    return nn.Sequential(nn.Flatten(), "
    "nn.Linear({width}, 2), nn.ReLU())\n"
)


def test_a_network_of_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(NETWORK.format(width=3072))
    found = model(f"py:{path}:build")
    assert isinstance(found.network, nn.Sequential)
    assert found.depth == 1
    assert found.transform is None
    with pytest.raises(
        sg.InputTypeError, match=r"none is not a function that returns an nn\.Module"
    ):
        model(f"py:{path}:none")


def test_a_python_file_that_says_more(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    more = (
        "inputs = zeros(1, 12)\naccuracy = 77.0\ndef transform(images):\n    return images[:, :, "
        ":2, :2].flatten(1) / 255\n"
    )
    path.write_text(NETWORK.format(width=12) + more)
    found = model(f"py:{path}:build")
    assert found.facts()["flops"] == 2 * 24
    assert (found.accuracy, model(f"py:{path}:build", weights=None).accuracy) == (77, None)
    ((images, _),) = data("embedded", transform=found.transform)
    assert found.network(images).shape == (512, 2)
    assert found.transform is not None
    assert found.transform.takes == "images"


@pytest.mark.parametrize("name", ["py:none.py:build", "py:none.py", "py:build"])
def test_python_files_that_are_not_there(name: str) -> None:
    with pytest.raises(sg.InputError, match=r"[wW]rite py:FILE:FUNCTION"):
        model(name)


def test_what_the_function_returns_is_not_called_random(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(NETWORK.format(width=3072))
    assert model(f"py:{path}:build").weights == "as the function returns it"
    assert (
        model(f"py:{path}:build", weights=None, seed=3).weights
        == "as the function returns it, with seed 3"
    )


DRAWN = """
import random
import numpy as np
import torch
from torch import nn
def build():
    network = nn.Linear(3, 1)
    network.weight.data = torch.tensor([[random.random(), np.random.rand(), float(torch.rand(()))]])
    return network
"""


def test_torch_numpy_and_python_are_seeded_and_put_back(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(DRAWN)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    first, again, other = (
        model(f"py:{tmp_path / 'mine.py'}:build", weights=None, seed=seed).network.weight.data
        for seed in (1, 1, 2)
    )
    assert (
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
    ) == states  # type: ignore[index]
    assert torch.equal(first, again)
    assert (first != other).all()


DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass
from torch import nn
@dataclass
class Settings:
    width: int = 3
def build():
    return nn.Linear(Settings().width, 2)
"""


def test_a_file_may_define_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(DATACLASS)
    loaded = set(sys.modules)
    assert model(f"py:{tmp_path / 'mine.py'}:build").parameters == 8
    assert set(sys.modules) == loaded


def neighbors(folder: Path, width: int) -> str:
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "__init__.py").write_text("from parts.inner import WIDTH")
    (folder / "parts" / "inner.py").write_text(f"WIDTH = {width}")
    (folder / "own_layers.py").write_text(
        "from torch import nn\ndef layer(width):\n    return nn.Linear(width, 1)"
    )
    (folder / "mine.py").write_text(
        "import own_layers\ndef build():\n    import parts\n    return "
        "own_layers.layer(parts.WIDTH)"
    )
    return f"py:{folder / 'mine.py'}:build"


def test_a_file_imports_what_stands_beside_it(tmp_path: Path) -> None:
    names = [neighbors(tmp_path / str(width), width) for width in (3, 5)]
    path, loaded = list(sys.path), set(sys.modules)
    assert [model(name).parameters for name in names] == [4, 6]
    assert (sys.path, set(sys.modules)) == (path, loaded)


def test_neighbors_that_were_in_reach_stay_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = neighbors(tmp_path / "a", 3)
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    model(name)
    kept = [sys.modules.pop(one, None) for one in ("own_layers", "parts", "parts.inner")]
    assert None not in kept


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        (
            "x = 1\ndef build(:",
            SyntaxError,
            r"mine\.py, line 2: not valid Python \(.+\)\. Correct it",
        ),
        ("import own_syntax", SyntaxError, r"own_syntax\.py, line 1: not valid Python"),
        (
            "\nimport nosuchpackage",
            ModuleNotFoundError,
            r"line 2: needs nosuchpackage, which is not installed.*Install it",
        ),
        (
            "raise SystemExit(3)",
            SystemExit,
            r"line 1: exits the program \(3\)\. Move .* under `if __name__",
        ),
    ],
)
def test_code_that_fails_is_named_with_its_line(
    tmp_path: Path, source: str, error: type[BaseException], match: str
) -> None:
    (tmp_path / "own_syntax.py").write_text("def (")
    (tmp_path / "mine.py").write_text(source)
    loaded = set(sys.modules)
    with pytest.raises(sg.InputError, match=match) as caught:
        model(f"py:{tmp_path / 'mine.py'}:build")
    assert isinstance(caught.value.__cause__, error)
    assert set(sys.modules) == loaded


def test_functions_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from torch import nn\ndef build(width, *rest, depth=2):\n    return nn.ReLU()\ndef "
        "five():\n    return 5\n"
    )
    with pytest.raises(
        sg.InputError,
        match=r"mine\.py: build needs width\. Give them defaults, or write a function without",
    ):
        model(f"py:{path}:build")
    with pytest.raises(sg.InputTypeError, match=r"five must return an nn\.Module, got int"):
        model(f"py:{path}:five")
    with pytest.raises(
        sg.InputTypeError, match=r"biuld is not a function .* Did you mean 'build'\?"
    ):
        model(f"py:{path}:biuld")
    with pytest.raises(sg.InputError, match=r"[wW]rite py:FILE:FUNCTION"):
        model(f"py:{path}:")
    (tmp_path / "mine.txt").write_text("x = 1")
    with pytest.raises(
        sg.InputError, match=r"mine\.txt: not a Python file\. Its name must end in \.py"
    ):
        model(f"py:{tmp_path / 'mine.txt'}:build")


def test_errors_of_the_function_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def build():\n    raise KeyError('a cause')\n")
    path, loaded = list(sys.path), set(sys.modules)
    with pytest.raises(KeyError, match="a cause"):
        model(f"py:{tmp_path / 'mine.py'}:build")
    assert (sys.path, set(sys.modules)) == (path, loaded)


def test_errors_of_sigmascope_pass_through(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from sigmascope.catalog import model\ndef build():\n    return "
        "model('sigmascope/resnet2').network\n"
    )
    with pytest.raises(sg.OptionError, match="sigmascope/resnet2 is not in the catalog"):
        model(f"py:{path}:build")


def test_a_file_that_changes_the_working_directory_changes_it_for_itself(tmp_path: Path) -> None:
    here = Path.cwd()
    (tmp_path / "moving.py").write_text(
        "import os\nos.chdir(os.path.dirname(__file__))\n"
        + NETWORK.format(width=3072)
        + "    os.chdir('/')\n"
    )
    model(f"py:{tmp_path / 'moving.py'}:build")
    assert Path.cwd() == here
