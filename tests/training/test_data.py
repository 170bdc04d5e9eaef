"""Data for stitching: read once, split_samples without overlap, augmented as asked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as sg
from sigmascope.training.data import StitchData, as_data, flip_and_shift, read_data
from sigmascope.training.feed import Feed, split_samples

CPU = torch.device("cpu")


def pair(count: int = 10) -> tuple[Tensor, Tensor]:
    return torch.arange(count * 2.0).reshape(count, 2), torch.arange(count) % 3


@pytest.mark.parametrize("count", [7, 100, 1001])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_the_parts_are_disjoint_and_complete(count: int, share: float) -> None:
    train, held = split_samples(count, share, 3)
    assert sorted([*train.tolist(), *held.tolist()]) == list(range(count))
    assert len(held) == round(count * share)
    assert torch.equal(split_samples(count, share, 3)[1], held)
    if count > 7:
        assert not torch.equal(split_samples(count, share, 4)[1], held)


def test_too_few_samples_cannot_be_divided() -> None:
    with pytest.raises(sg.InputError, match=r"a share of 0\.1 of 3 samples leaves one part empty"):
        split_samples(3, 0.1, 0)


def test_loaders_and_arrays_give_the_same() -> None:
    inputs, labels = pair()
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=4)
    arrays = (inputs.numpy(), labels.numpy().astype(np.uint8))
    for given in (loader, list(loader), arrays, [arrays], (inputs, labels)):
        found = as_data((given, (inputs, labels)))
        assert torch.equal(found.train[0], inputs)
        assert torch.equal(found.train[1], labels)
    assert as_data(found) is found


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ([], sg.InputError, "train is empty"),
        ("cifar10", sg.InputTypeError, "train must be a loader.*got a str"),
        (3, sg.InputTypeError, "train must be a loader.*got a int"),
        ([torch.ones(2, 2)], sg.InputTypeError, "train must yield batches.*got a Tensor"),
        (
            [(torch.ones(2, 2), torch.ones(3, dtype=torch.long))],
            sg.InputError,
            r"inputs \(2, 2\) and labels \(3,\)",
        ),
        ([(torch.ones(2, 2), torch.ones(2))], sg.InputError, "labels .* of torch.float32"),
    ],
)
def test_what_is_no_data_is_refused(given: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        read_data(given, pair())


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(sg.InputTypeError, match=r"batches must be a pair .* got a int"):
        as_data(3)
    with pytest.raises(sg.InputTypeError, match="test must be a pair of tensors"):
        StitchData(pair(), [1, 2])  # type: ignore[arg-type]
    with pytest.raises(sg.InputError, match="needs images"):
        StitchData(pair(), pair(), augment="flip-shift")
    with pytest.raises(sg.OptionError, match="augment='flip' is not a valid choice"):
        StitchData(pair(), pair(), augment="flip")


def test_flips_and_shifts() -> None:
    """Every image is a shift of itself or of its mirror image by at most two pixels, and all of
    these occur.
    """
    image = torch.arange(1.0, 73.0).reshape(1, 2, 6, 6)
    found = flip_and_shift(image.expand(2000, -1, -1, -1), torch.Generator().manual_seed(0))
    assert found.shape == (2000, 2, 6, 6)
    possible = set()
    for mirrored in (image, image.flip(3)):
        padded = torch.nn.functional.pad(mirrored, (2, 2, 2, 2))
        possible |= {
            tuple(padded[0, :, r : r + 6, c : c + 6].flatten().tolist())
            for r in range(5)
            for c in range(5)
        }
    seen = {tuple(one.flatten().tolist()) for one in found}
    assert seen == possible
    assert len(possible) == 50


def test_a_feed_prepares_shuffles_and_drops_the_rest() -> None:
    data = StitchData(pair(), pair(), prepare=lambda x: x / 2)
    feed = Feed(data.train, data, CPU, torch.float64, torch.tensor([1, 2, 3, 5, 8]))
    [(numbers, inputs, labels)] = feed.batches(10)
    assert (numbers.tolist(), inputs.dtype) == ([1, 2, 3, 5, 8], torch.float64)
    assert torch.equal(inputs, data.train[0][numbers].double() / 2)
    assert torch.equal(labels, data.train[1][numbers])
    seen = [numbers.tolist() for numbers, _, _ in feed.shuffled(2, 0)]
    assert [len(one) for one in seen] == [2, 2]
    assert seen == [numbers.tolist() for numbers, _, _ in feed.shuffled(2, 0)]
    assert seen != [numbers.tolist() for numbers, _, _ in feed.shuffled(2, 1)]
    assert [len(numbers) for numbers, _, _ in feed.shuffled(9, 0)] == [5]
    assert len(list(feed.shuffled(2, 0, limit=1))) == feed.steps(2, 1) == 1
