"""Full float32 is set for as long as it is needed, whatever was set before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from sigmascope.maths.float32 import _switches, full_float32


def settings() -> list[object]:
    return [getattr(holder, name) for holder, name, _ in _switches()]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Put back what the tests set, by the names that they use: torch refuses to mix old and new."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    yield
    cudnn.allow_tf32, matmul.allow_tf32 = before


@pytest.mark.parametrize("allowed", [True, False])
def test_settings_are_restored(allowed: bool) -> None:
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed
    before, exact = settings(), [value for *_, value in _switches()]
    assert before != exact or not allowed
    with full_float32():
        assert settings() == exact
    assert settings() == before
    with pytest.raises(KeyError, match="inside"), full_float32():
        raise KeyError("inside")
    assert settings() == before
    assert torch.backends.cuda.matmul.allow_tf32 is allowed
    assert torch.backends.cudnn.allow_tf32 is allowed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_products_are_exact_though_tf32_is_allowed() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    x = torch.randn(256, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    single, right = x.cuda().float(), x.cuda() @ x.cuda()

    def error() -> float:
        return float((single @ single - right).abs().max() / right.abs().max())

    assert error() > 1e-5  # negative control
    with full_float32():
        assert error() < 1e-6
