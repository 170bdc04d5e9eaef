"""Samples apart from their batch: taken out, put together again, and written one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.marks import Descent
from sigmascope.capture.nested import are_samples
from sigmascope.capture.observer import Call
from sigmascope.capture.partial_samples import view_of
from sigmascope.capture.recording import recording
from tests.capture.steps import Steps

N = T = C = 4  # sizes tell nothing
weight = nn.Parameter(torch.randn(C, C))


def known(axis: int = 0, outer: int = 1, inner: int = 1) -> Descent:
    return Descent("known", axis, outer, inner)


def part(first: int, count: int, axis: int = 0, inner: int = 1) -> Descent:
    return Descent("part", axis, 1, inner, first, count)


def single(number: int) -> Descent:
    return Descent("single", first=number, count=1)


LOST, MERGED, FEATURES, CONSTANT, UNKNOWN = (
    Descent(state) for state in ("lost", "merged", "features", "constant", "unknown")
)


def passes(model: nn.Module, given: object, count: int = 1) -> list[Descent]:
    """What the recorder says of the samples in the last activation of each pass."""
    calls: list[Call] = []
    found = []
    inputs = [given] if isinstance(given, (Tensor, list)) else []
    with torch.no_grad(), recording(model, lambda call, _: calls.append(call)) as recorder:
        recorder.stop()
        for _ in range(count):
            with recorder.forward_pass(inputs, size=N):
                model(given)
            found.append(calls[-1].descent)
    return found


def written(images: Sequence[Tensor], order: Sequence[int] = range(N)) -> Tensor:
    """Pad images of any size to one batch, as torchvision's detectors do."""
    batch = images[0].new_full((N, 3, 8, 8), 0)
    for number in order:
        image = images[number]
        batch[number, : image.shape[0], : image.shape[1], : image.shape[2]].copy_(image)
    return batch


def assigned(images: Sequence[Tensor], places: Sequence[int] = range(N)) -> Tensor:
    batch = torch.zeros(N, 3, 8, 8)
    for number, image in zip(places, images, strict=True):
        batch[number, :, : image.shape[1], : image.shape[2]] = image
    return batch


def views_copied(images: Sequence[Tensor]) -> Tensor:
    batch = torch.empty(3, N, 6, 6)
    for number, image in enumerate(images):
        batch.select(1, number).copy_(image[:, :6, :6])
    return batch


Step = Callable[[list[Tensor]], Tensor]
LISTS: dict[str, tuple[Step, Descent]] = {
    "stacked": (lambda x: torch.stack([one[:, :6, :6] for one in x]), known()),
    "stacked behind": (lambda x: torch.stack([one[:, :6, :6] for one in x], dim=-1), known(3)),
    "stacked, reversed": (lambda x: torch.stack([one[:, :6, :6] for one in x[::-1]]), LOST),
    "stacked, some": (lambda x: torch.stack([one[:, :6, :6] for one in x[1:3]]), part(1, 2)),
    "joined": (lambda x: torch.cat([one[None, :, :6, :6] for one in x]), known()),
    "joined along tokens": (
        lambda x: torch.cat([one[:, :6, :6].reshape(-1, 3) for one in x]),
        known(inner=36),
    ),
    "joined, of many lengths": (lambda x: torch.cat([one.flatten() for one in x]), LOST),
    "one alone": (lambda x: x[2] * 2, single(2)),
    "one alone, resized": (lambda x: F.interpolate(x[3][None], size=(6, 6))[0], single(3)),
    "two together": (lambda x: x[2][:, :6, :6] + x[1][:, :6, :6], MERGED),
    "two of one": (lambda x: torch.cat([x[2], x[2]]), single(2)),
    "written through views": (written, known()),
    "written in another order": (lambda x: written(x, [1, 0, 2, 3]), LOST),
    "written, one missing": (lambda x: written(x, [0, 1, 2]), Descent("filling", count=3)),
    "assigned": (assigned, known()),
    "assigned elsewhere": (lambda x: assigned(x, [3, 2, 1, 0]), LOST),
    "written behind": (views_copied, known(1)),
    "like one": (lambda x: torch.zeros_like(x[0]), CONSTANT),
    "padded": (lambda x: nn.utils.rnn.pad_sequence([one[0] for one in x], True), known()),
}


@pytest.mark.parametrize(("step", "expected"), LISTS.values(), ids=LISTS)
def test_a_list_of_images(step: Step, expected: Descent) -> None:
    images = [torch.rand(3, 6 + number % 3, 8) for number in range(N)]
    # the second pass is recognized as the first
    assert passes(Steps(step), images, 2) == [expected, expected]


