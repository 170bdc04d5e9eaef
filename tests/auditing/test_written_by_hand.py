"""Networks as people write them, none of which a library has: each is seen as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sigmascope as sg

SAMPLES, D = 3, 8


class Written(nn.Module):
    """Layers by name, and a function of them and of the input."""

    def __init__(self, forward: Callable[[Any, Tensor], object], **layers: nn.Module) -> None:
        super().__init__()
        self._forward = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> object:
        return self._forward(self, x)


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def convolution_module(net: Any, x: Tensor) -> Tensor:
    """Of a conformer, with time before samples around it."""
    hidden = net.norm(x.transpose(0, 1)).permute(1, 2, 0)
    value, gate = net.wide(hidden).chunk(2, dim=1)
    hidden = F.silu(net.batch(net.deep(value * torch.sigmoid(gate))))
    return net.narrow(hidden).permute(2, 0, 1)


def dilated(net: Any, x: Tensor) -> Tensor:
    """As in WaveNet."""
    hidden = net.first(x.mT)
    for _ in range(3):
        value, gate = net.gated(F.pad(hidden, (1, 0))).chunk(2, dim=1)
        hidden = hidden + torch.tanh(value) * torch.sigmoid(gate)
    return F.relu(hidden)


def recurrent(net: Any, x: Tensor) -> Tensor:
    state = memory = x.new_zeros(len(x), D)
    for step in x.unbind(1):
        i, f, g, o = (net.inward(step) + net.around(state)).chunk(4, dim=1)
        memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
        state = o.sigmoid() * memory.tanh()
    return state


def scan(net: Any, x: Tensor) -> Tensor:
    """A selective state space, step by step."""
    step, state = F.softplus(net.step(x)), x.new_zeros(len(x), D)
    found = []
    for time in range(x.shape[1]):
        state = torch.exp(-step[:, time]) * state + step[:, time] * x[:, time]
        found.append(state)
    return torch.stack(found, dim=1) * F.silu(net.gate(x))


def heads_in_front(net: Any, x: Tensor) -> Tensor:
    """Linear attention with the channels of each head before the positions."""
    query, key = (F.relu(net.query(x).mT.unflatten(1, (2, -1))) for _ in range(2))
    return ((query @ key.mT) @ query).flatten(1, 2).mT


def sigmoid_attention(net: Any, x: Tensor) -> Tensor:
    query, key, value = (net.query(x).unflatten(-1, (2, -1)).transpose(1, 2) for _ in range(3))
    mixed = torch.sigmoid(query @ key.mT) @ value
    return F.gelu(net.out(mixed.transpose(1, 2).flatten(2)))


def both_axes(net: Any, x: Tensor) -> Tensor:
    """Rows and then columns of an image as sequences."""
    image = x.unflatten(1, (3, 2))  # samples, rows, columns, channels
    rows = F.gelu(net.layer(image.flatten(0, 1))).view_as(image)
    columns = rows.transpose(1, 2).flatten(0, 1)
    return F.silu(net.layer(columns))


def windows(net: Any, x: Tensor) -> Tensor:
    cut = x.unfold(1, 4, 2)  # samples, windows, channels, length
    return F.mish(net.short(cut.flatten(0, 1))).unflatten(0, (len(x), -1)).mean(dim=1)


def routed(net: Any, x: Tensor) -> Tensor:
    """Every sample to one of two layers."""
    chosen, result = x[:, 0, 0] > 0, torch.zeros_like(x)
    for layer, rows in ((net.one, chosen), (net.other, ~chosen)):
        result[rows] = F.elu(layer(x[rows]))
    return torch.tanh(result)


def weights_from_data(net: Any, x: Tensor) -> Tensor:
    """A hypernetwork."""
    made = net.make(F.relu(net.layer(x)).mean(dim=1)).view(len(x), D, D)
    return torch.tanh(torch.einsum("nti,nio->nto", x, made))


def refined(net: Any, x: Tensor) -> Tensor:
    """Boxes that a detector moves a little, as logits."""
    share = torch.sigmoid(net.layer(x))
    return torch.sigmoid(net.layer(x) + torch.logit(share, eps=1e-5))


def layer(inputs: int = D, outputs: int = D) -> nn.Linear:
    return nn.Linear(inputs, outputs)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "conformer": lambda: Written(
        convolution_module,
        norm=nn.LayerNorm(D),
        wide=nn.Conv1d(D, 2 * D, 1),
        deep=nn.Conv1d(D, D, 3, padding=1, groups=D),
        batch=nn.BatchNorm1d(D),
        narrow=nn.Conv1d(D, D, 1),
    ),
    "wavenet": lambda: Written(dilated, first=nn.Conv1d(D, D, 1), gated=nn.Conv1d(D, 2 * D, 2)),
    "lstm": lambda: Written(recurrent, inward=layer(D, 4 * D), around=layer(D, 4 * D)),
    "state space": lambda: Written(scan, step=layer(), gate=layer()),
    "linear attention": lambda: Written(heads_in_front, query=layer()),
    "sigmoid attention": lambda: Written(sigmoid_attention, query=layer(), out=layer()),
    "axial": lambda: Written(both_axes, layer=layer()),
    "windows": lambda: Written(windows, short=layer(4, 5)),
    "routed": lambda: Written(routed, one=layer(), other=layer()),
    "hypernetwork": lambda: Written(weights_from_data, layer=layer(), make=layer(D, D * D)),
    "boxes": lambda: Written(refined, layer=layer(D, 4)),
}
# Sites, and how many of them have no score.
SEEN = {
    "conformer": (2, 0),
    "wavenet": (7, 0),
    "lstm": (30, 0),
    "routed": (3, 0),
    "linear attention": (2, 0),
    "windows": (1, 0),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_seen_as_it_is(name: str) -> None:
    torch.manual_seed(0)
    found = sg.audit(NETWORKS[name](), noise(SAMPLES, 6, D), name=name)
    assert (found.refused, found.error, found.findings) == ("", "", ())
    assert found.sites > 0
    if name in SEEN:
        assert (found.sites, found.skipped) == SEEN[name]
