"""What the figures of signatures hold."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from scipy.stats import gaussian_kde
from torch import nn

import sigmascope as sg
from sigmascope.figures.signature import draw_density, draw_signature
from sigmascope.figures.style import COLOURS, new_figure, styled


@pytest.fixture(scope="module")
def signature() -> sg.Signature:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU())
    return sg.signature(network, [torch.randn(40, 6) for _ in range(3)], name="toy")


def test_every_score_is_a_point_of_its_group(signature: sg.Signature) -> None:
    axes = new_figure(4, 3).subplots()
    draw_signature(axes, signature)
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["relu"].get_xdata().tolist() == [0, 2]
    assert lines["relu"].get_ydata().tolist() == signature.scores[[0, 2]].tolist()
    assert lines["tanh"].get_xdata().tolist() == [1]
    assert axes.get_title() == "toy"


def test_the_spread_over_batches_is_drawn(signature: sg.Signature) -> None:
    axes = new_figure(4, 3).subplots()
    draw_signature(axes, signature, ["all"] * 3)
    (bars,) = axes.collections
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(np.array([(site.score - site.std, site.score + site.std) for site in signature.sites]))


def test_the_order_gives_the_colours(signature: sg.Signature) -> None:
    axes = new_figure(4, 3).subplots()
    draw_signature(axes, signature, order=["tanh", "relu"])
    colours = {line.get_label(): to_hex(line.get_color()).upper() for line in axes.get_lines()}
    assert (colours["tanh"], colours["relu"]) == COLOURS[:2]


def test_densities_are_those_of_scipy() -> None:
    axes = new_figure(4, 3).subplots()
    values = np.array([0.2, 0.5, 0.55, 0.9])
    draw_density(axes, {"some": values, "one": np.array([0.3])})
    (curve,) = [line for line in axes.get_lines() if line.get_label() == "some"]
    grid = curve.get_xdata()
    assert len(grid) == 200
    assert curve.get_ydata() == pytest.approx(gaussian_kde(values)(grid))
    bandwidth = values.std(ddof=1) * len(values) ** -0.2
    assert (grid[0], grid[-1]) == pytest.approx((0.2 - 3 * bandwidth, 0.9 + 3 * bandwidth))
    assert "one" not in [line.get_label() for line in axes.get_lines()]


def test_the_style_is_put_back() -> None:
    before = dict(mpl.rcParams)
    with styled():
        assert mpl.rcParams["axes.spines.top"] is False
    assert dict(mpl.rcParams) == before
