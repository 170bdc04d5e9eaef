"""On a GPU similarities are those of the CPU, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.symmetry.procrustes_similarity import Procrustes

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SHAPES = {
    "equal": ((300, 24, 8, 8), (300, 24, 8, 8)),
    "unequal": ((300, 24, 8, 8), (300, 40, 4, 4)),
    "flat": ((300, 24), (300, 7)),
}
MEASURES: list[tuple[str, dict[str, Any]]] = [
    ("procrustes", {}),
    ("procrustes", {"normalizer": "live"}),
    ("cka", {}),
    ("cka", {"kernel": "median"}),
    ("cka", {"normalize": "none", "centered": False}),
]


def features(seed: int, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).relu()


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
@pytest.mark.parametrize("group", ["relu", "orthogonal"])
@pytest.mark.parametrize(("measure", "options"), MEASURES)
def test_a_gpu_finds_what_the_cpu_finds(
    case: str, dtype: str, tolerance: float, group: str, measure: str, options: dict[str, Any]
) -> None:
    x, y = (features(seed, shape) for seed, shape in enumerate(SHAPES[case]))
    call = getattr(sg.symmetry, measure)
    one, other = (
        call(x.to(at), y.to(at), group=group, dtype=dtype, **options).similarity
        for at in ("cpu", "cuda")
    )
    assert other == pytest.approx(one, abs=tolerance)


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
@pytest.mark.parametrize("group", ["relu", "orthogonal"])
def test_features_are_like_themselves(measure: str, group: str) -> None:
    x = features(0, (64, 8, 4, 4)).cuda()
    assert getattr(sg.symmetry, measure)(x, x.clone(), group=group).similarity == 1


def test_batches_are_streamed() -> None:
    streamed = Procrustes()
    for batch in features(0, (64, 8, 4, 4)).cuda().split(10):
        streamed.add(batch, batch.flip(1))
    assert streamed.result().similarity == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
@pytest.mark.parametrize("group", ["relu", "orthogonal"])
def test_networks_are_compared_alike(
    measure: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # both devices are to have the same network
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)

    def network(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())

    images = torch.randn(200, 3, 12, 12)
    found = [
        sg.symmetry.compare(
            network(0).to(at),
            network(1).to(at),
            images.split(50),
            measure=measure,
            group=group,
            progress=False,
        )
        for at in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(found[0].similarity, found[1].similarity, rtol=0, atol=1e-4)
