"""A GPU gives the CPU's float64 score, whatever the type of its input."""

from __future__ import annotations

import pytest
import torch

import sigmascope as sg

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

WIDTHS = (64, 128, 256, 512, 1024, 2048)
ZERO = torch.tensor([0])


def pair(d: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(512, d, generator=torch.Generator().manual_seed(seed))
    return x, torch.relu(x)


@pytest.mark.parametrize("estimator", ["ledoit-wolf", "unbiased"])
@pytest.mark.parametrize("d", WIDTHS)
def test_one_pair(d: int, estimator: str) -> None:
    x, y = pair(d)
    result = sg.affinity(x.cuda(), y.cuda(), covariance=estimator)
    expected = sg.affinity(x.double().numpy(), y.double().numpy(), covariance=estimator)
    assert (result.score.device.type, result.score.dtype) == ("cuda", torch.float64)
    assert float(result) == pytest.approx(expected.score, abs=1e-6)
    assert float(result.w2) == pytest.approx(expected.w2, rel=1e-5)


@pytest.mark.parametrize("estimator", ["ledoit-wolf", "unbiased"])
def test_many_pairs_of_mixed_widths(estimator: str) -> None:
    pairs = [pair(d, seed) for seed, d in enumerate((*WIDTHS, *reversed(WIDTHS), 1, 3, 1))]
    pairs.append((pairs[0][0], torch.zeros_like(pairs[0][0])))
    pairs.append(
        (pairs[0][0], pairs[0][1][torch.randperm(512, generator=torch.Generator().manual_seed(0))])
    )
    on_gpu = sg.affinities([(x.cuda(), y.cuda()) for x, y in pairs], covariance=estimator)
    on_cpu = sg.affinities(pairs, covariance=estimator)
    for result, expected in zip(on_gpu, on_cpu, strict=True):
        assert float(result) == pytest.approx(float(expected), abs=1e-6, nan_ok=True)
        assert (result.degenerate, result.reason) == (expected.degenerate, expected.reason)
        assert result.certified != "no"


@pytest.mark.parametrize("d", [3, 64, 1500])
def test_gradients(d: int) -> None:
    gradients = {}
    for device in ("cpu", "cuda"):
        x, y = (sample.to(device).requires_grad_() for sample in pair(d))
        sg.affinity(x, y).score.backward()
        gradients[device] = torch.cat([x.grad, y.grad]).cpu()
    largest = gradients["cpu"].abs().max()
    torch.testing.assert_close(
        gradients["cuda"], gradients["cpu"], atol=1e-5 * float(largest), rtol=1e-4
    )


def test_devices_are_not_mixed() -> None:
    x, y = pair(3)
    with pytest.raises(
        sg.InputTypeError, match=r"x is on cuda:0 and y on cpu\. Move one with \.to"
    ):
        sg.affinity(x.cuda(), y)


def test_together_and_one_by_one() -> None:
    pairs = [pair(d, seed) for seed, d in enumerate((*WIDTHS, 3, 16, 3, 700))]
    pairs += [(x[:300], y[:300]) for x, y in pairs]
    on_gpu = [(x.cuda(), y.cuda()) for x, y in pairs]
    for result, (x, y) in zip(sg.affinities(on_gpu), on_gpu, strict=True):
        assert float(result) == pytest.approx(float(sg.affinity(x, y)), abs=1e-12)


@pytest.mark.parametrize("scale", [2.0**-99, 2.0**-30, 2.0**30, 2.0**99])
def test_neither_scales_nor_constant_columns_change_a_score(scale: float) -> None:
    pairs = [(x.cuda(), y.cuda()) for x, y in (pair(d) for d in (3, *WIDTHS))]
    still = [float(result) for result in sg.affinities(pairs)]
    scaled = sg.affinities([(scale * x, scale * y) for x, y in pairs])
    assert [float(result) for result in scaled] == pytest.approx(still, abs=1e-9)
    flat = [(x.index_fill(1, ZERO.cuda(), 0), y) for x, y in pairs]
    masked = [(x.index_fill(1, ZERO.cuda(), -1e30), y) for x, y in pairs]
    expected = [float(result) for result in sg.affinities(flat)]
    found = [float(result) for result in sg.affinities(masked)]
    assert found == pytest.approx(expected, abs=1e-12)


def test_far_rows_and_constants_in_half_precision() -> None:
    x, _ = pair(64)
    x[0] *= 1e4
    order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.arange(511).flip(0)])
    far = sg.affinity(x.double().cuda(), x[order].double().cuda())
    assert far.certified == "solver"
    assert float(far) == pytest.approx(1, abs=1e-9)
    noise = (0.1 + 2e-4 * torch.sign(x)).bfloat16().cuda()
    assert sg.affinity(x.cuda(), noise).reason == "the output is constant up to rounding"
