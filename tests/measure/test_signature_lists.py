"""Networks that receive a list of images, and samples that are named by an option; each against
matrices made by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.batches import batch_size, batches_of

N = 24


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by_hand(x: Tensor) -> float:
    with torch.no_grad():
        return float(sg.affinity(x.mean((2, 3)), F.relu(x).mean((2, 3))))


class Detector(nn.Module):
    """Pads images of any size to one batch, as torchvision's detectors do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.act = nn.Conv2d(3, 5, 3), nn.ReLU()

    def batch(self, images: list[Tensor]) -> Tensor:
        batch = images[0].new_full((len(images), 3, 9, 9), 0)
        for number, image in enumerate(images):
            scaled = F.interpolate(image[None] - 0.5, scale_factor=1.0)[0]
            batch[number, :, : scaled.shape[1], : scaled.shape[2]].copy_(scaled)
        return batch

    def forward(self, images: list[Tensor], targets: Any = None) -> list[dict[str, Tensor]]:
        assert isinstance(images, (list, tuple))
        features = self.act(self.conv(self.batch(images)))
        return [{"scores": torch.sigmoid(one.mean((1, 2)))} for one in features]


IMAGES = [normal(3, 6 + number % 4, 9, seed=number) for number in range(N)]
TARGETS = [{"boxes": torch.rand(2, 4)} for _ in IMAGES]


@pytest.mark.parametrize(
    "batch",
    [(IMAGES, TARGETS), [IMAGES, TARGETS], (tuple(IMAGES), torch.zeros(N)), IMAGES, (IMAGES,)],
    ids=["targets", "in a list", "labels", "bare", "alone"],
)
def test_a_list_of_images_is_a_batch(batch: Any) -> None:
    model = Detector()
    found = sg.signature(model, [batch])
    assert [(site.path, site.n) for site in found.sites] == [("act", N)]
    expected = by_hand(model.conv(model.batch(IMAGES)))
    assert found.scores == pytest.approx([expected], abs=1e-6)
    assert batch_size(batch, 0) == N


def test_what_is_computed_from_one_image_says_so() -> None:
    found = sg.signature(Detector(), [(IMAGES, TARGETS)])
    reasons = [one.reason for one in found.coverage.skipped]
    assert len(reasons) == N
    assert reasons[3].startswith("a tensor of shape [5] computed from sample 3 of the batch alone")


def test_images_of_one_shape_as_many_as_their_channels() -> None:
    """Channels are not taken for samples where there are as many."""
    model, images = Detector(), [normal(3, 9, 9, seed=number) for number in range(3)]
    found = sg.signature(model, [(images, None)])
    assert found.sites[0].n == 3
    assert found.scores == pytest.approx([by_hand(model.conv(model.batch(images)))], abs=1e-6)


def test_a_pair_of_images_and_targets_is_one_batch() -> None:
    pair = (IMAGES, TARGETS)
    assert [*batches_of(pair)] == [pair]
    two = [IMAGES, IMAGES]
    assert [*batches_of(two)] == two
    assert len([*batches_of((IMAGES, IMAGES))]) == 2


@pytest.mark.parametrize(
    ("shapes", "count"),
    [
        (((64, 8), (64, 3)), 1),  # inputs and targets
        (((64, 3, 8, 8), (64, 1, 8, 8)), 1),  # images and masks
        (((64, 8), (64, 8)), 2),  # which may be two batches as well
        (((64, 8), (32, 8)), 2),
        (((64, 3, 8, 8), (64, 3, 16, 16)), 2),  # images of two sizes
        (((64, 10, 8), (64, 12, 8)), 2),  # sentences of two lengths
        (((64, 8), (64, 3), (64, 2)), 3),
    ],
    ids=str,
)
def test_targets_that_are_no_inputs(shapes: tuple[tuple[int, ...], ...], count: int) -> None:
    for kind in (tuple, list):
        assert len([*batches_of(kind(torch.zeros(shape) for shape in shapes))]) == count


def test_two_inputs_in_a_list_stay_two_inputs() -> None:
    class Sum(nn.Module):
        def forward(self, both: list[Tensor]) -> Tensor:
            return F.relu(both[0] + both[1])

    first, second = normal(N, 5, 4), normal(N, 5, 4, seed=1)
    found = sg.signature(Sum(), [([first, second], torch.zeros(N))], channel_axis={"*": 2})
    x = first + second
    expected = float(sg.affinity(x.mean(1), F.relu(x).mean(1)))
    assert found.scores == pytest.approx([expected], abs=1e-6)


class InPieces(nn.Module):
    """Runs its batch in pieces."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.act = nn.Linear(6, 4), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.act(self.linear(piece)) for piece in x.split(16)])


@pytest.mark.parametrize("samples", ["batch", "tokens", "positions"])
def test_pieces_of_a_batch_are_scored_on_their_samples(samples: Any) -> None:
    model, x = InPieces(), normal(40, 6)
    found = sg.signature(model, [x], samples=samples, estimator="both")
    assert [site.n for site in found.sites] == [16, 16, 8]
    hidden = model.linear(x).detach().split(16)
    expected = [float(sg.affinity(piece, F.relu(piece))) for piece in hidden]
    assert found.scores == pytest.approx(expected, abs=1e-6)


class Unfollowed(nn.Module):
    """Loses its samples in NumPy, and has as many channels as samples."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(torch.from_numpy(x.numpy()).transpose(0, 2).contiguous())


def test_the_axis_of_the_samples_can_be_named() -> None:
    x = normal(N, 3, 7)
    expected = float(sg.affinity(x.mean(1), F.relu(x).mean(1)))
    found = sg.signature(
        Unfollowed(), [x], sample_axis={"act": -1}, channel_axis={"*": 0}, estimator="both"
    )
    assert found.scores == pytest.approx([expected], abs=1e-6)
    assert found.sites[0].n == found.sites[0].population_n == N
    assert found.options.sample_axis == {"act": -1}
    other = sg.signature(Unfollowed(), [x], sample_axis={"act": 1}, channel_axis={"*": 0})
    rows = x.mean(0)
    assert other.scores == pytest.approx([float(sg.affinity(rows, F.relu(x).mean(0)))], abs=1e-6)


def test_an_axis_that_is_not_there() -> None:
    found = sg.signature(Unfollowed(), [normal(N, 3, 7)], sample_axis={"*": 3})
    assert "sample_axis={'*': 3} does not fit a tensor of shape [7, 3, 24]" in found.sites[0].reason
    with pytest.raises(InputTypeError, match="sample_axis must map patterns of paths to axes"):
        sg.signature(Unfollowed(), [normal(N, 3, 7)], sample_axis={"*": "first"})  # type: ignore[dict-item]


@pytest.mark.parametrize("width", [8, 5])
def test_features_are_not_taken_for_samples(width: int) -> None:
    model = nn.Sequential(nn.Linear(8, width), nn.ReLU())
    with pytest.raises(InputError, match=r"shape \[8\].*no axis of samples.*batch\[None\]"):
        sg.signature(model, [normal(8)])


def test_numbers_are_samples_where_the_network_takes_them_so() -> None:
    class Curve(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(1, 4)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.linear(x[:, None]))

    assert sg.signature(Curve(), [normal(N)]).sites[0].n == N
