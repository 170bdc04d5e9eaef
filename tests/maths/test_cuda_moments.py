"""Moments on a GPU; run there by `make test-gpu`."""

from __future__ import annotations

import pytest
import torch

from sigmascope.maths.moments import Moments
from sigmascope.maths.scoring import score_all

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def samples(
    n: int, d: int, *, device: str = "cpu", seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.eye(d) + torch.randn(d, d, generator=generator) / d**0.5
    x = (torch.randn(n, d, generator=generator) @ mixing).to(device)
    return x, x.relu()


@pytest.mark.parametrize(("n", "d"), [(400, 8), (3000, 64), (1024, 256), (2000, 600)])
def test_the_same_as_on_the_cpu(n, d):
    here, there = Moments(), Moments()
    for start in range(0, n, 100):
        for moments, device in ((here, "cpu"), (there, "cuda")):
            x, y = samples(n, d, device=device)
            moments.update(x[start : start + 100], y[start : start + 100])
    one, other = here.score(), there.score()
    for name in ("score", "plain", "stderr", "low", "high"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), abs=1e-9)
    assert other.influence == pytest.approx(one.influence, abs=1e-10)


def test_an_update_does_not_wait_for_the_device():
    x, y = samples(4096, 32, device="cuda")
    Moments().update(x, y)  # handles and memory
    moments = Moments()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for start in range(0, 4096, 256):
            moments.update(x[start : start + 256], y[start : start + 256])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert moments.score().reason == ""


def test_sites_scored_together_are_those_scored_alone():
    several = []
    for seed, d in enumerate((16, 64, 16, 64, 64)):
        moments = Moments()
        moments.update(*samples(800, d, device="cuda", seed=seed))
        several.append(moments)
    for found, moments in zip(score_all(several), several, strict=True):
        assert found.score == pytest.approx(moments.score().score, abs=1e-10)


@pytest.mark.parametrize("power", [-30, 0, 30])
def test_the_scale_does_not_matter(power):
    x, y = samples(500, 16, device="cuda")
    moments, scaled = Moments(), Moments()
    moments.update(x.double(), y.double())
    scaled.update(10.0**power * x.double(), 10.0**power * y.double())
    assert scaled.score().score == pytest.approx(moments.score().score, abs=1e-9)


def test_merging_across_devices_and_saving(tmp_path):
    x, y = samples(600, 8)
    there, here, whole = Moments(), Moments(), Moments()
    there.update(x[:300].cuda(), y[:300].cuda(), 0)
    here.update(x[300:], y[300:], 300)
    whole.update(x, y)
    for both in (there + here, here + there, Moments.load((there + here).save(tmp_path / "sums"))):
        assert both.score().score == pytest.approx(whole.score().score, abs=1e-10)
