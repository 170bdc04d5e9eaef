"""Signatures of whole networks against an independent float64 implementation, and their companions
against published ones.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from tests.networks import torchvision_models

pytestmark = pytest.mark.slow

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden" / "networks.json").read_text())
# That of the golden values. The forward pass is float32 on both sides; here the worst difference is
# 1.4e-7.
TOLERANCE = 5e-6
# The published code works in float32, and what lies next to the edge of a bin may change sides.
PUBLISHED_TOLERANCE = {
    "norm": 1e-4,
    "cka": 1e-4,
    "r2": 2e-4,
    "entropy_before": 5e-3,
    "entropy_after": 5e-3,
}


class Reuse(nn.Module):
    """One ReLU, in place, for three calls."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.b1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(16, 16, 3, padding=1)
        self.act = nn.LeakyReLU(0.1)
        self.fc = nn.Linear(16, 10)
        self.head = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.b1(self.c1(x)))
        y = self.relu(self.c2(x))
        z = self.relu(y + self.c3(y))
        z = self.act(self.c3(z))
        return self.head(self.fc(z.mean((2, 3))))


class Pitfalls(nn.Module):
    """In place, functional, channels last and tokens, in one network."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, d, 3, padding=1)
        self.a1 = nn.SiLU(inplace=True)
        self.c2 = nn.Conv2d(d, d, 3, padding=1)
        self.a2 = nn.ReLU6(inplace=True)
        self.c3 = nn.Conv2d(d, d, 3, padding=1)
        self.l1 = nn.Linear(d, 2 * d)
        self.a3 = nn.GELU()
        self.l2 = nn.Linear(2 * d, d)
        self.t1 = nn.Linear(d, 2 * d)
        self.a4 = nn.GELU()
        self.t2 = nn.Linear(2 * d, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a1(self.c1(x))
        x = self.a2(self.c2(x) * 4)
        x = F.relu(self.c3(x))
        x = x.permute(0, 2, 3, 1)
        x = x + self.l2(self.a3(self.l1(x)))
        x = x.flatten(1, 2)
        return self.t2(self.a4(self.t1(x))).mean(1)


def perceptron() -> nn.Module:
    layers = [
        nn.Linear(10, 32),
        nn.ReLU(),
        nn.Linear(32, 32),
        nn.Tanh(),
        nn.Linear(32, 24),
        nn.GELU(),
        nn.Linear(24, 6),
    ]
    return nn.Sequential(*layers, nn.Sigmoid())


BUILD: dict[str, Callable[[], nn.Module]] = {
    "mlp_a": perceptron,
    "conv_a": Reuse,
    "pitfalls_a": lambda: Pitfalls(12),
    "alexnet": lambda: torchvision_models().alexnet(),
    "resnet18": lambda: torchvision_models().resnet18(),
    "vit_b_32": lambda: torchvision_models().vit_b_32(),
}


@functools.lru_cache(maxsize=1)
def built(name: str) -> tuple[nn.Module, Tensor]:
    """Build a network and its input from their seeds, and make sure that they are those of the
    golden values.
    """
    golden = GOLDEN[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = BUILD[name]()
    x = torch.randn(
        *golden["input_shape"], generator=torch.Generator().manual_seed(golden["input_seed"])
    )
    sums = [
        float(sum(p.detach().double().abs().sum() for p in network.parameters())),
        float(x.double().abs().sum()),
    ]
    expected = [golden["parameters_abs_sum"], golden["input_abs_sum"]]
    assert sums == pytest.approx(expected, rel=1e-6), (
        "torch draws other numbers here: the golden values do not apply"
    )
    return network, x


def golden_sites(signature: sg.Signature, name: str) -> list[sg.Site]:
    """The sites of the reference, which saw modules only, and of AlexNet only the features."""
    paths = {call["path"] for call in GOLDEN[name]["calls"]}
    sites = [site for site in signature.sites if site.path in paths]
    assert [(site.path, list(site.shape)) for site in sites] == [
        (call["path"], call["shape"]) for call in GOLDEN[name]["calls"]
    ]
    return sites


def expected(name: str, covariance: str, pool: str) -> list[float]:
    return [call[covariance][pool] for call in GOLDEN[name]["calls"]]


@pytest.mark.parametrize("pool", ["channels", "released"])
@pytest.mark.parametrize("name", BUILD)
def test_scores_of_both_poolings_and_estimators(name: str, pool: str, tmp_path: Path) -> None:
    network, x = built(name)
    run = sg.signature(network, x, pool=pool, eps=1e-6, metrics="sparsity", keep=tmp_path)
    sites = golden_sites(run, name)
    assert [site.score for site in sites] == pytest.approx(
        expected(name, "ledoit-wolf", pool), abs=TOLERANCE
    )
    again = golden_sites(sg.rescore(tmp_path, covariance="unbiased"), name)
    assert [site.score for site in again] == pytest.approx(
        expected(name, "unbiased", pool), abs=TOLERANCE
    )
    for key in ("sparsity_before", "sparsity_after"):
        # Values next to the threshold may change sides with the last bit of a convolution.
        assert [site.metrics[key] for site in sites] == pytest.approx(
            [c[key] for c in GOLDEN[name]["calls"]], abs=1e-4
        )


@pytest.mark.parametrize("name", ["mlp_a", "conv_a", "pitfalls_a"])
def test_scores_without_the_way_through_a_file(name: str) -> None:
    network, x = built(name)
    for pool in ("channels", "released"):
        sites = golden_sites(
            sg.signature(network, x, pool=pool, eps=1e-6, covariance="unbiased"), name
        )
        assert [site.score for site in sites] == pytest.approx(
            expected(name, "unbiased", pool), abs=TOLERANCE
        )


def test_the_poolings_and_estimators_are_told_apart() -> None:
    """Negative control: where channels are last, the other pooling or estimator is far off."""
    for name in ("pitfalls_a", "vit_b_32"):
        scores = {
            (c, p): expected(name, c, p)[-1]
            for c in ("ledoit-wolf", "unbiased")
            for p in ("channels", "released")
        }
        values = sorted(scores.values())
        assert min(b - a for a, b in itertools.pairwise(values)) > 100 * TOLERANCE


@pytest.mark.parametrize("name", [name for name, golden in GOLDEN.items() if "published" in golden])
def test_published_companions(name: str) -> None:
    """One entry per call of a module, also where one module is called three times."""
    network, x = built(name)
    run = sg.signature(network, x, pool="released", metrics="all", compat=True)
    found: dict[str, dict[str, list[float]]] = {}
    for site in run.sites:
        for key, value in site.metrics.items():
            found.setdefault(site.path, {}).setdefault(key, []).append(value)
    for path, metrics in GOLDEN[name]["published"].items():
        for key, values in metrics.items():
            assert_close(found[path][key], values, key)


def assert_close(found: list[float], values: list[Any], key: str) -> None:
    tolerance = PUBLISHED_TOLERANCE.get(key, 1e-4)
    scale = max(map(abs, values)) if key == "norm" else 1.0
    assert found == pytest.approx(values, abs=tolerance * scale), key
