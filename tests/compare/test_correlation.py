"""Correlations against NumPy, and the tables of the paper (arXiv 2310.11439) against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sigmascope.compare.correlation import Correlations, correlations
from sigmascope.errors import InputError
from sigmascope.measure.companions import METRICS
from tests.compare.made import made

SCORES = np.array([0.9, 0.5, 0.7, 0.3, 0.6])
# Table 2, as printed: CKA, norm, sparsity, entropy, R².
TABLE_2 = {
    "vgg11": (-0.07, -0.76, -0.15, -0.95, -0.27),
    "vgg13": (0.08, -0.66, -0.23, -0.93, -0.26),
    "vgg16": (0.01, -0.63, -0.19, -0.88, -0.17),
    "vgg19": (-0.01, -0.62, -0.15, -0.86, -0.14),
    "resnet18": (0.59, -0.17, -0.67, -0.30, -0.44),
    "resnet34": (0.48, -0.18, -0.65, -0.19, -0.08),
    "resnet50": (0.56, -0.60, -0.71, -0.50, -0.78),
    "resnet101": (0.51, -0.57, -0.70, -0.51, -0.64),
    "resnet152": (0.52, -0.51, -0.68, -0.42, -0.48),
    "vit_b_32": (0.47, -0.31, -0.29, 0.39, 0.51),
    "vit_l_32": (-0.14, -0.61, -0.47, -0.02, -0.06),
    "vit_b_16": (-0.27, -0.71, 0.04, 0.39, -0.22),
    "vit_l_16": (-0.39, -0.89, -0.66, -0.23, -0.24),
    "vit_h_14": (-0.77, -0.83, 0.92, 0.31, -0.49),
    "swin_t": (-0.12, -0.39, -0.02, -0.42, -0.06),
    "swin_s": (-0.003, -0.61, -0.31, 0.18, -0.03),
    "swin_b": (-0.32, -0.59, -0.43, 0.42, -0.32),
    "efficientnet_b1": (0.35, -0.41, -0.39, 0.01, 0.03),
    "efficientnet_b2": (0.49, -0.02, -0.44, -0.06, 0.34),
    "efficientnet_b3": (0.32, -0.12, -0.18, -0.13, 0.18),
    "efficientnet_b4": (0.30, -0.51, -0.29, -0.44, 0.11),
    "convnext_tiny": (0.77, -0.01, -0.04, 0.09, 0.80),
    "convnext_small": (0.57, 0.22, 0.25, 0.13, 0.72),
    "convnext_base": (0.67, 0.41, 0.35, -0.03, 0.82),
    "convnext_large": (0.75, 0.23, 0.35, -0.10, 0.84),
}
# Table 1, as printed: mean and standard deviation of the same columns.
TABLE_1 = {
    "vgg": ((0.0, -0.67, -0.18, -0.90, -0.21), (0.05, 0.06, 0.03, 0.04, 0.06)),
    "resnet": ((0.53, -0.41, -0.68, -0.38, -0.48), (0.04, 0.19, 0.02, 0.12, 0.24)),
    "vit": ((-0.22, -0.67, -0.09, 0.17, -0.10), (0.40, 0.20, 0.56, 0.25, 0.34)),
    "swin": ((-0.15, -0.53, -0.26, 0.06, -0.13), (0.13, 0.10, 0.17, 0.35, 0.13)),
    "efficientnet": ((0.42, -0.16, -0.17, -0.16, 0.21), (0.10, 0.22, 0.23, 0.14, 0.12)),
    "convnext": ((0.69, 0.21, 0.23, 0.02, 0.79), (0.08, 0.15, 0.16, 0.09, 0.05)),
}


def correlated(scores: np.ndarray, wanted: float) -> np.ndarray:
    """Return numbers whose correlation with the scores is exactly the wanted one."""
    along = scores - scores.mean()
    across = np.arange(len(scores)) ** 2.0
    across = across - across.mean()
    across -= along * (along @ across) / (along @ along)
    return wanted * along / np.linalg.norm(along) + math.sqrt(
        1 - wanted**2
    ) * across / np.linalg.norm(across)


@pytest.fixture(scope="module")
def tables() -> Correlations:
    signatures = [
        made(
            name,
            SCORES,
            {
                metric: 7 + 3 * correlated(SCORES, wanted)
                for metric, wanted in zip(METRICS, row, strict=True)
            },
        )
        for name, row in TABLE_2.items()
    ]
    families = {
        name: next(family for family in TABLE_1 if name.startswith(family)) for name in TABLE_2
    }
    return correlations(signatures, families=families)


def test_every_row_of_table_2_comes_back(tables: Correlations) -> None:
    assert tables.metrics == ("cka", "norm", "sparsity", "entropy", "r2")
    assert tables.names == tuple(TABLE_2)
    assert tables.values == pytest.approx(np.array([*TABLE_2.values()]), abs=1e-12)
    assert not tables.reasons


@pytest.mark.parametrize("family", [family for family in TABLE_1 if family != "efficientnet"])
def test_table_1_follows_from_table_2(tables: Correlations, family: str) -> None:
    """To its two decimals; those of Table 2 are rounded as well."""
    found = tables.by_family()
    row = found.families.index(family)
    mean, std = TABLE_1[family]
    assert found.mean[row] == pytest.approx(np.array(mean), abs=0.01)
    assert found.std[row] == pytest.approx(np.array(std), abs=0.01)


def test_the_row_of_the_efficientnets_does_not_follow(tables: Correlations) -> None:
    """Table 1 must have had others than the four that Table 2 lists."""
    found = tables.by_family()
    row = found.families.index("efficientnet")
    assert found.mean[row] == pytest.approx(np.array([0.365, -0.265, -0.325, -0.155, 0.165]))
    assert np.abs(found.mean[row] - TABLE_1["efficientnet"][0]).max() > 0.15


def test_a_sample_standard_deviation_would_not_follow(tables: Correlations) -> None:
    found = tables.by_family()
    worst = 0.0
    for row, family in enumerate(found.families[:4]):
        counts = found.counts[row]
        sample = found.std[row] * np.sqrt(counts / (counts - 1))
        worst = max(worst, float(np.abs(sample - TABLE_1[family][1]).max()))
    assert worst > 0.05


def test_it_is_pearson() -> None:
    generator = np.random.default_rng(0)
    scores, cka = generator.random((2, 30))
    found = correlations([made("a", scores, {"cka": cka})])
    assert found.values[0, 0] == pytest.approx(np.corrcoef(scores, cka)[0, 1])
    assert found.sites[0, 0] == 30


def test_scale_and_shift_do_not_matter_but_signs_do() -> None:
    cka = correlated(SCORES, 0.4)
    columns = {"a": cka, "b": 1e150 * cka, "c": -cka + 5}
    found = correlations([made(name, SCORES, {"norm": column}) for name, column in columns.items()])
    assert found.values[:, 0] == pytest.approx(np.array([0.4, 0.4, -0.4]))


def test_a_line_has_correlation_one_and_not_more() -> None:
    found = correlations([made("a", SCORES, {"cka": 0.1 * SCORES, "r2": 1 - SCORES / 3})])
    assert found.values.tolist() == [[pytest.approx(1), pytest.approx(-1)]]
    assert np.abs(found.values).max() <= 1


def test_only_sites_with_both_count() -> None:
    scores, cka = [0.9, math.nan, 0.7, 0.3, 0.6], [0.1, 0.2, math.nan, 0.4, 0.3]
    found = correlations([made("a", [*scores, 0.2], {"cka": [*cka, 0.9]})])
    assert found.sites.tolist() == [[4]]
    assert found.values[0, 0] == pytest.approx(
        np.corrcoef([0.9, 0.3, 0.6, 0.2], [0.1, 0.4, 0.3, 0.9])[0, 1]
    )


@pytest.mark.parametrize(
    ("scores", "cka", "reason"),
    [
        ([0.5, 0.6], [0.1, 0.2], "2 sites with both; at least 3 are needed"),
        (
            [0.5, 0.6, 0.7],
            [0.1, math.nan, math.nan],
            "1 site with both; at least 3 are needed (made without it)",
        ),
        ([0.3, 0.1 + 0.2, 0.3], [0.1, 0.2, 0.4], "the score is the same at all 3 sites"),
        ([0.5, 0.6, 0.7], [0.0, 0.0, 0.0], "the metric is the same at all 3 sites"),
    ],
)
def test_without_a_correlation_there_is_a_reason(
    scores: list[float], cka: list[float], reason: str
) -> None:
    good = made("good", SCORES, {"cka": correlated(SCORES, 0.5)})
    found = correlations([made("bad", scores, {"cka": cka}), good])
    assert math.isnan(found.values[0, 0])
    assert found.reasons == {"bad": {"cka": reason}}
    assert f"bad has no correlation with cka: {reason}." in repr(found)
    family = found.by_family()
    assert (family.families, family.counts.tolist()) == (("all",), [[1]])
    assert (family.mean[0, 0], family.std[0, 0]) == pytest.approx((0.5, 0))


def test_a_family_without_any_correlation_has_none() -> None:
    signatures = [
        made("bad", [0.5], {"cka": [0.1]}),
        made("good", SCORES, {"cka": correlated(SCORES, 0.5)}),
    ]
    found = correlations(signatures, families={"bad": "first", "good": "second"}).by_family()
    assert np.isnan([found.mean[0, 0], found.std[0, 0]]).all()
    assert found.counts.tolist() == [[0], [1]]
    assert repr(found).splitlines()[3].split() == ["first", "0", "–"]


def test_a_metric_that_one_network_lacks() -> None:
    found = correlations(
        [made("a", SCORES, {"cka": correlated(SCORES, 0.5)}), made("b", SCORES, {"r2": SCORES})]
    )
    assert found.metrics == ("cka", "r2")
    assert found.reasons["b"] == {"cka": "0 sites with both; at least 3 are needed"}


def test_changes_are_taken_and_not_what_they_are_changes_of() -> None:
    columns = dict.fromkeys(
        ("sparsity_before", "sparsity_after", "sparsity", "norm", "norm_per_sample"), SCORES
    )
    assert correlations([made("a", SCORES, columns)]).metrics == ("norm", "sparsity")


def test_networks_without_a_family_are_in_no_mean() -> None:
    signatures = [
        made(name, SCORES, {"cka": correlated(SCORES, r)})
        for name, r in (("a", 0.1), ("b", 0.3), ("c", 0.9))
    ]
    found = correlations(signatures, families={"a": "few", "b": "few", "z": "other"})
    assert found.families == ("few", "few", "")
    family = found.by_family()
    assert (family.mean.tolist(), family.std.tolist()) == (
        [[pytest.approx(0.2)]],
        [[pytest.approx(0.1)]],
    )


def test_both_tables_are_printed(tables: Correlations) -> None:
    lines = repr(tables).splitlines()
    assert lines[2].split() == ["network", "family", "cka", "norm", "sparsity", "entropy", "r2"]
    assert lines[3].split() == [
        "vgg11",
        "vgg",
        "-0.0700",
        "-0.7600",
        "-0.1500",
        "-0.9500",
        "-0.2700",
    ]
    vgg = next(line for line in lines if line.startswith("vgg "))
    assert vgg.split()[:6] == ["vgg", "4", "0.00", "(0.05)", "-0.67", "(0.06)"]


def test_frames(tables: Correlations) -> None:
    frame = tables.to_frame()
    assert frame.columns.tolist() == ["network", "family", *METRICS]
    assert frame["cka"].tolist() == tables.values[:, 0].tolist()
    means = tables.by_family().to_frame()
    assert means.columns.tolist()[:4] == ["family", "cka", "cka_std", "cka_networks"]
    assert means["cka_networks"].tolist() == [4, 5, 5, 3, 4, 4]


def test_without_metrics_it_says_how_to_get_them() -> None:
    with pytest.raises(
        InputError, match=r"No signature has companion metrics\. Measure again with metrics='all'"
    ):
        correlations([made("a", SCORES)])
