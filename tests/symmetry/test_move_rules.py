"""Every rule of the table in a small network: the group it admits, the function it preserves."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.symmetry import UnmovableError, check_equivalence, move, spaces
from sigmascope.symmetry.group_table import GROUPS
from sigmascope.symmetry.groups import Group
from sigmascope.symmetry.wiring.shapes import reshaped
from sigmascope.symmetry.wiring.ties import Ties
from tests.symmetry.lively import changed, images, lively

Body = Callable[[Tensor], Tensor]
PERMUTED, SCALED, SIGNED, FREE = (
    "permutations",
    "permutations, d > 0",
    "permutations, d = ±1",
    "permutations, d ≠ 0",
)


class Between(nn.Module):
    """A function between a convolution of six channels and a linear layer."""

    def __init__(self, body: Body, side: int = 4) -> None:
        super().__init__()
        self.conv, self.body = nn.Conv2d(3, 6, 1), body
        with torch.no_grad():
            self.head = nn.Linear(
                body(self.conv(torch.zeros(2, 3, side, side))).flatten(1).shape[1], 4
            )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.conv(x)).flatten(1))


def by_channel(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


BODIES: dict[str, tuple[Body, str]] = {
    # functions of one number
    "relu": (torch.relu, SCALED),
    "relu in place": (lambda x: F.relu(x, inplace=True), SCALED),
    "method in place": (lambda x: x.relu_(), SCALED),
    "leaky, slope -1": (lambda x: F.leaky_relu(x, -1.0), FREE),
    "rrelu": (F.rrelu, SCALED),
    "abs": (torch.abs, FREE),
    "cube": (lambda x: x**3, FREE),
    "square, then relu": (lambda x: torch.relu(x.square()), FREE),
    "square, then tanh": (lambda x: torch.tanh(x**2), SIGNED),
    "root": (lambda x: x.abs() ** 0.5, SIGNED),
    "exp": (torch.exp, PERMUTED),
    "sin": (torch.sin, SIGNED),
    "softsign": (F.softsign, SIGNED),
    "tanh, then relu": (lambda x: torch.relu(torch.tanh(x)), PERMUTED),
    "clamp as relu": (lambda x: x.clamp(min=0), SCALED),
    "clamp": (lambda x: torch.clamp(x, -1, 1), PERMUTED),
    "symmetric hardtanh": (lambda x: F.hardtanh(x, -2, 2), SIGNED),
    "hardtanh": (lambda x: F.hardtanh(x, -1, 2), PERMUTED),
    "relu6": (F.relu6, PERMUTED),
    "softmax": (lambda x: x.softmax(1), PERMUTED),
    # arithmetic
    "negative": (lambda x: -x, FREE),
    "twice": (lambda x: 2 * x / 3, FREE),
    "plus nothing": (lambda x: x + 0, FREE),
    "plus one": (lambda x: x + 1, PERMUTED),
    "one minus": (lambda x: 1 - x, PERMUTED),
    "times itself": (lambda x: x * x, PERMUTED),
    "gate": (lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)), PERMUTED),
    "sum of different powers": (lambda x: x + x.abs(), PERMUTED),
    "sum of equal powers": (lambda x: x.abs() + torch.relu(x).abs(), SCALED),
    "constant for all": (lambda x: x + torch.ones(4, 4, dtype=x.dtype), PERMUTED),
    "times a constant for all": (lambda x: x * torch.arange(1.0, 5, dtype=x.dtype), FREE),
    "constant for each": (lambda x: x + torch.arange(6, dtype=x.dtype)[:, None, None], "fixed"),
    "times a constant for each": (
        lambda x: x * torch.arange(1.0, 7, dtype=x.dtype)[:, None, None],
        "fixed",
    ),
    "over a constant for each": (
        lambda x: x / torch.arange(1.0, 7, dtype=x.dtype)[:, None, None],
        "fixed",
    ),
    "sum by keywords": (lambda x: torch.add(input=x, other=torch.relu(x)), SCALED),
    "product by keywords": (
        lambda x: torch.mul(input=torch.full((4,), 2.0, dtype=x.dtype), other=x),
        FREE,
    ),
    "quotient by keywords": (lambda x: torch.div(input=x, other=3), FREE),
    "rounded quotient": (lambda x: torch.div(x, 0.5, rounding_mode="floor"), PERMUTED),
    # positions
    "max pool": (lambda x: F.max_pool2d(x, 2), SCALED),
    "max pool with places": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], SCALED),
    "adaptive max pool": (lambda x: F.adaptive_max_pool2d(x, 2), SCALED),
    "amax": (lambda x: x.amax((2, 3)), SCALED),
    "average pool": (lambda x: F.avg_pool2d(x, 2), FREE),
    "adaptive average pool": (lambda x: F.adaptive_avg_pool2d(x, 1), FREE),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), FREE),
    "mean": (lambda x: x.mean((2, 3)), FREE),
    "roll": (lambda x: torch.roll(x, (1, -1), (2, -1)).roll(1, 3).roll(shifts=2, dims=-2), FREE),
    "sum": (lambda x: torch.sum(x, dim=-1, keepdim=True), FREE),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), FREE),
    "pad positions": (lambda x: F.pad(x, (1, 1, 0, 1), mode="replicate"), FREE),
    "pad positions with ones": (lambda x: F.pad(x, (1, 1), value=1.0), PERMUTED),
    # axes
    "transpose": (lambda x: x.transpose(1, 3).contiguous(), FREE),
    "permute": (by_channel, FREE),
    "tokens": (lambda x: x.flatten(2).mT, FREE),
    "view": (lambda x: x.view(x.size(0), -1), FREE),
    "reshape": (lambda x: x.reshape(2, 6, 2, 8)[..., None].squeeze(-1).unsqueeze(1), FREE),
    "expand": (lambda x: x.mean((2, 3), keepdim=True).expand(-1, -1, 3, 3), FREE),
    "other dtype": (lambda x: x.detach().clone().to(x.dtype).type_as(x), FREE),
    # cutting and joining
    "positions": (lambda x: x[:, :, ::2, 1], FREE),
    "ellipsis": (lambda x: x[..., 0, None, :], FREE),
    "some channels": (lambda x: torch.cat([x[:, :2], torch.relu(x[:, 2:])], 1), ""),
    "halves exchanged": (lambda x: torch.cat(x.chunk(2, 1)[::-1], 1), ""),
    "halves added": (lambda x: sum(x.split(3, 1)), ""),  # type: ignore[arg-type,return-value]
    "twice side by side": (lambda x: torch.cat([x, torch.relu(x)], 1), SCALED),
    "across copies": (lambda x: torch.cat([x, torch.relu(x)], 1)[:, 3:9], ""),
    "along positions": (lambda x: torch.cat([x, torch.tanh(x)], 3), SIGNED),
    "along positions, with zeros": (lambda x: torch.cat([x, torch.zeros_like(x)], 3), "fixed"),
    "zeros beside": (lambda x: torch.cat([torch.zeros(2, 2, 4, 4, dtype=x.dtype), x], 1), FREE),
    "ones beside": (lambda x: torch.cat([torch.ones(2, 2, 4, 4, dtype=x.dtype), x], 1), FREE),
    "zeros around": (lambda x: F.pad(x, (0, 0, 0, 0, 2, 1)), FREE),
    "zeros around, added": (
        lambda x: F.pad(x, (0, 0, 0, 0, 0, 2)) + F.pad(x, (0, 0, 0, 0, 2, 0)),
        FREE,
    ),
    # norms without parameters
    "layer norm": (lambda x: F.layer_norm(by_channel(x), (6,)), PERMUTED),
    "group norm": (lambda x: F.group_norm(x, 2), ""),
    "instance norm": (F.instance_norm, PERMUTED),
    "local response norm": (lambda x: F.local_response_norm(x, 3), "fixed"),
}
# In each of these the channels of the convolution are not all used alike.
APART = {
    "some channels": ["permutations, d ≠ 0", "permutations, d > 0"],
    "halves exchanged": ["permutations, d ≠ 0", "permutations, d ≠ 0"],
    "halves added": ["permutations, d ≠ 0"],
    "across copies": ["permutations, d > 0", "permutations, d > 0"],
    "group norm": ["permutations", "permutations"],
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.filterwarnings("ignore:the move changed no weight")
def test_rule(name: str) -> None:
    body, expected = BODIES[name]
    model, x = lively(Between(body)), images(4)
    groups = [space.group for space in spaces(model, x) if space.name.startswith("conv")]
    if name in APART:
        assert groups[: len(APART[name])] == APART[name]
    else:
        assert groups == [expected]
    moved = move(model, generator=3, example_input=x)
    assert check_equivalence(model, moved, x).relative_error < 1e-9
    assert ("conv.weight" in changed(model, moved)) == (groups != ["fixed"])


@pytest.mark.parametrize("name", [name for name in GROUPS if name != "softplus"])
def test_activations_have_the_scales_of_their_group(name: str) -> None:
    row = GROUPS[name]
    own = row if isinstance(row, Group) else row()
    model, x = lively(Between(own.sigma)), images(4)
    words = {"one": PERMUTED, "signs": SIGNED, "positive": SCALED, "nonzero": FREE, "linear": FREE}
    (space,) = [space for space in spaces(model, x) if space.name == "conv"]
    assert space.group == words[own.scalars.name]
    assert (
        check_equivalence(model, move(model, generator=1, example_input=x), x).relative_error < 1e-9
    )


def hidden(x: Tensor) -> Tensor:
    with torch._C.DisableTorchFunction():
        return x + 1


def swallowed(x: Tensor) -> Tensor:
    """A network that catches the refusal does not get away with it."""
    try:
        return x.cumsum(2)
    except ValueError:
        return x


REFUSED: dict[str, tuple[Body, str]] = {
    "unknown": (lambda x: x.cumsum(2), r"cumsum: cumsum cannot be moved: there is no rule for it"),
    "product with a matrix": (lambda x: x @ torch.ones(4, 4, dtype=x.dtype), "matmul.*no rule"),
    "values read": (
        lambda x: x if float(x.sum((2, 3)).flatten()[0]) > 0 else -x,
        "__getitem__.*only be sliced",
    ),
    "comparison": (lambda x: torch.where(x > 0, x, -x), "gt.*no rule"),
    "item": (lambda x: x * x.mean((2, 3)).amax(0).std().item(), "no rule"),
    "sum over channels": (lambda x: x.sum(1), "it is taken over the channels"),
    "mean of all": (lambda x: x - x.mean(), "it is taken over the channels"),
    "one channel": (lambda x: x[:, 0], "channels can only be sliced"),
    "listed channels": (lambda x: x[:, [1, 0]], "channels can only be sliced"),
    "every second channel": (lambda x: x[:, ::2], "sliced without a step"),
    "groups": (
        lambda x: x.view(2, 2, 3, 4, 4).transpose(1, 2).reshape(2, 6, 4, 4),
        "splits the channels into groups",
    ),
    "repeated channels": (
        lambda x: x.sum((2, 3)).unsqueeze(1).expand(-1, 6, -1).mT + x.mean((2, 3))[:, None],
        "different axes",
    ),
    "denominator": (lambda x: 1 / (x.abs() + 1), "may not stand in a denominator"),
    "ratio": (lambda x: x / x.abs(), "may not stand in a denominator"),
    "written into": (
        lambda x: torch.zeros(2, 8, 4, 4, dtype=x.dtype).index_copy(1, torch.arange(6), x),
        "no rule",
    ),
    "input in place": (lambda x: torch.ones(2, 6, 4, 4, dtype=x.dtype).add_(x), "in place"),
    "squared in place": (lambda x: x.square_(), "of its views, in place"),
    "random": (lambda x: F.dropout(x, 0.5), "it is random"),
    "padded channels": (
        lambda x: F.pad(x, (0, 0, 0, 0, 1, 1), value=1.0),
        "padded with zeros only",
    ),
    "one channel for all": (
        lambda x: x.mean((2, 3))[:, :1] + torch.ones(2, 6, dtype=x.dtype),
        "it has 6 channels, and its input 1",
    ),
    "exponent": (lambda x: 2**x, "__rpow__.*no rule"),
    "max pool over channels": (
        lambda x: F.max_pool2d(by_channel(x), 2),
        "max_pool2d cannot be moved: it pools over the channels",
    ),
    "max pool with places over channels": (
        lambda x: F.max_pool2d(by_channel(x), 2, return_indices=True)[0],
        "it pools over the channels: they are on axis 3, not on axis 1",
    ),
    "average over channels": (
        lambda x: F.adaptive_avg_pool2d(by_channel(x), 2),
        "it pools over the channels",
    ),
    "interpolation of channels": (
        lambda x: F.interpolate(by_channel(x), scale_factor=2),
        "interpolates between the channels",
    ),
    "rolled channels": (
        lambda x: torch.roll(x, (1, 1), (-3, 2)),
        "roll cannot be moved: it rolls the channels",
    ),
    "all rolled": (lambda x: x.roll(1), "it rolls the channels"),
    "caught": (swallowed, "cumsum.*no rule"),
    "out of sight": (lambda x: torch.relu(hidden(x)), "one of its tensors comes from out of sight"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, reason = REFUSED[name]
    model = lively(Between(body))
    with pytest.raises(UnmovableError, match=reason):
        move(model, example_input=images(4))
    with pytest.raises(UnmovableError, match=reason):
        spaces(model, images(4))


@pytest.mark.parametrize("shape", [(3, 5, 4), (3, 4)])
@pytest.mark.parametrize(
    "pool", [nn.AvgPool1d(3, 1, 1), nn.MaxPool1d(3, 1, 1), nn.AdaptiveAvgPool1d(8)]
)
def test_pooling_over_the_last_axis_of_a_perceptron_is_refused(
    pool: nn.Module, shape: tuple[int, ...]
) -> None:
    model = lively(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), pool, nn.Linear(8, 2)))
    with pytest.raises(UnmovableError, match="it pools over the channels"):
        move(model, example_input=torch.ones(shape, dtype=torch.float64))


def test_pooling_without_an_axis_of_samples() -> None:
    model = lively(
        nn.Sequential(nn.Conv2d(3, 6, 1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 2, 1))
    )
    x = images(4)[0]
    moved = move(model, generator=0, example_input=x)
    assert check_equivalence(model, moved, x).relative_error < 1e-9
    assert "0.weight" in changed(model, moved)


def test_a_single_channel_goes_on_to_what_follows() -> None:
    """Flattened it is scaled at every position; a convolution after it is not depthwise."""
    bottleneck = nn.Sequential(nn.Conv2d(3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4))
    widening = nn.Sequential(
        nn.Conv2d(3, 1, 1),
        nn.ReLU(),
        nn.Conv2d(1, 6, 1),
        nn.ReLU(),
        nn.Conv2d(6, 2, 1),
        nn.Flatten(),
    )
    for model in (lively(bottleneck), lively(widening)):
        x = images(4)
        moved = move(model, generator=0, example_input=x)
        assert check_equivalence(model, moved, x).relative_error < 1e-9
        assert "0.weight" in changed(model, moved)
    spaces_of = {
        space.name: (space.width, space.group) for space in spaces(lively(widening), images(4))
    }
    assert spaces_of["2"] == (6, SCALED)


def test_reshapes_by_brute_force() -> None:
    """Every reshape of a small tensor: where channels are found again, each entry is one of its
    channel.
    """
    source = (2, 3, 4)
    entries = torch.arange(24).reshape(source)
    shapes = [
        shape
        for length in (1, 2, 3, 4)
        for shape in itertools.product((1, 2, 3, 4, 6, 8, 12, 24), repeat=length)
    ]
    followed = 0
    for axis, shape in itertools.product(
        range(3), (shape for shape in shapes if np.prod(shape) == 24)
    ):
        channels = Ties().fresh(source[axis], axis)
        channel_of = np.unravel_index(entries.numpy(), source)[axis].reshape(shape)
        found = reshaped(channels, source, shape)
        exact = [
            new
            for new in range(len(shape))
            if all(
                len(set(line.flatten().tolist())) == 1 for line in np.moveaxis(channel_of, new, 0)
            )
            and (shape[new] > 1 or source[axis] == 1)
        ]
        assert (found is not None) == bool(exact), (axis, shape)
        if found is not None:
            followed += 1
            lines = np.moveaxis(channel_of, found.axis, 0).reshape(shape[found.axis], -1)
            assert np.array_equal(found.place, lines[:, 0])
            assert (lines == lines[:, :1]).all()
    assert followed > 50
