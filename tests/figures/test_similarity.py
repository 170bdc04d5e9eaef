"""Tests for the map of similarities: what is in the axes is what is in the result."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.errors import InputTypeError
from sigmascope.figures.similarity_map import draw_similarity
from sigmascope.figures.style import PAGE, new_figure
from sigmascope.symmetry.layer_similarity import LayerSimilarity, Missing


def made(values: list[list[float]], measure: str = "cka") -> LayerSimilarity:
    rows, columns = len(values), len(values[0])
    return LayerSimilarity(
        measure=measure,
        group="relu",
        settings={"dtype": "float32"},
        networks=("one", "other"),
        rows=tuple(f"relu{i}" for i in range(rows)),
        columns=tuple(f"act{j}" for j in range(columns)),
        similarities=tuple(map(tuple, values)),
        channels=((4,) * rows, (4,) * columns),
        live=((3,) * rows, (4,) * columns),
        pairs="all",
        samples=10,
        missing=(Missing("relu0", "act1", "made without it"),),
    )


@pytest.mark.parametrize(
    ("measure", "title"), [("cka", "CKA similarity"), ("procrustes", "Procrustes similarity")]
)
def test_shows_similarities_and_says_so(measure: str, title: str) -> None:
    drawn = draw_similarity(made([[0.9, math.nan, -0.2], [0.3, 0.5, 1.0]], measure))
    [axes], [image] = drawn.axes, drawn.axes[0].images
    values = image.get_array()
    assert values is not None
    assert np.ma.getmaskarray(values).tolist() == [[False, True, False], [False, False, False]]
    np.testing.assert_array_equal(np.ma.compressed(values), [0.9, -0.2, 0.3, 0.5, 1.0])
    assert image.get_clim() == (-0.2, 1)
    assert axes.get_title() == f"{title}, relu group"
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("one", "other")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["act0", "act1", "act2"]
    assert [text.get_text() for text in axes.texts] == ["0.90", "-0.20", "0.30", "0.50", "1.00"]
    assert [one.get_ylabel() for one in drawn.figure.axes if one is not axes] == ["similarity"]


def test_the_table_has_both_numbers_and_the_reasons() -> None:
    table = draw_similarity(made([[0.75, math.nan]])).table
    assert table[0] == {
        "network": "one",
        "layer": "relu0",
        "other network": "other",
        "other layer": "act0",
        "channels": 4,
        "live channels": 3,
        "other channels": 4,
        "other live channels": 4,
        "similarity": 0.75,
        "distance": 0.25,
        "reason": "",
    }
    assert math.isnan(table[1]["similarity"])
    assert table[1]["reason"] == "made without it"


def test_large_matrices_have_no_numbers_and_empty_ones_are_drawn() -> None:
    [axes] = draw_similarity(made(np.full((13, 2), 0.5).tolist())).axes
    assert not axes.texts
    assert len(axes.get_yticks()) == 13
    many = draw_similarity(made(np.full((160, 160), 0.5).tolist()))
    assert len(many.axes[0].get_yticks()) == 40
    assert many.figure.get_figwidth() <= PAGE
    [image] = draw_similarity(made([[math.nan]])).axes[0].images
    assert image.get_clim() == (0, 1)


def test_draws_in_a_panel_of_another_figure_and_refuses_other_things() -> None:
    figure = new_figure(6, 3)
    panels = figure.subplots(1, 2)
    drawn = draw_similarity(made([[0.5]]), axes=panels[1])
    assert drawn.figure is figure
    assert drawn.axes == (panels[1],)
    assert not panels[0].images
    with pytest.raises(
        InputTypeError,
        match=r"result must be of type LayerSimilarity, got list.*sigmascope\.symmetry\.compare",
    ):
        draw_similarity([[0.5]])  # type: ignore[arg-type]
