"""Rows that are kept in few blocks of memory; sums that are added to in place."""

from __future__ import annotations

import itertools

import pytest
import torch

from sigmascope.maths import grouped_sums, kept_rows
from sigmascope.maths.grouped_sums import GROUPS, Rows, joined, with_rows
from sigmascope.maths.kept_rows import KeptRows
from sigmascope.maths.moments import Moments

BATCHES = 64


def batch(number: int, n: int = 10, d: int = 3) -> Rows:
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(n, d, generator=generator)
    return Rows(x, x.relu(), torch.arange(number * n, (number + 1) * n) % GROUPS)


def blocks(kept: KeptRows) -> int:
    """Return in how many pieces of memory the inputs are."""
    return len({rows.x.untyped_storage().data_ptr() for rows in kept.parts})


def in_parts(rows: Rows, *sizes: int) -> list[Rows]:
    borders = [*itertools.accumulate(sizes, initial=0), len(rows.x)]
    return [rows.between(start, end) for start, end in itertools.pairwise(borders) if start < end]


def test_rows_of_many_batches_are_in_few_blocks_and_stay_as_they_are():
    kept, whole = KeptRows(), [batch(number) for number in range(BATCHES)]
    for rows in whole:
        kept.add(rows)
    assert blocks(kept) == 1 + 6  # the first as it came, then blocks that double
    assert kept.bytes == sum(rows.x.nbytes + rows.y.nbytes for rows in whole)
    for name in ("x", "y", "groups"):
        found = torch.cat([getattr(rows, name) for rows in kept.parts])
        assert torch.equal(found, torch.cat([getattr(rows, name) for rows in whole]))


def test_without_blocks_each_batch_would_lie_in_the_heap_on_its_own():
    """Negative control of the count."""
    kept = KeptRows([batch(number) for number in range(BATCHES)])
    assert blocks(kept) == BATCHES


def test_two_that_share_rows_go_on_independently():
    one, other = KeptRows(), KeptRows()
    for number in range(3):
        one.add(batch(number))
    other.add_all(one)
    one.add(batch(3))
    other.add(batch(4))
    for kept, last in ((one, 3), (other, 4)):
        found = [rows.x for rows in kept.parts]
        expected = [batch(number).x for number in (0, 1, 2, last)]
        assert torch.equal(torch.cat(found), torch.cat(expected))


def test_rows_of_other_types_have_blocks_of_their_own():
    kept = KeptRows()
    for number, dtype in enumerate([torch.float32, torch.float64] * 3):
        rows = batch(number)
        kept.add(Rows(rows.x.to(dtype), rows.y.to(dtype), rows.groups))
    assert [rows.x.dtype for rows in kept.parts] == [torch.float32, torch.float64] * 3
    for number, rows in enumerate(kept.parts):
        assert torch.equal(rows.x.float(), batch(number).x)


def test_stored_rows_come_without_the_rest_of_their_block(monkeypatch):
    monkeypatch.setattr(kept_rows, "STORED", 60)  # ten rows to a part
    kept = KeptRows()
    for number in range(6):
        kept.add(batch(number))
    tensors, parts = kept.tensors()
    assert parts == 6
    for name, tensor in tensors.items():
        assert tensor.untyped_storage().nbytes() == tensor.nbytes, name
    assert KeptRows().tensors() == ({}, 0)


@pytest.mark.parametrize("sizes", [(), (1,), (100, 3, 250), (64,) * 9])
def test_sums_have_the_same_bits_in_whatever_batches_rows_came(monkeypatch, sizes):
    monkeypatch.setattr(grouped_sums, "HOST_CHUNK", 600)
    rows, groups = batch(0, n=700), torch.arange(GROUPS)
    whole = with_rows(None, [rows], groups)
    parts = in_parts(rows, *sizes)
    assert [len(piece.x) for piece in joined(parts)] == [100] * 7
    found = with_rows(None, parts, groups)
    for name in ("count", "first", "second", "shift"):
        assert torch.equal(getattr(found, name), getattr(whole, name))


def summed(*numbers: int) -> Moments:
    moments = Moments()
    for number in numbers:
        rows = batch(number, n=80)
        moments.update(rows.x, rows.y)
    moments._fold()
    return moments


@pytest.mark.parametrize(
    "hold",
    [
        lambda moments: moments.copy(),
        lambda moments: Moments.from_state(*moments.state(), "a test"),
        lambda moments: moments.summed(),
        lambda moments: moments._folded(),
    ],
    ids=["copy", "state", "summed", "folded"],
)
def test_sums_that_somebody_else_holds_are_not_changed(hold):
    moments, alone, rows = summed(0, 1), summed(0, 1), batch(2, n=80)
    held = hold(moments)
    sums = held._sums if isinstance(held, Moments) else held
    before = sums.second.clone()
    for one in (moments, alone):
        one.update(rows.x, rows.y)
        one._fold()
    assert torch.equal(sums.second, before)
    assert not torch.equal(moments._sums.second, before)
    assert torch.equal(moments._sums.second, alone._sums.second)


def test_sums_that_nobody_else_holds_are_added_to_in_place():
    moments = summed(0)
    place = moments._sums.second.data_ptr()
    moments.update(batch(1, n=80).x, batch(1, n=80).y)
    moments._fold()
    assert moments._sums.second.data_ptr() == place


def test_rows_and_sums_of_inference_mode_go_on_outside_of_it():
    moments = Moments()
    for inside in (True, False, True, False):
        with torch.inference_mode(inside):
            for number in range(3):
                rows = batch(number, n=80)
                moments.update(rows.x, rows.y)
            moments._fold()
    assert moments.n == 960
    assert 0 < moments.score().score < 1
