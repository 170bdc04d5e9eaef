"""Every activation call of the common networks is seen: hand-counted, by kind, and in order for some."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from sigmascope.capture.record import Call, recording
from tests.networks import TIMM, TORCHVISION, TRANSFORMERS, Network


def calls(network: Network) -> list[Call]:
    """Run a network once and list the calls it makes."""
    seen: list[Call] = []

    def observe(call: Call, x: Tensor) -> None:
        seen.append(call)

    model = network.build()
    with torch.no_grad(), recording(model, observe):
        network.forward(model)
    return seen


NETWORKS = [
    pytest.param(network, id=f"{library}/{network.name}")
    for library, networks in {"torchvision": TORCHVISION, "timm": TIMM, "transformers": TRANSFORMERS}.items()
    for network in networks
]


@pytest.mark.parametrize("network", NETWORKS)
def test_every_call_is_seen_with_its_channel_axis(network: Network) -> None:
    seen = calls(network)
    assert Counter(call.kind for call in seen) == network.calls
    if network.sites:
        assert [(call.path, call.number, call.kind) for call in seen] == list(network.sites)
    guessed = [call for call in seen if not call.layout.reason.startswith(("follows", "the only axis"))]
    assert guessed == [], "the channel axis is not known by evidence"
