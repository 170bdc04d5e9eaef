"""What a type checker knows of results: this file is checked by mypy too."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import torch
from torch import Tensor

import sigmascope as sg

X = np.random.default_rng(0).standard_normal((16, 3))


def test_scores_are_of_the_kind_of_the_samples() -> None:
    x, rows = torch.from_numpy(X), np.asarray(X)
    assert isinstance(assert_type(sg.affinity(x, x.relu()).score, Tensor), Tensor)
    assert isinstance(assert_type(sg.affinity(rows, rows, eps=0.0).score, float), float)
    assert isinstance(assert_type(sg.affinities([(x, x)])[0].w2, Tensor), Tensor)
    assert isinstance(assert_type(sg.affinities([(rows, rows)])[0].bound, float), float)


def test_an_array_or_a_tensor_gives_either() -> None:
    either: np.ndarray[Any, Any] | Tensor = torch.from_numpy(X)
    assert isinstance(float(sg.affinity(either, either)), float)


def test_packages_have_types() -> None:
    assert assert_type(sg.stitching.Settings(rate=0.5).rate, float) == 0.5
    assert callable(sg.dissection.rotation_penalty)
    flat = assert_type(sg.affinity(X, X).to_dict("a/"), dict[str, float])
    assert list(flat) == ["a/score", "a/w2", "a/bound", "a/n", "a/dim"]
