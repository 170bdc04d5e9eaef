"""Tests for the map of similarities: what is in the axes is what is in the result."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.figures.similarity import draw_similarity
from sigmascope.figures.style import new_figure
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
        live=((4,) * rows, (4,) * columns),
        pairs="all",
        samples=10,
        missing=(Missing("relu0", "act1", "made without it"),),
    )


@pytest.mark.parametrize(("measure", "title"), [("cka", "CKA similarity"), ("procrustes", "Procrustes similarity")])
def test_shows_similarities_and_says_so(measure: str, title: str) -> None:
    axes = new_figure(4, 3).subplots()
    image = draw_similarity(axes, made([[0.9, math.nan, -0.2], [0.3, 0.5, 1.0]], measure))
    shown = image.get_array()
    assert np.ma.getmaskarray(shown).tolist() == [[False, True, False], [False, False, False]]
    np.testing.assert_array_equal(shown.compressed(), [0.9, -0.2, 0.3, 0.5, 1.0])
    assert image.get_clim() == (-0.2, 1)
    assert axes.get_title() == f"{title}, relu group"
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("one", "other")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["act0", "act1", "act2"]
    assert [text.get_text() for text in axes.texts] == ["0.90", "-0.20", "0.30", "0.50", "1.00"]


def test_large_matrices_have_no_numbers_and_empty_ones_are_drawn() -> None:
    axes = new_figure(4, 3).subplots()
    draw_similarity(axes, made(np.full((13, 2), 0.5).tolist()))
    assert not axes.texts
    image = draw_similarity(axes, made([[math.nan]]))
    assert image.get_clim() == (0, 1)
