"""Networks of ONNX files, where onnx and onnx2torch are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sigmascope as sg
from sigmascope.catalog import data, model
from sigmascope.catalog.optional import optional


def write_onnx(
    path: Path, inputs: dict[str, list[int | str]], *, operator: str = "Relu", kind: int = 1
) -> str:
    """Write a network that applies one operator to its inputs, of the given shapes."""
    onnx: Any = optional("onnx")
    values = [
        onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()
    ]
    result = onnx.helper.make_tensor_value_info("result", kind, None)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, list(inputs), ["result"])], "g", values, [result]
    )
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
        ),
        path,
    )
    return f"onnx:{path}"


@pytest.mark.parametrize(
    ("shape", "example"),
    [
        ([2, 3, 20, 30], (2, 3, 20, 30)),
        (["n", 3, "h", "w"], (1, 3, 224, 224)),
        (["n", "c", 20, 20], (1, 3, 20, 20)),
        (["n", 20, 30, 3], (1, 20, 30, 3)),
        (["n", "h", "w", 3], (1, 224, 224, 3)),
    ],
)
def test_images_are_brought_to_the_declared_shape(
    tmp_path: Path, shape: list[int | str], example: tuple[int, ...]
) -> None:
    found = model(write_onnx(tmp_path / "a.onnx", {"x": shape}))
    assert found.inputs.shape == example
    assert found.transform is not None
    images = found.transform(torch.randint(0, 256, (4, 3, 50, 40)))
    assert images.shape == (4, *example[1:])
    assert torch.equal(found.network(images), images.relu())
    assert found.facts() == {
        "accuracy": None,
        "parameters": 0,
        "flops": 0,
        "depth": 1,
        "weights": str(tmp_path / "a.onnx"),
    }


def test_inputs_that_are_no_images(tmp_path: Path) -> None:
    found = model(write_onnx(tmp_path / "a.onnx", {"x": ["n", 5]}))
    assert found.inputs.shape == (1, 5)
    assert found.transform is None
    found = model(
        write_onnx(tmp_path / "b.onnx", {"x": ["n", "t"], "y": ["n", "t"]}, operator="Add", kind=7)
    )
    assert {name: (value.shape, value.dtype) for name, value in found.inputs.items()} == {
        "input_1": ((1, 8), torch.int64),
        "input_2": ((1, 8), torch.int64),
    }
    assert found.depth == 0


def test_onnx_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        sg.InputError, match=r"b\.onnx: onnx2torch cannot convert it \(.*Det.*another opset"
    ):
        model(write_onnx(tmp_path / "b.onnx", {"x": [2, 2]}, operator="Det"))
    (tmp_path / "a.onnx").write_bytes(b"no such thing")
    with pytest.raises(
        sg.FileFormatError, match=r"a\.onnx: not a complete ONNX file \(.*Export it again"
    ):
        model(f"onnx:{tmp_path / 'a.onnx'}")


def test_random_weights_are_refused(tmp_path: Path) -> None:
    name = write_onnx(tmp_path / "a.onnx", {"x": [1, 3, 8, 8]})
    with pytest.raises(
        sg.OptionError,
        match=r"a\.onnx has its own weights.*Leave weights out, or .* py:FILE:FUNCTION",
    ):
        model(name, weights=None)
    assert model(name).weights == str(tmp_path / "a.onnx")


def test_an_empty_file_and_operators_that_are_none(tmp_path: Path) -> None:
    onnx: Any = optional("onnx")
    (tmp_path / "zero.onnx").touch()
    with pytest.raises(
        sg.FileFormatError, match=r"zero\.onnx: contains no network\. Export it again"
    ):
        model(f"onnx:{tmp_path / 'zero.onnx'}")
    values = [onnx.helper.make_tensor_value_info(name, 1, [1, 3]) for name in ("x", "y")]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Foo", ["x"], ["y"], domain="own")], "g", values[:1], values[1:]
    )
    onnx.save(onnx.helper.make_model(graph, ir_version=8), tmp_path / "foo.onnx")
    with pytest.raises(
        sg.InputError,
        match=r"foo\.onnx: onnx2torch cannot convert it \(own\.Foo are not operators of ONNX",
    ):
        model(f"onnx:{tmp_path / 'foo.onnx'}")


def test_inputs_without_a_shape_or_a_type_of_torch(tmp_path: Path) -> None:
    with pytest.raises(
        sg.InputError,
        match=r"a\.onnx: its input 'x' has no shape\. Export it with one, such as \(n, 3, 224, "
        r"224\)",
    ):
        model(write_onnx(tmp_path / "a.onnx", {"x": None}))  # type: ignore[dict-item]
    with pytest.raises(
        sg.InputError, match=r"b\.onnx: its input 'x' has type \w+, which torch does not have"
    ):
        model(write_onnx(tmp_path / "b.onnx", {"x": [2]}, operator="Identity", kind=8))
    assert model(write_onnx(tmp_path / "c.onnx", {"x": []})).inputs.shape == ()


@pytest.mark.parametrize("shape", [["n", 3, 20, 30], ["n", 20, 30, 3]])
def test_random_images_fit_the_declared_shape(tmp_path: Path, shape: list[int | str]) -> None:
    transform = model(write_onnx(tmp_path / "a.onnx", {"x": shape})).transform
    assert next(iter(data("random", transform=transform, limit=2)))[0].shape == (2, *shape[1:])
    side = (2, 3, 8, 8) if shape[1] == 3 else (2, 8, 8, 3)
    assert next(iter(data("random:8", transform=transform, limit=2)))[0].shape == side
