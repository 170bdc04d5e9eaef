"""Channels that are split over heads, groups or queries, keys and values: which axis holds them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from sigmascope.capture.observer import Call
from sigmascope.capture.recording import recording
from tests.capture.steps import Steps

N, HEADS, WIDTH, SIDE = 2, 5, 4, 3
CHANNELS = 3 * HEADS * WIDTH

Step = Callable[[Tensor], Tensor]
CASES: dict[str, tuple[Step, int]] = {
    # as in timm's EfficientViT
    "transposed, then cut": (
        lambda x: x.reshape(N, HEADS, 3 * WIDTH, -1).transpose(-1, -2).chunk(3, dim=-1)[0],
        3,
    ),
    "cut": (lambda x: x.reshape(N, HEADS, 3 * WIDTH, -1).split(WIDTH, dim=2)[1], 2),
    "sliced": (lambda x: x.reshape(N, HEADS, 3 * WIDTH, -1)[:, :, WIDTH:], 2),
    "narrowed": (lambda x: x.reshape(N, HEADS, 3 * WIDTH, -1).mT.narrow(-1, 0, WIDTH), 3),
    "cut after a function": (
        lambda x: (x.reshape(N, HEADS, 3 * WIDTH, -1).mT * 2).contiguous().chunk(3, -1)[2],
        3,
    ),
    "unbound": (lambda x: x.reshape(N, 3, HEADS, WIDTH, -1).unbind(1)[0], 2),
    "one taken": (lambda x: x.reshape(N, 3, HEADS, WIDTH, -1)[:, 1].mT, 3),
    "heads joined with the samples": (
        lambda x: x.reshape(N, HEADS, 3 * WIDTH, -1).reshape(N * HEADS, 3 * WIDTH, -1),
        1,
    ),
    "two pieces": (lambda x: x.unflatten(1, (HEADS, -1)), 2),
    "two pieces, transposed": (lambda x: x.flatten(2).unflatten(1, (HEADS, -1)).mT, 3),
    "heads and their channels joined again": (
        lambda x: x.unflatten(1, (HEADS, -1)).add(1).flatten(1, 2),
        1,
    ),
    "the largest of several": (lambda x: x.unflatten(1, (-1, 4)).amax(2), 1),
    # what was right before stays so
    "from depth to length": (
        lambda x: x.flatten(2).unflatten(1, (-1, 4)).mT.reshape(N, CHANNELS // 4, -1),
        1,
    ),
    "split into space": (lambda x: x.reshape(N, CHANNELS // 4, 2, 2, SIDE, SIDE), 1),
    "shuffled": (
        lambda x: x.view(N, 3, -1, SIDE, SIDE).transpose(1, 2).reshape(N, -1, SIDE, SIDE),
        1,
    ),
    "cut before": (lambda x: x.chunk(3, dim=1)[0], 1),
}


@pytest.mark.parametrize(("step", "axis"), CASES.values(), ids=CASES)
def test_split_channels_after_a_convolution(step: Step, axis: int) -> None:
    calls: list[Call] = []
    model = Steps(nn.Conv2d(2, CHANNELS, 1), step)
    with torch.no_grad(), recording(model, lambda call, _: calls.append(call)):
        model(torch.rand(N, 2, SIDE, SIDE))
    assert (calls[0].layout.axis, calls[0].layout.reason) == (axis, "follows conv2d")


def test_heads_of_a_linear_layer_whose_channels_came_to_the_front() -> None:
    """As in the linear attention of Sana."""
    calls: list[Call] = []
    model = Steps(nn.Linear(6, HEADS * WIDTH), lambda x: x.mT.unflatten(1, (HEADS, -1)))
    with torch.no_grad(), recording(model, lambda call, _: calls.append(call)):
        model(torch.rand(N, 7, 6))
    assert (calls[0].layout.axis, calls[0].layout.reason) == (2, "follows linear")
