"""Readers of weight files by others, on tiny made-up files: right numbers, and refusals by name."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sigmascope.errors import FileFormatError
from sigmascope_papers.real import builders, inception
from sigmascope_papers.real.loaders import fill_convolutions, resnet50_state, turned, vit_state
from sigmascope_papers.real.pickles import arrays_in, script_tensors, tensors_in
from sigmascope_papers.real.weight_files import Graph, onnx_graph, tfjs_arrays


class Call:
    """Runs something where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.getcwd, ()


HOSTILE = {
    "a call": pickle.dumps(Call()),
    "inside a dictionary": pickle.dumps({"weights": [Call()]}),
    "eval": b"c__builtin__\neval\n(S'1'\ntR.",
    "an attribute path": pickle.dumps(np.load, protocol=4),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("read", [arrays_in, tensors_in])
def test_a_pickle_with_a_call_is_refused_by_name(read: Any, content: bytes) -> None:
    with pytest.raises(
        FileFormatError, match=r"names (posix\.getcwd|\w+\.eval|numpy\S*\.load), which is refused"
    ):
        read(io.BytesIO(content))


def test_arrays_in_a_pickle() -> None:
    nested = {"a": {"kernel": np.arange(6.0, dtype=np.float32).reshape(2, 3).T}, "n": 3}
    for old in (False, True):
        content = pickle.dumps(nested, protocol=3)
        if old:
            content = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        found = arrays_in(io.BytesIO(content))
        assert np.array_equal(found["a"]["kernel"], nested["a"]["kernel"])
        assert found["n"] == 3
    with pytest.raises(FileFormatError, match="an array of 'O8' is not numbers"):
        arrays_in(io.BytesIO(pickle.dumps(np.array([None]), protocol=3)))
    with pytest.raises(FileFormatError, match="cannot be read"):
        arrays_in(io.BytesIO(content[:-9]))


def test_a_state_dict_in_a_plain_pickle() -> None:
    state = OrderedDict(a=torch.arange(6.0).reshape(2, 3).T, b=torch.tensor([7], dtype=torch.long))
    found = tensors_in(io.BytesIO(pickle.dumps(state, protocol=3)))
    assert list(found) == ["a", "b"]
    assert all(torch.equal(found[name], state[name]) for name in state)


def scripted(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path / "script.pt", "w") as archive:
        archive.writestr("net/data.pkl", pickled)
        archive.writestr("net/data/0", np.arange(6, dtype="<f4").tobytes())
    return path / "script.pt"


TENSOR = (  # protocol 0: a module of one tensor (2, 3), its numbers in the file 0
    b"c__torch__.net\nNet\n)\x81}S'weight'\nctorch._utils\n_rebuild_tensor_v2\n"
    b"((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI6\ntQI0\n(I2\nI3\nt(I3\nI1\nt"
    b"I00\nccollections\nOrderedDict\n)RtRsb."
)


def test_tensors_of_a_scripted_module(tmp_path: Path) -> None:
    found = script_tensors(scripted(tmp_path, TENSOR))
    assert torch.equal(found["weight"], torch.arange(6.0).reshape(2, 3))


def test_a_scripted_module_with_a_call_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"names posix\.getcwd, which is refused"):
        script_tensors(scripted(tmp_path, pickle.dumps(Call())))
    other = TENSOR.replace(b"ctorch\nFloatStorage\n", b"S'other'\n")
    with pytest.raises(FileFormatError, match=r"refers to .*'other'.*, which is refused"):
        script_tensors(scripted(tmp_path, other))


def varint(value: int) -> bytes:
    digits = b""
    while value >= 128:
        digits += bytes([value & 127 | 128])
        value >>= 7
    return digits + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def initializer(name: str, array: np.ndarray, kind: int = 1) -> bytes:
    axes = b"".join(field(1, length) for length in array.shape)
    return axes + field(2, kind) + field(8, name.encode()) + field(9, array.tobytes())


def graph_file(path: Path, *initializers: bytes) -> Path:
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(3, b"/fc1/MatMul")
    graph = field(1, node) + b"".join(field(5, one) for one in initializers)
    (path / "net.onnx").write_bytes(field(1, 8) + field(7, graph))
    return path / "net.onnx"


