"""What the figures of signatures hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from torch import nn

import sigmascope as sg
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.figures import draw_signature, draw_signatures, new_figure
from sigmascope.figures.style import COLORS
from tests.compare.made import made, many, populated


@pytest.fixture(scope="module")
def signature() -> sg.Signature:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU()
    )
    batches = [torch.randn(40, 6) for _ in range(3)]
    return sg.signature(network, batches, name="toy", estimator="published")


def labeled(axes: Axes) -> dict[str, np.ndarray]:
    """The points of each label, (k, 2)."""
    handles, labels = axes.get_legend_handles_labels()
    return {
        label: np.asarray(handle.get_xydata())
        for handle, label in zip(handles, labels, strict=True)
    }


def test_every_score_is_a_point_of_its_group(signature: sg.Signature) -> None:
    drawn = draw_signature(signature)
    points = labeled(drawn.axes[0])
    assert points["relu"].tolist() == [[1, signature.scores[0]], [3, signature.scores[2]]]
    assert points["tanh"].tolist() == [[2, signature.scores[1]]]
    assert drawn.axes[0].get_title() == "toy"
    assert [row["score"] for row in drawn.table] == signature.scores.tolist()
    assert [row["std"] for row in drawn.table] == [site.std for site in signature.sites]
    assert [(row["call"], row["site"], row["group"]) for row in drawn.table] == [
        (1, "1", "relu"),
        (2, "3", "tanh"),
        (3, "5", "relu"),
    ]


def test_the_spread_over_batches_is_drawn(signature: sg.Signature) -> None:
    drawn = draw_signature(signature, groups=["all"] * 3)
    (bars,) = drawn.axes[0].collections
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(
        np.array([(site.score - site.std, site.score + site.std) for site in signature.sites])
    )
    assert drawn.axes[0].get_ylabel() == "affinity score ± std"


def test_population_scores_have_their_intervals() -> None:
    network = populated(made("residual", [0.5, 0.9, 0.6, math.nan]))
    drawn = draw_signature(network, groups=["all"] * 4, by="population")
    (bars,) = drawn.axes[0].collections
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(np.array([(one.low, one.high) for one in network.sites[:3]]))
    assert labeled(drawn.axes[0])["all"][:3, 1] == pytest.approx([0.48, 0.88, 0.58])
    assert drawn.axes[0].get_ylabel() == "population score ± 95 %"
    assert [row["population"] for row in drawn.table[:3]] == pytest.approx([0.48, 0.88, 0.58])
    assert drawn.table[0]["low"] == network.sites[0].low
    overlaid = draw_signatures([network], layout="overlaid", by="population")
    heights = overlaid.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(network.sites[1].high)


def test_published_scores_have_the_population_beside_them() -> None:
    network = populated(made("a", [0.5, 0.9]))
    points = labeled(draw_signature(network, groups=["all"] * 2).axes[0])
    assert points["all"][:, 1].tolist() == [0.5, 0.9]
    assert points["population score ± 95 %"] == pytest.approx(np.array([[1, 0.48], [2, 0.88]]))
    with pytest.raises(OptionError, match="was measured with estimator='published'"):
        draw_signature(made("a", [0.5]), by="population")


def test_population_scores_are_not_hidden() -> None:
    network = populated(made("a", [0.5, 0.9], paths=["x", "x"]), bias=0.0, error=0.1)
    drawn = draw_signature(network, groups=["all"] * 2)
    drawn.figure.draw_without_rendering()
    (axes,) = drawn.axes
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    published, population = handles["all"], handles["population score ± 95 %"]
    places = [one.get_transform().transform(one.get_xydata()) for one in (published, population)]
    shift = (places[1] - places[0]) * 72 / drawn.figure.dpi
    assert (shift[:, 0] > published.get_markersize() / 2).all()
    assert shift[:, 1] == pytest.approx(0, abs=1e-9)
    assert population.get_zorder() > published.get_zorder()
    assert axes.get_ylim()[0] < network.sites[0].low  # the intervals lie within the limits


def test_a_single_batch_has_no_spread() -> None:
    axes = draw_signature(made("one", [0.5, 0.7], spread=math.nan)).axes[0]
    assert sum(len(bars.get_segments()) for bars in axes.collections) == 0
    assert axes.get_ylabel() == "affinity score"


def test_the_places_of_a_block_have_looks_of_their_own() -> None:
    drawn = draw_signature(made("residual", [0.5, 0.9, 0.6, 0.8]))
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    assert labels == ["relu", "relu#1"]
    assert [handle.get_marker() for handle in handles] == ["o", "s"]
    assert [row["group"] for row in drawn.table] == ["relu", "relu#1"] * 2
    assert [text.get_text() for text in drawn.figure.legends[0].get_texts()] == labels


def test_the_order_gives_the_colors(signature: sg.Signature) -> None:
    handles, labels = (
        draw_signature(signature, order=["tanh", "relu"]).axes[0].get_legend_handles_labels()
    )
    assert labels == ["tanh", "relu"]
    assert tuple(to_hex(handle.get_color()).upper() for handle in handles) == COLORS[:2]


def test_a_call_without_a_score_is_a_gap_and_a_cross() -> None:
    drawn = draw_signature(made("gap", [0.5, math.nan, 0.7]))
    points = labeled(drawn.axes[0])
    assert points["no score"][:, 0].tolist() == [2]
    connecting = drawn.axes[0].get_lines()[1].get_ydata()
    assert np.isnan(connecting).tolist() == [False, True, False]
    assert drawn.table[1]["reason"] == "the output does not vary"


def test_a_network_without_any_score_is_all_crosses() -> None:
    points = labeled(draw_signature(made("dead", [math.nan] * 3)).axes[0])
    assert list(points) == ["no score"]
    assert len(points["no score"]) == 3


def test_250_sites_are_all_there_and_apart() -> None:
    (one,) = many(1, shortest=250, longest=250)
    drawn = draw_signature(one)
    axes = drawn.axes[0]
    assert sum(len(points) for points in labeled(axes).values()) == 250
    drawn.figure.draw_without_rendering()
    step = np.diff(axes.transData.transform([(1, 0), (2, 0)])[:, 0])[0] * 72 / drawn.figure.dpi
    assert axes.get_legend_handles_labels()[0][0].get_markersize() <= 1.2 * step
    assert axes.get_xlim()[0] > 0
    assert axes.get_xlim()[1] == pytest.approx(250.7)


def test_axes_of_ones_own_have_no_legend_and_share_their_limits() -> None:
    figure = new_figure(6, 4)
    upper, lower = figure.subplots(2, sharex=True, sharey=True)
    draw_signature(made("long", np.linspace(0.4, 0.9, 30)), upper)
    draw_signature(made("short", [0.1, 0.2]), lower)
    assert not figure.legends
    assert upper.get_xlim() == pytest.approx((0.3, 30.7))
    assert upper.get_ylim()[0] < 0.1
    assert upper.get_ylim()[1] > 1


def test_as_many_groups_as_sites(signature: sg.Signature) -> None:
    with pytest.raises(InputError, match="There are 2 groups and 3 sites in toy"):
        draw_signature(signature, groups=["a", "b"])


@pytest.mark.parametrize("count", [1, 3, 10, 12, 60])
def test_stacked_every_network_has_a_panel(count: int) -> None:
    networks = many(count)
    drawn = draw_signatures(networks)
    assert len(drawn.axes) == count
    assert [axes.get_title() for axes in drawn.axes] == [one.name for one in networks]
    for axes, one in zip(drawn.axes, networks, strict=True):
        points = np.vstack(list(labeled(axes).values()))
        assert points[points[:, 0].argsort(), 1].tolist() == one.scores.tolist()
        assert axes.get_ylim() == drawn.axes[0].get_ylim()
        assert axes.get_ylim()[0] < min(one.scores.min() for one in networks)
    assert len(drawn.table) == sum(map(len, networks))
    assert drawn.figure.get_figheight() < 11


def test_stacked_a_place_has_one_look_in_all_panels() -> None:
    one, other = made("a", [0.5, 0.6, 0.7]), made("b", [0.5, 0.6], paths=["other", "layer1.relu"])
    first, second = draw_signatures([one, other]).axes
    looks = [
        dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        for axes in (first, second)
    ]
    assert looks[0]["relu"].get_color() == looks[1]["relu"].get_color()
    assert looks[1]["outside the blocks"].get_color() not in {
        handle.get_color() for handle in looks[0].values()
    }


def test_stacked_rare_places_become_one() -> None:
    networks = [
        made(f"n{n}", [0.5] * 6, paths=[f"b0.place{n}{k}" for k in range(6)]) for n in range(5)
    ]
    drawn = draw_signatures(
        [*networks, made("common", [0.5] * 6, paths=[f"b{k}.common" for k in range(6)])]
    )
    groups = {row["group"] for row in drawn.table}
    assert len(groups) == 16
    assert {"common", "elsewhere"} <= groups


def test_overlaid_every_network_is_a_line_with_its_band() -> None:
    networks = [made("zoo/a", [0.5, math.nan, 0.7], spread=0.1), made("zoo/b", [0.2, 0.3])]
    drawn = draw_signatures(networks, layout="overlaid")
    points = labeled(drawn.axes[0])
    assert list(points) == ["a", "b"]
    assert points["b"].tolist() == [[1, 0.2], [2, 0.3]]
    heights = drawn.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.4)
    assert [row["network"] for row in drawn.table] == ["zoo/a"] * 3 + ["zoo/b"] * 2


def test_names_that_occur_twice_are_numbered() -> None:
    drawn = draw_signatures([made("a", [0.5]), made("a", [0.6])])
    assert [row["network"] for row in drawn.table] == ["a", "a (2)"]


def test_what_is_no_list_of_signatures_is_refused(signature: sg.Signature) -> None:
    with pytest.raises(InputTypeError, match="single Signature"):
        draw_signatures(signature)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="layout='piled' is not a valid choice"):
        draw_signatures([signature], layout="piled")
