"""Positions as rows: drawn evenly, by the number of the image alone, and never from padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sigmascope.capture.pooling import Pooling
from sigmascope.capture.pools import Axes
from sigmascope.capture.positions import Draws, divided, draw_positions


def drawn(numbers: Tensor, positions: int, most: int, **options: Any) -> list[list[int]]:
    """The positions of each image."""
    places = draw_positions(numbers, positions, most=most, **{"seed": 0, **options}).tolist()
    rows: list[list[int]] = [[] for _ in numbers]
    for place in places:
        rows[place // positions].append(place % positions)
    return rows


@pytest.mark.parametrize(("positions", "most"), [(10, 3), (10, 10), (7, 20), (3136, 64), (1, 1)])
def test_each_position_once_and_no_more_than_asked_for(positions: int, most: int) -> None:
    for row in drawn(torch.arange(50), positions, most):
        assert len(row) == len({*row}) == min(positions, most)
        assert 0 <= min(row) <= max(row) < positions


def test_the_number_of_the_image_decides() -> None:
    whole = drawn(torch.arange(40), 100, 7)
    assert [row for part in torch.arange(40).split(9) for row in drawn(part, 100, 7)] == whole
    assert drawn(torch.arange(40).flip(0), 100, 7) == whole[::-1]
    assert drawn(torch.tensor([2**40, 3]), 100, 7)[1] == whole[3]
    assert len({tuple(row) for row in whole}) == 40
    assert drawn(torch.arange(40), 100, 7, seed=1) != whole
    assert drawn(torch.arange(40), 100, 7, seed=2**63 - 1) != whole


def test_these_positions_and_no_others() -> None:
    """Results that were measured with them stay comparable, on every device."""
    assert drawn(torch.tensor([0, 1, 12345]), 49, 5, seed=7) == [
        [20, 32, 43, 2, 11],
        [48, 7, 16, 30, 33],
        [27, 33, 44, 6, 20],
    ]


def test_every_position_is_equally_likely() -> None:
    """Also where the number of positions is no multiple of the number drawn."""
    counts = torch.zeros(10)
    for row in drawn(torch.arange(4000), 10, 4):
        counts[row] += 1
    assert counts.sum() == 16000
    assert (counts - 1600).abs().max() < 5 * (4000 * 0.4 * 0.6) ** 0.5


def test_positions_of_an_image_are_spread() -> None:
    """One of each run of ten, in a circle."""
    for row in drawn(torch.arange(200), 100, 10):
        ordered = torch.tensor(sorted(row))
        gaps = torch.cat([ordered.diff(), ordered[:1] + 100 - ordered[-1:]])
        assert int(gaps.max()) <= 19


def test_masks() -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(60, 12, generator=generator) < torch.rand(60, 1, generator=generator)
    mask[3] = False
    rows = drawn(torch.arange(60), 12, 4, mask=mask)
    for row, allowed in zip(rows, mask, strict=True):
        assert len(row) == len({*row}) == min(4, int(allowed.sum()))
        assert all(allowed[place] for place in row)
    every = torch.ones(60, 12, dtype=torch.bool)
    assert drawn(torch.arange(60), 12, 4, mask=every) == drawn(torch.arange(60), 12, 4)


def pooling(**options: Any) -> Pooling:
    given: dict[str, Any] = {"size": 6, "masks": {}, "most": 4, **options}
    size, masks, generator = given.pop("size"), given.pop("masks"), torch.Generator().manual_seed(0)
    draws = Draws(False, size, 2048, generator, **given)
    return Pooling("channels", "positions", {}, 0, size=size, masks=masks, draws=draws)


IMAGES = torch.arange(6.0)[:, None, None, None] * 1000 + torch.arange(15.0).reshape(5, 3)


def test_rows_are_the_positions_of_their_images() -> None:
    """Whatever the layout; with all positions where there are few."""
    for most, count in ((4, 4), (99, 15)):
        way = pooling(most=most)
        rows = way.matrix(IMAGES, Axes(0, 1, 1, 1, ""))[:, 0]
        index = way.index(IMAGES, Axes(0, 1, 1, 1, ""), len(rows))
        assert index is not None
        assert index.tolist() == torch.arange(6).repeat_interleave(count).tolist()
        assert torch.equal((rows // 1000).long(), index)
        last = way.matrix(IMAGES.movedim(1, -1), Axes(0, 3, 1, 1, ""))[:, 0]
        assert torch.equal(last, rows)
        joined = way.matrix(IMAGES.reshape(18, 5, 1), Axes(0, 2, 1, 3, ""))
        assert {int(value) // 1000 for value in joined[:, 0]} == {*range(6)}


def test_the_first_sample_of_a_batch_has_a_number() -> None:
    axes = Axes(0, 1, 1, 1, "")
    whole = pooling().matrix(IMAGES, axes)
    parts = [
        pooling(first=first, size=len(part)).matrix(part, axes)
        for first, part in ((0, IMAGES[:1]), (1, IMAGES[1:5]), (5, IMAGES[5:]))
    ]
    assert torch.equal(torch.cat(parts), whole)
    assert not torch.equal(pooling(first=1).matrix(IMAGES, axes), whole)


def test_rows_without_positions_are_samples() -> None:
    way = pooling()
    assert way.index(torch.zeros(6, 9), Axes(0, 1, 1, 1, ""), 6) is None


def test_rows_in_no_known_order() -> None:
    way, axes = pooling(), Axes(None, 1, 1, 1, "")
    x = torch.arange(60.0)[:, None]
    rows = way.matrix(x, axes)
    assert rows[:, 0].tolist() == list(range(0, 60, 3))
    index = way.index(x, axes, len(rows))
    assert index is not None
    assert torch.equal(index, divided(20, 6))
    assert index.bincount().tolist() == [4, 3, 3, 4, 3, 3]
