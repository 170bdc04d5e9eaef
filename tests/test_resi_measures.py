"""The rivals of our measures of similarity, against closed forms, brute force and scikit-learn."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import spearmanr

from sigmascope_papers.symmetry.similarity_tests import COUNTERPARTS

ZOO = Path(__file__).resolve().parents[1] / "zoo"
NAMES = (
    "G-Procrustes",
    "G-CKA",
    "orthogonal Procrustes",
    "linear CKA",
    "RBF CKA",
    "RSA",
    "mean CCA",
    "SVCCA",
    "PWCCA",
)


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ZOO))
    yield importlib.import_module("resi_measures")
    sys.modules.pop("resi_measures", None)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def orthonormal(n: int, columns: int, seed: int = 0) -> np.ndarray:
    """Return centered columns, orthogonal, of norm 1."""
    x = drawn(n, columns, seed=seed)
    return np.linalg.qr(x - x.mean(axis=0))[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_measure_is_one_for_equals_symmetric_and_less_for_others(
    measures: ModuleType, name: str
) -> None:
    assert tuple(measures.MEASURES) == NAMES
    measure, x, y = measures.MEASURES[name], np.abs(drawn(60, 5)), np.abs(drawn(60, 7, seed=1))
    assert type(measure(x, x)) is float
    assert measure(x, x) == pytest.approx(1, abs=1e-9)
    assert measure(x, y) == pytest.approx(measure(y, x), abs=1e-9)
    assert measure(x, y) < 0.9
    shuffled = x[:, ::-1] * 3.0  # every measure allows permutations and one scale
    assert measure(x, shuffled) == pytest.approx(1, abs=1e-6)  # some have a square root
    assert measure(x.astype(np.float32), y.astype(np.float32)) == pytest.approx(
        measure(x, y), abs=1e-4
    )


def test_rsa_is_the_correlation_of_distances(measures: ModuleType) -> None:
    x, y = drawn(9, 4), drawn(9, 6, seed=1)
    distances = [
        [1 - np.corrcoef(side[i], side[j])[0, 1] for i in range(9) for j in range(i)]
        for side in (x, y)
    ]
    expected = spearmanr(*distances).statistic
    assert measures.rsa(x, y) == pytest.approx(expected, abs=1e-9)
    # each input has its own scale and offset, which the correlation does not see
    moved = x * np.linspace(0.5, 3, 9)[:, None] + np.linspace(-1, 1, 9)[:, None]
    assert measures.rsa(x, moved) == pytest.approx(1, abs=1e-9)
    assert math.isnan(measures.rsa(x, np.zeros((9, 2))))


def test_rbf_cka_is_that_of_centered_kernels(measures: ModuleType) -> None:
    x, y = drawn(7, 3), drawn(7, 2, seed=1)
    center = np.eye(7) - 1 / 7
    kernels = []
    for side in (x, y):
        squared = ((side[:, None] - side[None]) ** 2).sum(-1)
        width = np.median(squared[np.triu_indices(7, 1)])
        kernels.append(center @ np.exp(-squared / (2 * width)) @ center)
    hsic = [np.trace(kernels[a] @ kernels[b]) for a, b in ((0, 1), (0, 0), (1, 1))]
    assert measures.rbf_cka(x, y) == pytest.approx(hsic[0] / math.sqrt(hsic[1] * hsic[2]))


def test_cca_of_known_correlations(measures: ModuleType) -> None:
    """Columns of known correlations, then mixed by any matrix that has an inverse."""
    known, columns = np.array([0.9, 0.5, 0.1]), orthonormal(80, 6)
    x = columns[:, :3]
    y = x * known + columns[:, 3:] * np.sqrt(1 - known**2)
    for seed in range(3):
        mixed = x @ drawn(3, 3, seed=seed) + 5, y @ drawn(3, 3, seed=10 + seed) - 2
        assert measures.cca(*mixed) == pytest.approx(known.mean(), abs=1e-9)
    # one column fewer: two correlations remain; a repeated column adds none
    assert measures.cca(x, y[:, :2]) == pytest.approx(known[:2].mean(), abs=1e-9)
    assert measures.cca(np.hstack([x, x[:, :1]]), y) == pytest.approx(known.mean(), abs=1e-9)


def test_cca_is_that_of_scikit_learn(measures: ModuleType) -> None:
    decomposition = pytest.importorskip("sklearn.cross_decomposition")
    x, noise = drawn(200, 3), drawn(200, 3, seed=1)
    y = x @ drawn(3, 3, seed=2) + noise
    found = decomposition.CCA(n_components=3, max_iter=20_000, tol=1e-12).fit_transform(x, y)
    expected = [np.corrcoef(found[0][:, k], found[1][:, k])[0, 1] for k in range(3)]
    assert measures.cca(x, y) == pytest.approx(np.mean(expected), abs=1e-4)


def test_svcca_leaves_out_what_hardly_varies(measures: ModuleType) -> None:
    columns = orthonormal(80, 4)
    x, y = columns[:, [0, 1]] * [1.0, 0.05], columns[:, [0, 2]] * [1.0, 0.05]
    assert measures.cca(x, y) == pytest.approx(0.5, abs=1e-9)  # correlations 1 and 0
    assert measures.svcca(x, y) == pytest.approx(1, abs=1e-9)  # 0.25 % of the variance is left out
    x, y = columns[:, [0, 1]] * [1.0, 0.2], columns[:, [0, 2]] * [1.0, 0.2]  # 4 % is kept
    assert measures.svcca(x, y) == pytest.approx(0.5, abs=1e-9)


def test_pwcca_weighs_by_what_the_channels_are_made_of(measures: ModuleType) -> None:
    columns = orthonormal(80, 4)
    known = np.array([0.8, 0.2])
    y = columns[:, :2] * known + columns[:, 2:] * np.sqrt(1 - known**2)
    x = columns[:, :2] * [3.0, 1.0]  # weights 3/4 and 1/4; those of y are 1/2 and 1/2
    expected = (0.75 * 0.8 + 0.25 * 0.2 + 0.5 * 0.8 + 0.5 * 0.2) / 2
    assert measures.pwcca(x, y) == pytest.approx(expected, abs=1e-9)


def test_ours_are_those_of_the_library(measures: ModuleType) -> None:
    from sigmascope import symmetry

    assert measures.MEASURES["G-Procrustes"] is symmetry.relu_procrustes
    assert measures.MEASURES["G-CKA"] is symmetry.relu_cka
    assert set(COUNTERPARTS.values()) | set(COUNTERPARTS) < set(measures.MEASURES)
