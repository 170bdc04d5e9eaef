"""The penalty on a GPU; run there by `make test-gpu`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.training.cuda_graph import Step

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def network(width: int = 64) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 8, 3), nn.SiLU()
    ).double()


def images(n: int, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, 10, 10, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("samples", ["batch", "positions"])
@pytest.mark.parametrize("n", [40, 300])  # running sums, and each batch on its own
def test_the_same_as_on_the_cpu(n: int, samples: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        model = network().to(device)
        penalty = sg.AffinityPenalty(model, weight=1.0, samples=samples)
        for step in range(6):
            model.zero_grad()
            with penalty:
                out = model(images(n, step).to(device))
            (0 * out.sum() + penalty.value).backward()
        assert len(penalty.scores) == 2
        found.append((penalty.scores, [one.grad.cpu() for one in model.parameters()]))
    (scores, gradients), (others, products) = found
    assert others == pytest.approx(scores, abs=1e-6)
    for one, other in zip(gradients, products, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-7)


def test_a_step_does_not_wait_for_the_device() -> None:
    model, x = network().to("cuda"), images(300).to("cuda")
    penalty = sg.AffinityPenalty(model)
    for _ in range(3):  # to find the sites, for handles and graphs
        with penalty:
            model(x)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with penalty:
            model(x)
        penalty.value.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_whole_step_is_captured() -> None:
    results = []
    for captured in (False, True):
        model = network().to("cuda")
        penalty = sg.AffinityPenalty(model, weight=1.0)
        losses = torch.zeros((), device="cuda", dtype=torch.float64)
        for one in model.parameters():
            one.grad = torch.zeros_like(one)

        def step(x: Tensor, model=model, penalty=penalty, losses=losses) -> None:
            for one in model.parameters():
                one.grad.zero_()
            with penalty:
                model(x)
            penalty.value.backward()
            with torch.no_grad():
                for one in model.parameters():
                    one.sub_(one.grad, alpha=0.1)
            losses.add_(penalty.value.detach())

        changed = [*model.state_dict().values(), losses]
        run = Step(step, lambda changed=changed: changed) if captured else step
        for seed in range(4):
            run(images(300, seed).to("cuda"))
        results.append(losses.item())
        assert not captured or run._graph is not None
    assert results[1] == pytest.approx(results[0], rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    model, x = network().float().to("cuda"), images(300).float().to("cuda")
    penalty = sg.AffinityPenalty(model, weight=1.0)
    with torch.autocast("cuda", dtype), penalty:
        model(x)
    assert penalty.value.dtype == torch.float32
    penalty.value.backward()
    assert model[0].weight.grad.isfinite().all()
    assert model[0].weight.grad.abs().max() > 0
