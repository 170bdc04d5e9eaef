"""Networks of ONNX files that cannot be read here; tests/real reads those that can."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.catalog import model
from tests.catalog.stubs import stub


def test_onnx_files_that_are_not_there() -> None:
    with pytest.raises(sg.InputError, match=r"none\.onnx: no such ONNX file"):
        model("onnx:none.onnx")


def test_the_extra_of_onnx_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.onnx").touch()
    for installed, missing in (({}, "onnx"), ({"onnx": stub("onnx")}, "onnx2torch")):
        for name in ("onnx", "onnx2torch"):
            monkeypatch.setitem(sys.modules, name, installed.get(name))
        with pytest.raises(
            sg.MissingExtraError,
            match=rf'^{missing} is not installed: pip install "sigmascope\[onnx\]"\.$',
        ):
            model(f"onnx:{tmp_path / 'a.onnx'}")
