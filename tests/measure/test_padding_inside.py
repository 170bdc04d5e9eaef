"""Sequences that the network pads itself: the coverage says that padding is scored."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import sigmascope as sg

BATCH, LENGTH, WIDTH = 12, 10, 6


class Padding(nn.Module):
    """Packs its input by lengths, and pads it again."""

    def __init__(self, *, batch_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.batch_first = batch_first
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, lengths: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        packed = pack_padded_sequence(x, lengths, self.batch_first, enforce_sorted=False)
        padded, _ = pad_packed_sequence(packed, self.batch_first, total_length=LENGTH)
        return F.relu(self.linear(padded))


def batch(lengths: Tensor, *, masked: bool = False) -> dict[str, Tensor]:
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    return {"x": x, "lengths": lengths, **({"attention_mask": mask} if masked else {})}


UNEQUAL, FULL = torch.arange(BATCH) % 6 + 5, torch.full((BATCH,), LENGTH)


def says(model: Any, batches: Any, samples: Any = "tokens") -> bool:
    notes = sg.signature(model, batches, samples=samples).coverage.notes
    return any("padding" in note and "attention_mask" in note for note in notes)


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_coverage_says_that_padding_is_scored(batch_first: bool) -> None:
    model = Padding(batch_first=batch_first)
    assert says(model, [batch(UNEQUAL)])
    assert says(model, [batch(UNEQUAL), batch(FULL)])
    assert not says(model, [batch(FULL)])
    assert not says(model, [batch(UNEQUAL)], "batch")


def test_with_the_mask_that_it_advises_the_padding_is_left_out() -> None:
    given = batch(UNEQUAL, masked=True)
    assert not says(Padding(), [given])
    (site,) = sg.signature(Padding(), [given], samples="tokens").sites
    assert site.n == int(UNEQUAL.sum())
