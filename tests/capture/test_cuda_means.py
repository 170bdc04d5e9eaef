"""Averages of a tensor and of its clamped values: how memory is read, and the numbers on a GPU."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.gpu import means as module
from sigmascope.capture.gpu.means import _launched, _Plan, _plan, _works, means
from sigmascope.capture.pooled import PooledCall, capturing
from sigmascope.capture.pooling import Pooling

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
FORMULAS = {"relu": F.relu, "relu6": F.relu6, "silu": F.silu}


def plan(x: Tensor, samples: int = 0, channels: int = 1) -> tuple[int, ...] | None:
    return _plan(x.shape, x.stride(), samples, channels)


class TestPlan:
    def test_positions_side_by_side(self) -> None:
        assert plan(torch.empty(2, 3, 5, 7)) == (2, 3, 35, False)

    def test_channels_side_by_side(self) -> None:
        x = torch.empty(2, 3, 8, 9).to(memory_format=torch.channels_last)
        assert plan(x) == (2, 3, 72, True)
        assert plan(x[:, :, :4].contiguous(memory_format=torch.channels_last)) is None  # too few

    def test_tokens(self) -> None:
        assert plan(torch.empty(2, 70, 3), 0, 2) == (2, 3, 70, True)

    def test_no_positions(self) -> None:
        assert plan(torch.empty(2, 3, 1, 1)) == (2, 3, 1, False)

    @pytest.mark.parametrize(
        "x",
        [
            torch.empty(2, 3, 5, 7)[:, :, :, :6],  # a gap after every row
            torch.empty(2, 3, 5, 14)[..., ::2],
            torch.empty(2, 6, 5, 7)[:, :3],
            torch.empty(4, 3, 5, 7)[::2],
            torch.empty(2, 3, 5, 7).mT,
            torch.empty(2, 3, 1, 7).expand(2, 3, 5, 7),
            torch.empty(3, 2, 5, 7).transpose(0, 1),
        ],
    )
    def test_other_orders_are_left_to_torch(self, x: Tensor) -> None:
        assert plan(x) is None

    def test_large_samples_are_left_to_torch(self) -> None:
        assert plan(torch.empty(2, 2**11, 2**10, 2**10, device="meta")) is None


def tensor(*shape: int) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(0)
    return torch.randn(shape, generator=generator, device="cuda") * 3


LAYOUTS: dict[str, tuple[Callable[[], Tensor], int, int]] = {
    "contiguous": (lambda: tensor(7, 33, 20, 19), 0, 1),
    "many positions": (lambda: tensor(3, 18, 64, 48), 0, 1),
    "one position": (lambda: tensor(70, 33, 1, 1), 0, 1),
    "channels last": (lambda: tensor(7, 48, 9, 11).to(memory_format=torch.channels_last), 0, 1),
    "wide": (lambda: tensor(3, 300, 5, 5).to(memory_format=torch.channels_last), 0, 1),
    "tokens": (lambda: tensor(5, 19, 130), 0, 2),
    "a later part": (lambda: tensor(7, 33, 19), 0, 1),
    "volumes": (lambda: tensor(4, 6, 5, 7, 3), 0, 1),
}


@needs_gpu
class TestNumbers:
    @pytest.fixture(autouse=True)
    def any_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("triton")
        monkeypatch.setattr(module, "LARGE", 0)
        monkeypatch.setattr(module, "FEW", 0)
        _plan.cache_clear()

    def test_single_values_of_a_silu_are_left_to_torch(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "FEW", 64)
        x = tensor(4, 8, 6)
        assert means(x, samples=0, channels=1, formula="relu") is not None
        assert means(x, samples=0, channels=1, formula="silu") is None

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_the_averages_of_torch(self, layout: str, dtype: torch.dtype) -> None:
        make, samples, channels = LAYOUTS[layout]
        x = make().to(dtype)
        if layout == "a later part":  # which is not aligned
            x = torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)
        others = [axis for axis in range(x.ndim) if axis not in (samples, channels)]
        for formula, function in 2 * [*FORMULAS.items()]:  # the second time direct
            found = means(x, samples=samples, channels=channels, formula=formula)
            assert found is not None
            for matrix, values in zip(found, (x, function(x)), strict=True):
                expected = values.double().mean(others)
                assert matrix.dtype == torch.float32
                assert matrix.shape == (x.shape[samples], x.shape[channels])
                # one value may be rounded to the neighbor of what torch rounds it to
                step = torch.finfo(dtype).eps * values.abs().max() if formula == "silu" else 0.0
                atol = 1e-6 + float(step) * expected.numel() / values.numel()
                assert torch.allclose(matrix.double(), expected, rtol=1e-5, atol=atol)

    @pytest.mark.parametrize("last", [False, True])
    def test_nan_and_infinity(self, last: bool) -> None:
        x = torch.randn(4, 32, 6, 6, device="cuda")
        x[0, 0, 0, 0], x[1, 1, 1, 1], x[2, 2, 2, 2] = math.nan, math.inf, -math.inf
        if last:
            x = x.to(memory_format=torch.channels_last)
        for formula, function in FORMULAS.items():
            found = means(x, samples=0, channels=1, formula=formula)
            assert found is not None
            for matrix, values in zip(found, (x, function(x)), strict=True):
                assert torch.allclose(matrix, values.mean((2, 3)), atol=1e-6, equal_nan=True)

    def test_new_tensors(self) -> None:
        x = tensor(4, 8, 6, 6)
        found = means(x, samples=0, channels=1, formula="relu")
        assert found is not None
        before = found[0].clone()
        x.zero_()
        assert torch.equal(found[0], before)

    def test_both_ways_to_launch(self) -> None:
        x, chosen = tensor(6, 8, 50), _Plan(6, 8, 50, False)
        expected = torch.stack([x.mean(2), x.relu().mean(2)])
        for direct in (True, True, False, False):
            found = torch.stack(_launched(x, chosen, "relu", direct=direct))
            assert torch.allclose(found, expected, atol=1e-6)
        assert _works(x.device, direct=True)

    def test_other_functions_are_left_to_torch(self) -> None:
        assert means(tensor(4, 8, 6), samples=0, channels=1, formula="hardtanh") is None

    def test_other_types_and_empty_tensors_are_left_to_torch(self) -> None:
        for x in (tensor(4, 8, 6).double(), tensor(0, 8, 6), tensor(4, 8, 0), tensor(4, 0, 6)):
            assert means(x, samples=0, channels=1, formula="relu") is None


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.ReLU(inplace=True),
        nn.Conv2d(16, 24, 3),
        nn.ReLU6(),
        nn.Conv2d(24, 8, 3),
        nn.SiLU(inplace=True),
    ).cuda()


def captured(
    model: nn.Module, batches: list[Tensor]
) -> tuple[list[list[PooledCall]], list[Tensor]]:
    found, outputs = [], []
    with torch.no_grad(), capturing(model) as capture:
        for x in batches:
            pooling = Pooling("channels", "batch", {}, 0, len(x), {})
            found.append(capture.run(lambda x=x: outputs.append(model(x)), [x], pooling))
    return found, outputs


@needs_gpu
class TestCapture:
    @pytest.mark.parametrize("kind", ["float32", "half", "channels last"])
    def test_the_same_with_and_without(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = network(), tensor(6, 3, 32, 32)
        if kind == "half":
            model, x = model.half(), x.half()
        if kind == "channels last":
            model, x = (one.to(memory_format=torch.channels_last) for one in (model, x))
        with torch.no_grad():
            expected = model(x)
        by_torch, _ = captured(model, [x])
        monkeypatch.setattr(module, "LARGE", 0)
        by_kernel, outputs = captured(model, [x, x])
        assert all(torch.equal(output, expected) for output in outputs)
        for calls in by_kernel:
            assert [call.call for call in calls] == [call.call for call in by_torch[0]]
            for one, other in zip(calls, by_torch[0], strict=True):
                assert torch.allclose(one.x, other.x, atol=1e-6)
                assert torch.allclose(one.y, other.y, atol=1e-6)

    def test_a_kernel_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("triton")
        monkeypatch.setattr(module, "LARGE", 0)
        launched: list[str] = []
        launch = module._launched

        def counted(x: Tensor, plan: object, formula: str, *, direct: bool) -> object:
            launched.append(formula)
            return launch(x, plan, formula, direct=direct)

        monkeypatch.setattr(module, "_launched", counted)
        captured(network(), [tensor(6, 3, 32, 32)])
        assert launched[-3:] == ["relu", "relu6", "silu"]

    def test_another_mode_may_compute_something_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LARGE", 0)

        class Doubled(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                result = func(*args, **(kwargs or {}))
                return result * 2 if func is F.relu else result

        with Doubled():
            found, _ = captured(network(), [tensor(6, 3, 32, 32)])
        plain, _ = captured(network(), [tensor(6, 3, 32, 32)])
        assert torch.allclose(found[0][0].y, plain[0][0].y * 2, atol=1e-6)

    def test_the_host_does_not_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LARGE", 0)
        model, x = network(), tensor(6, 3, 32, 32)
        captured(model, [x])  # compiles and checks the kernels
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is a prototype
            torch.cuda.set_sync_debug_mode("error")
        try:
            captured(model, [x, x])
        finally:
            torch.cuda.set_sync_debug_mode("default")