def test_initializers_of_an_onnx_file(tmp_path: Path) -> None:
    weights = np.arange(300, dtype="<f4").reshape(3, 100)
    path = graph_file(
        tmp_path, initializer("w", weights), initializer("n", np.array([5], "<i8"), kind=7)
    )
    found = onnx_graph(path)
    assert found.inputs == {"/fc1/MatMul": ["x", "w"]}
    assert list(found.tensors) == ["w"]  # whole numbers are no weights
    assert np.array_equal(found.tensors["w"].numpy(), weights)


def test_a_damaged_onnx_file_is_refused(tmp_path: Path) -> None:
    path = graph_file(tmp_path, initializer("w", np.arange(300, dtype="<f4")))
    content = path.read_bytes()
    for length in range(1, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(FileFormatError, match=r"ends inside a|expected one graph"):
            onnx_graph(path)
    path.write_bytes(b"\xff" * 12)
    with pytest.raises(FileFormatError, match="more than 64 bits"):
        onnx_graph(path)
    wrong = initializer("w", np.arange(4, dtype="<f4")).replace(field(1, 4), field(1, 5))
    with pytest.raises(FileFormatError, match=r"w has 16 bytes for the shape \[5\]"):
        onnx_graph(graph_file(tmp_path, wrong))


def tfjs_file(path: Path, *, more: int = 0, **changes: Any) -> Path:
    rows = [
        {"name": "a/kernel", "shape": [2, 3], "dtype": "float32"},
        {"name": "a/bias", "shape": [3], "dtype": "float32", **changes},
    ]
    data = np.arange(9 + more, dtype="<f4").tobytes()
    (path / "s1").write_bytes(data[:10])  # shards may cut through an array, and a number
    (path / "s2").write_bytes(data[10:])
    manifest = {"weightsManifest": [{"paths": ["s1", "../../s2"], "weights": rows}]}
    (path / "model.json").write_text(json.dumps(manifest))
    return path / "model.json"


def test_arrays_of_a_tfjs_model(tmp_path: Path) -> None:
    found = tfjs_arrays(tfjs_file(tmp_path))
    assert torch.equal(found["a/kernel"], torch.arange(6.0).reshape(2, 3))
    assert torch.equal(found["a/bias"], torch.tensor([6.0, 7, 8]))


def test_a_damaged_tfjs_model_is_refused(tmp_path: Path) -> None:
    for more, told in ((-1, "end before a/bias"), (1, "have 4 bytes more")):
        with pytest.raises(FileFormatError, match=told):
            tfjs_arrays(tfjs_file(tmp_path, more=more))
    with pytest.raises(FileFormatError, match="a/bias is uint8, not plain float32"):
        tfjs_arrays(tfjs_file(tmp_path, dtype="uint8"))
    path = tfjs_file(tmp_path)
    (tmp_path / "s2").unlink()
    with pytest.raises(FileFormatError, match=r"expected s2 beside model\.json"):
        tfjs_arrays(path)


def test_the_bias_before_a_batch_norm_goes_into_its_mean() -> None:
    """Every parameter of ResNet-50 gets its array, and a convolution with bias and norm agree."""
    with torch.device("meta"):
        shapes = {name: one.shape for name, one in builders.resnet50_v1().state_dict().items()}
    torch.manual_seed(0)
    arrays = {}
    for stage, blocks in {"2": "abc", "3": "abcd", "4": "abcdef", "5": "abc"}.items():
        for block in blocks:
            branches = ["2a", "2b", "2c", *["1"] * (block == "a")]
            for name in (f"{stage}{block}_branch{branch}" for branch in branches):
                arrays[f"res{name}/kernel"], arrays[f"res{name}/bias"] = (
                    torch.randn(1, 1, 2, 3),
                    torch.randn(3),
                )
                for part in ("gamma", "beta", "moving_mean", "moving_variance"):
                    arrays[f"bn{name}/{part}"] = torch.rand(3)
    arrays |= {
        name.replace("res2a_branch1", "conv1").replace("bn2a_branch1", "bn_conv1"): one
        for name, one in list(arrays.items())
        if "2a_branch1" in name
    }
    arrays |= {"fc1000/kernel": torch.randn(3, 5), "fc1000/bias": torch.randn(5)}
    state = resnet50_state(arrays)
    assert set(state) == set(shapes)
    x, name, own = torch.randn(2, 2, 4, 4), "3b_branch2a", "layer2.1"
    kernel, bias = turned(arrays[f"res{name}/kernel"]), arrays[f"res{name}/bias"]
    gamma, beta, mean, variance = (
        arrays[f"bn{name}/{part}"] for part in ("gamma", "beta", "moving_mean", "moving_variance")
    )
    there = torch.nn.functional.batch_norm(
        torch.conv2d(x, kernel, bias), mean, variance, gamma, beta
    )
    here = torch.nn.functional.batch_norm(
        torch.conv2d(x, state[f"{own}.conv1.weight"]),
        state[f"{own}.bn1.running_mean"],
        state[f"{own}.bn1.running_var"],
        state[f"{own}.bn1.weight"],
        state[f"{own}.bn1.bias"],
    )
    assert torch.allclose(there, here, atol=1e-5)


def test_kernels_that_do_not_fit_are_refused() -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1))
    kernel, bias = torch.randn(1, 1, 2, 3), torch.randn(3)
    x = torch.randn(1, 2, 4, 4)
    filled = fill_convolutions(network, [(kernel, bias)])
    expected = torch.einsum("nchw,co->nohw", x, kernel[0, 0]) + bias[:, None, None]
    assert torch.allclose(filled(x), expected, atol=1e-6)
    with pytest.raises(FileFormatError, match="expected 1 convolutions, got 2"):
        fill_convolutions(network, [(kernel, bias)] * 2)
    with pytest.raises(FileFormatError, match=r"a kernel of the shape \(3, 1, 2, 3\) does not fit"):
        fill_convolutions(network, [(kernel.expand(3, 1, 2, 3), bias)])


