from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.errors import InputError
from sigmascope.measure.accumulating import SAMPLED
from sigmascope.measure.histograms import CELLS, histogram_of
from sigmascope.measure.site import PairHistogram


def test_histogram_counts_pairs() -> None:
    x = torch.randn(512, 8, generator=torch.Generator().manual_seed(0))
    found = histogram_of(x, x.relu())
    assert found is not None
    assert sum(map(sum, found.counts)) == x.numel()
    low, high = torch.quantile(x.double(), torch.tensor([0.01, 0.99]).double()).tolist()
    assert found.x_range == pytest.approx((low, high))
    assert found.y_range[0] == 0
    inputs = [sum(row) for row in found.counts]
    clipped = x.double().clamp(low, high).flatten().numpy()
    expected, edges = np.histogram(clipped, bins=CELLS, range=(low, high))
    # values at the edge of a cell may count in the next one
    assert max(abs(a - b) for a, b in zip(inputs, expected, strict=True)) <= 2
    # outputs of negative inputs are zero, and positive ones lie on a line
    below = next(place for place in range(CELLS) if edges[place + 1] > 0)
    assert all(sum(row[1:]) == 0 for row in found.counts[:below])
    assert all(sum(row[:1]) == 0 for row in found.counts[below + 2 :])


def test_histogram_of_what_has_none() -> None:
    assert histogram_of(torch.tensor([[math.inf]]), torch.tensor([[1.0]])) is None
    assert histogram_of(torch.zeros(0, 3), torch.zeros(0, 3)) is None
    flat = histogram_of(torch.ones(4, 2), torch.zeros(4, 2))
    assert flat is not None
    assert flat.counts[0][0] == 8
    for rows in (("1 2", "3"), ("1 x", "2 3"), ("-1",)):
        with pytest.raises(InputError, match="a square table of whole numbers"):
            PairHistogram((0.0, 1.0), (0.0, 1.0), rows)


def test_a_signature_has_the_histogram_of_its_first_samples(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network, data = nn.Sequential(nn.Linear(4, 6), nn.ReLU()), torch.randn(300, 4)
    batches = [data[:100], data[100:200], data[200:]]
    found = sg.signature(network, batches, progress=False)
    with torch.no_grad():
        x = network[0](data)[:SAMPLED]
    assert found.sites[0].histogram == histogram_of(x, x.relu())
    assert sg.load(found.save(tmp_path / "found.json")) == found
    assert "histogram" not in found.to_frame().columns
    published = sg.signature(network, batches, progress=False, estimator="published")
    assert published.sites[0].histogram is None


def test_many_values_are_thinned_but_keep_all_channels() -> None:
    x = torch.arange(512.0).expand(400, 512)  # each channel has a value of its own
    found = histogram_of(x, x)
    assert found is not None
    assert 40_000 < sum(map(sum, found.counts)) <= 65_536
    by_input = [sum(row) for row in found.counts]
    assert min(by_input) > 0.8 * max(by_input)
