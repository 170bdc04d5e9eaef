"""Packages that are missing or do not fit, and what is said about them."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import sigmascope as sg
from sigmascope.catalog import data, model, model_names, optional as module
from sigmascope.catalog.optional import EXTRAS, optional
from sigmascope.integrations import lightning, torchmetrics
from tests.catalog.stubs import stub

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())[
    "project"
]
NMS = "operator torchvision::nms does not exist"


@pytest.mark.parametrize("package", EXTRAS)
def test_the_extra_installs_the_package(package: str) -> None:
    wanted = {"PIL": "torchvision"}.get(package, package)  # torchvision brings it along
    extra = PROJECT["optional-dependencies"][EXTRAS[package]]
    assert wanted in [requirement.partition(">")[0] for requirement in extra]


def network(tmp_path: Path, name: str) -> object:
    (tmp_path / "a.onnx").touch()
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "cat").mkdir(exist_ok=True)
    return {
        "torchvision": lambda: model("torchvision/resnet18", weights=None),
        "timm": lambda: model("timm/resnet10t", weights=None),
        "transformers": lambda: model("hf/bert", weights=None),
        "onnx": lambda: model(f"onnx:{tmp_path / 'a.onnx'}"),
        "onnx2torch": lambda: model(f"onnx:{tmp_path / 'a.onnx'}"),
        "datasets": lambda: data("hf/mnist"),
        "PIL": lambda: data(f"imagefolder:{tmp_path}"),
        "lightning": lightning.callback_classes,
        "torchmetrics": torchmetrics.metric_classes,
    }[name]


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_is_named_with_its_extra(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package == "onnx2torch":
        monkeypatch.setitem(sys.modules, "onnx", stub("onnx"))
    use = network(tmp_path, package)
    for name in [one for one in sys.modules if one.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    if package == "lightning":  # its other name does as well
        monkeypatch.setitem(sys.modules, "pytorch_lightning", None)
    with pytest.raises(
        sg.MissingExtraError,
        match=rf'^{package} is not installed: pip install "sigmascope\[{EXTRAS[package]}\]"\.$',
    ):
        use()  # type: ignore[operator]


def test_a_missing_library_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    assert "timm" not in model_names()
    assert {"sigmascope", "torchvision", "hf"} <= set(model_names())


def imports(monkeypatch: pytest.MonkeyPatch, *outcomes: Exception | ModuleType) -> None:
    """Let the next imports of torchvision end so, as if nothing had been declared before."""
    results = iter(outcomes)
    real = importlib.import_module

    def fake(name: str) -> object:
        if not name.startswith("torchvision"):
            return real(name)
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(module.importlib, "import_module", fake)
    monkeypatch.setattr(module, "_declared", [])


class Library:
    """Stands for torch.library.Library: the real operators may be there already."""

    defined: list[str]

    def __init__(self, *_: str) -> None:
        self.defined = []

    def define(self, schema: str) -> None:
        self.defined.append(schema.partition("(")[0])


def test_a_torchvision_for_another_torch_is_survived_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = stub("torchvision")
    monkeypatch.setattr(module.torch.library, "Library", Library)
    imports(monkeypatch, RuntimeError(NMS), found, found)
    assert optional("torchvision") is found  # warnings are errors
    assert optional("torchvision") is found
    assert len(module._declared) == 1
    assert module._declared[0].defined == ["nms", "qnms"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "outcomes", [[RuntimeError(NMS), RuntimeError(NMS)], [RuntimeError("CUDA versions differ")]]
)
def test_one_that_cannot_be_survived_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[Exception]
) -> None:
    monkeypatch.setattr(module.torch.library, "Library", Library)
    imports(monkeypatch, *outcomes)
    with pytest.raises(
        sg.MissingExtraError,
        match=r"torchvision does not fit torch .*: pip install --force-reinstall torch "
        r"torchvision\.$",
    ):
        optional("torchvision")


def test_a_broken_package_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    imports(monkeypatch, ImportError("libcudart.so.12: cannot open shared object file"))
    with pytest.raises(
        sg.MissingExtraError,
        match=r'cannot be imported \(libcudart.*\): pip install "sigmascope\[vision\]" '
        r"--force-reinstall",
    ):
        optional("torchvision")


def test_what_imports_torchvision_by_itself_is_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stub("torchvision")
    monkeypatch.setattr(module.torch.library, "Library", Library)
    monkeypatch.setitem(sys.modules, "transformers", stub("transformers"))
    imports(monkeypatch, RuntimeError(NMS), found)
    assert optional("transformers").__name__ == "transformers"
    assert len(module._declared) == 1