def test_the_trunk_of_inception_takes_its_tensors_in_order() -> None:
    with torch.device("meta"):
        network = inception.trunk()
    own = [one for one in network.modules() if isinstance(one, inception.Convolution)]
    assert len(own) == 94
    tensors = {}
    for number, one in enumerate(own):
        width = one.conv.weight.shape[0]
        parts = (one.conv.weight.shape, (width,), (width,), (width,))
        for part, shape in zip(inception.PARTS, parts, strict=True):
            tensors[f"net.{number}.{part}"] = torch.empty(shape, device="meta")
    inception.fill(network, tensors)
    tensors["net.7.mean"] = torch.empty(5, device="meta")
    with pytest.raises(FileFormatError, match=r"net\.7\.mean has the shape \(5,\)"):
        inception.fill(network, tensors)
    with pytest.raises(FileFormatError, match="expected 94 convolutions, got 1"):
        inception.fill(network, {"net.0.weight": torch.empty(1)})


def test_matrices_without_names_are_found_by_their_nodes() -> None:
    """Query, key and value come in another order in the file than in timm's one matrix."""
    back, layer = "backbone.", "backbone.encoder.layer.0"
    names = [f"{layer}.{norm}.{part}" for norm in ("norm1", "norm2") for part in ("weight", "bias")]
    names += [f"{layer}.layer_scale{number}.lambda1" for number in "12"]
    names += [f"{layer}.attention.attention.{one}.bias" for one in ("query", "key", "value")]
    names += [f"{layer}.attention.output.dense.bias", f"{layer}.mlp.fc1.bias"]
    names += [f"{layer}.mlp.fc2.bias", f"{back}layernorm.weight", f"{back}layernorm.bias"]
    names += [f"{back}embeddings.patch_embeddings.projection.{one}" for one in ("weight", "bias")]
    tensors = {name: torch.randn(2) for name in names}
    tensors |= {f"{back}embeddings.cls_token": torch.randn(1, 1, 2), "first": torch.randn(1, 1, 2)}
    tensors["grid"] = torch.randn(1, 37 * 37, 2)
    at = "/backbone/encoder/layer.0"
    parts = [f"attention/attention/{one}" for one in ("key", "value", "query")]
    parts += ["attention/output/dense", "mlp/fc1", "mlp/fc2"]
    inputs = {f"{at}/{part}/MatMul": [f"x{n}", f"m{n}"] for n, part in enumerate(parts)}
    tensors |= {f"m{number}": torch.randn(2, 2) for number in range(6)}
    inputs["/backbone/embeddings/Concat_6"] = ["first", "rest"]
    state = vit_state(Graph(tensors, inputs), 1)
    expected = torch.cat([tensors["m2"].T, tensors["m0"].T, tensors["m1"].T])
    assert torch.equal(state["blocks.0.attn.qkv.weight"], expected)
    assert torch.equal(state["blocks.0.mlp.fc2.weight"], tensors["m5"].T)
    assert state["pos_embed"].shape == (1, 1 + 16 * 16, 2)
    assert torch.equal(state["pos_embed"][:, :1], tensors["first"])