BATCHES: dict[str, tuple[Step, Descent]] = {
    "unbound and stacked": (lambda x: torch.stack(x.unbind()), known()),
    "in a loop": (lambda x: torch.stack([2 * one for one in x]), known()),
    "by index": (lambda x: torch.stack([x[i] for i in range(N)], 1), known(1)),
    "by index, in front": (lambda x: torch.cat([x[i : i + 1] for i in range(N)]), known()),
    "split": (lambda x: torch.cat([2 * some for some in x.split(1)]), known()),
    "split unevenly": (lambda x: torch.cat(x.split([3, 1])), known()),
    "a piece": (lambda x: x.split([3, 1])[0], part(0, 3)),
    "a piece of a piece": (lambda x: x[1:][1:], part(2, 2)),
    "one of a piece": (lambda x: x[1:][1], single(2)),
    "a piece, a layer": (lambda x: F.linear(x[1:], weight), part(1, 3)),
    "a piece, flattened": (lambda x: x[1:3].reshape(-1, C), part(1, 2, inner=T)),
    "a piece, time-major": (lambda x: x[1:3].transpose(0, 1), part(1, 2, axis=1)),
    "halves": (lambda x: torch.cat([half + 1 for half in x.chunk(2)]), known()),
    "halves, exchanged": (lambda x: torch.cat(x.chunk(2)[::-1]), LOST),
    "halves, added": (lambda x: torch.add(*x.chunk(2)), LOST),
    "a piece and weights": (lambda x: x[:2] @ weight, part(0, 2)),
    "every second one": (lambda x: x[::2], LOST),
    "flattened tokens, one": (lambda x: x.flatten(0, 1)[5], single(1)),
    "filled": (lambda x: filled(x), known()),
    "zeros, filled behind": (lambda x: filled_behind(x), known()),
    "tensor split": (lambda x: torch.cat(torch.tensor_split(x, 3)), known()),
}


def filled(x: Tensor) -> Tensor:
    y = torch.empty_like(x[0]).expand(N, T, C).clone()
    for number in range(N):
        y[number] = x[number] + 1
    return y


def filled_behind(x: Tensor) -> Tensor:
    y = torch.zeros(N, T, 2 * C)
    y[:, :, :C].copy_(x)
    return y


@pytest.mark.parametrize(("step", "expected"), BATCHES.values(), ids=BATCHES)
def test_a_batch_taken_apart(step: Callable[[Tensor], Tensor], expected: Descent) -> None:
    assert passes(Steps(step), torch.rand(N, T, C), 2) == [expected, expected]


def test_positions_are_not_samples() -> None:
    """Even where there are as many of them: what a factory makes is the same for all samples."""

    def offsets(x: Tensor) -> Tensor:
        places = torch.stack(torch.meshgrid(torch.arange(4.0), torch.ones(C), indexing="ij"), -1)
        return F.linear(places.sum(-1), weight)

    def waves(x: Tensor) -> Tensor:
        table = torch.zeros(N, C)
        table[:, 0::2] = torch.sin(torch.arange(N)[:, None] * torch.ones(2))
        table[:, 1].copy_(torch.linspace(0, 1, N))
        return F.linear(table, weight)

    assert passes(Steps(offsets), torch.rand(N, C)) == [CONSTANT]
    assert passes(Steps(waves), torch.rand(N, C)) == [CONSTANT]
    # which a function that is not seen may have filled
    assert passes(Steps(lambda x: torch.empty(N, C) @ weight), torch.rand(N, C)) == [UNKNOWN]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(C, C), (C,)),
        (nn.Conv1d(C, C, 1), (C, 7)),
        (nn.Conv2d(C, C, 1), (C, 7, 7)),
        (nn.ConvTranspose2d(C, C, 1), (C, 7, 7)),
    ],
)
def test_features_are_not_samples(layer: nn.Module, shape: tuple[int, ...]) -> None:
    assert passes(Steps(layer), torch.rand(shape)) == [FEATURES]
    assert passes(Steps(layer), torch.rand(N, *shape)) == [known()]


def test_what_is_a_list_of_samples() -> None:
    image, batch = torch.rand(3, 8, 8), torch.rand(5, 3, 8, 8)
    assert all(map(are_samples, ([image, image], (image,))))
    assert not any(map(are_samples, ([batch, batch], image, [1, 2], [])))
    # sequences of several lengths; token ids are none
    assert are_samples([torch.rand(3, 2), torch.rand(4, 2)])
    assert not are_samples([torch.rand(3, 2), torch.rand(3, 2)])
    assert not are_samples([torch.zeros(3, 2, 2, dtype=torch.long)])
    # two inputs of 3 samples each, as the labels tell
    assert not are_samples([image, image], torch.zeros(3))
    assert are_samples([image, image], torch.zeros(2))


def test_where_a_view_lies_in_its_base() -> None:
    base = torch.zeros(3, 4, 5)
    assert view_of(base, base[1, :2, 3:]) == ((1, 1, -1), (0, 2, 0), (3, 2, 1))
    assert view_of(base, base.transpose(0, 2)[:, 1]) == ((0, 3, 1), (1, 1, -1), (0, 5, 0))
    assert view_of(base, base[:, ::2]) is None
    assert view_of(base.transpose(0, 1), base[0]) is None
