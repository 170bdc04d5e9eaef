"""Every activation call of the common networks is seen: hand-counted, by kind, with its axes, and
in order for some.
"""

from __future__ import annotations

import fnmatch
from collections import Counter

import pytest
import torch
from torch import Tensor

from sigmascope.capture.marks import Descent
from sigmascope.capture.observer import Call
from sigmascope.capture.recording import recording
from tests.networks import TIMM, TORCHVISION, TRANSFORMERS, Network

pytestmark = pytest.mark.slow


def calls(network: Network) -> list[tuple[Call, int]]:
    """Run a network once and list the calls it makes, each with the number of axes of its input."""
    seen: list[tuple[Call, int]] = []

    def observe(call: Call, x: Tensor) -> None:
        seen.append((call, x.ndim))

    model = network.build()
    with torch.no_grad(), recording(model, observe) as recorder:
        recorder.stop()
        with recorder.forward_pass():
            network.forward(model)
    return seen


LIBRARIES = {"torchvision": TORCHVISION, "timm": TIMM, "transformers": TRANSFORMERS}
NETWORKS = [
    pytest.param(network, f"{library}/{network.name}", id=f"{library}/{network.name}")
    for library, networks in LIBRARIES.items()
    for network in networks
]

# Network, path, the axis of the channels, from the sources of the networks; the first row that fits
# counts. The rows at the top are networks that have both: position biases with their heads on axis
# 1, MLPs among convolutions, convolutions before tokens.
AXES = (
    ("torchvision/swin_v2_*", "*.attn", 1),
    ("torchvision/maxvit_t", "*_attention.mlp_layer.*", -1),
    ("torchvision/convnext_*", "*", -1),
    ("torchvision/swin_*", "*", -1),
    ("torchvision/vit_*", "*", -1),
    ("timm/levit_*", "stages.*", -1),
    ("timm/test_convnext", "*", -1),
    ("timm/vit_*", "*", -1),
    ("timm/eva02_*", "*", -1),
    ("timm/*mixer_*", "*", -1),
    ("transformers/whisper", "encoder", 1),
    ("transformers/*", "*", -1),
    ("*", "*", 1),
)
# Computed from positions and weights alone.
CONSTANT = (("torchvision/swin_v2_*", "*.attn"), ("torchvision/swin_v2_*", "*.cpb_mlp.*"))


def channels(name: str, path: str) -> int:
    """The axis of the channels as the table has it."""
    return next(
        axis
        for network, site, axis in AXES
        if fnmatch.fnmatch(name, network) and fnmatch.fnmatch(path, site)
    )


@pytest.mark.parametrize(("network", "name"), NETWORKS)
def test_every_call_is_seen_with_its_axes(network: Network, name: str) -> None:
    seen = calls(network)
    assert Counter(call.kind for call, _ in seen) == network.calls
    if network.sites:
        assert [(call.path, call.number, call.kind) for call, _ in seen] == list(network.sites)
    guessed = [
        call for call, _ in seen if not call.layout.reason.startswith(("follows", "the only axis"))
    ]
    assert guessed == [], "the channel axis is not known by evidence"
    wrong = [call for call, ndim in seen if call.layout.axis != channels(name, call.path) % ndim]
    assert wrong == [], "another channel axis"
    for call, _ in seen:
        constant = any(
            fnmatch.fnmatch(name, network) and fnmatch.fnmatch(call.path, site)
            for network, site in CONSTANT
        )
        assert call.descent == (Descent("constant") if constant else Descent("known", 0)), call.path


def test_the_table_of_axes_tells_networks_apart() -> None:
    """All rows are used; tensors of equal rank have their channels on different axes."""
    names = [
        f"{library}/{network.name}"
        for library, networks in LIBRARIES.items()
        for network in networks
    ]
    assert [row for row in AXES if not any(fnmatch.fnmatch(name, row[0]) for name in names)] == []
    assert (
        channels("torchvision/resnet18", "relu") == channels("timm/convnext_atto", "stages.0") == 1
    )
    assert (
        channels("torchvision/convnext_tiny", "features.1")
        == channels("torchvision/swin_v2_t", "features.1.0.mlp.1")
        == -1
    )
