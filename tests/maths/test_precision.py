"""Whether TF32 is allowed is read from any of torch's settings, and changes none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from sigmascope.maths.precision import allows_tf32

BACKENDS = torch.backends
IS_NEW = hasattr(BACKENDS.cudnn, "conv")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Start with TF32 allowed nowhere, and put back what was set."""
    before = BACKENDS.cudnn.allow_tf32, BACKENDS.cuda.matmul.allow_tf32
    BACKENDS.cudnn.allow_tf32 = BACKENDS.cuda.matmul.allow_tf32 = False
    yield
    BACKENDS.cudnn.allow_tf32, BACKENDS.cuda.matmul.allow_tf32 = before


def test_older_names() -> None:
    assert not allows_tf32()
    BACKENDS.cuda.matmul.allow_tf32 = True
    assert allows_tf32()
    BACKENDS.cuda.matmul.allow_tf32 = False
    BACKENDS.cudnn.allow_tf32 = True
    assert allows_tf32()
    assert BACKENDS.cudnn.allow_tf32


@pytest.mark.skipif(not IS_NEW, reason="these names came with torch 2.9")
def test_newer_names() -> None:
    """The older ones raise when both are mixed, so that they must not be read."""
    conv, matmul = BACKENDS.cudnn.conv, BACKENDS.cuda.matmul
    before = conv.fp32_precision, matmul.fp32_precision
    try:
        conv.fp32_precision = "tf32"
        assert allows_tf32()
        with pytest.raises(RuntimeError, match="mix"):
            assert BACKENDS.cudnn.allow_tf32
        conv.fp32_precision = "ieee"
        assert not allows_tf32()
        matmul.fp32_precision = "tf32"
        assert allows_tf32()
    finally:
        conv.fp32_precision, matmul.fp32_precision = before
