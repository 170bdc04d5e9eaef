"""samples=function: the axis of the samples where a user knows better."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from sigmascope import signature
from sigmascope.errors import OptionError

N, T, D = 6, 5, 4
torch.manual_seed(0)
BATCH = torch.randn(N, T, D)


class TimeFirst(nn.Module):
    """Shows its activation (time, samples, channels), and hides that by a detour."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(D, 8)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x).transpose(0, 1)
        return self.act(torch.tensor(hidden.detach().numpy()))


def time_first(site: str, tensor: Tensor) -> int | None:
    return 1 if site == "act" and tensor.ndim == 3 else None


def measured(network: nn.Module, samples: object, **options: object) -> float:
    found = signature(
        network, BATCH, samples=samples, estimator="published", progress=False, **options
    )
    return float(found.scores[0])


def test_the_function_names_the_axis() -> None:
    network = TimeFirst()
    named = signature(network, BATCH, sample_axis={"act": 1}, estimator="published", progress=False)
    assert measured(network, time_first) == float(named.scores[0])
    # without it the rows are counted along another axis, or there are none
    assert measured(network, "batch", channel_axis={"act": -1}) != measured(
        network, lambda site, tensor: 0, channel_axis={"act": -1}
    )


def test_none_leaves_what_was_recognized() -> None:
    network = nn.Sequential(nn.Linear(D, 8), nn.ReLU())
    assert measured(network, lambda site, tensor: None) == measured(network, "batch")


def test_it_is_told_the_name_of_the_site_and_its_input() -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def note(site: str, tensor: Tensor) -> None:
        asked.append((site, tuple(tensor.shape)))

    network = nn.Sequential(nn.Linear(D, 8), nn.ReLU())
    signature(network, [BATCH, BATCH], samples=note, estimator="published", progress=False)
    assert asked == [("1", (N, T, 8))]  # once for both batches


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda site, tensor: 7, r"returned 7, which does not fit a tensor of shape \[6, 5, 8\]"),
        (lambda site, tensor: "first", r"returned 'first', .*; return a whole number or None"),
        (lambda site, tensor: tensor.nothing, "given as samples raised AttributeError"),
    ],
)
def test_answers_that_do_not_fit_are_reasons(function: object, reason: str) -> None:
    network = nn.Sequential(nn.Linear(D, 8), nn.ReLU())
    found = signature(network, BATCH, samples=function, estimator="published", progress=False)
    assert re.search(reason, found.sites[0].reason)


def test_options_keep_its_name_and_ask_for_it_again() -> None:
    network = nn.Sequential(nn.Linear(D, 8), nn.ReLU())
    found = signature(network, BATCH, samples=time_first, progress=False)
    assert found.options.samples == "function time_first"
    with pytest.raises(OptionError, match=r"again, as samples=\.\.\."):
        signature(network, BATCH, options=found.options, progress=False)
    again = signature(network, BATCH, options=found.options, samples=time_first, progress=False)
    assert again.scores.tolist() == found.scores.tolist()
