from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sigmascope.compare.density import densities
from sigmascope.compare.distances import distances
from sigmascope.compare.statistics import statistics
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.reporting.document import document_of, without_companions
from tests.compare.made import made, populated
from tests.reporting.examples import (
    example,
    gapped,
    hostile,
    residual_paths,
    transformer_paths,
    without_scores,
)

FEW = [
    example("resnet", residual_paths(5), seed=1),
    example("vit", transformer_paths(9), kind="gelu", seed=2),
    without_scores(),
    gapped(),
]
DOCUMENT = document_of(FEW)


def column(packed: Any, length: int) -> list[Any]:
    return packed if isinstance(packed, list) else [packed] * length


def paths_of(sites: dict[str, Any]) -> list[str]:
    """Undo the front coding, as scripts/data.js does."""
    before, paths = "", []
    for shared, end in zip(sites["shared"], sites["ends"], strict=True):
        before = before[:shared] + end
        paths.append(before)
    return paths


@pytest.mark.parametrize("signature", [*FEW, *hostile()], ids=lambda one: one.name[:12])
def test_sites_come_back_as_they_went_in(signature: Any) -> None:
    [network] = document_of([signature])["networks"]
    packed, count = network["sites"], len(signature)
    assert paths_of(packed) == [site.path for site in signature.sites]
    for name in ("call", "n", "dim", "batches"):
        assert column(packed[name], count) == [getattr(site, name) for site in signature.sites]
    kinds = [packed["kind"]["names"][number] for number in column(packed["kind"]["of"], count)]
    assert kinds == [site.kind for site in signature.sites]
    for name in ("score", "std"):
        for found, site in zip(column(packed[name], count), signature.sites, strict=True):
            value = getattr(site, name)
            assert found is None if math.isnan(value) else abs(found - value) <= 0.5e-4


def test_document_is_strict_json() -> None:
    assert json.loads(json.dumps(DOCUMENT, allow_nan=False)) == DOCUMENT


def test_statistics_are_not_rounded() -> None:
    assert DOCUMENT["networks"][0]["summary"] == FEW[0].summary()
    assert set(DOCUMENT["networks"][2]["summary"].values()) == {None}


def test_coverage_is_told_in_full() -> None:
    coverage = DOCUMENT["networks"][3]["coverage"]
    assert coverage["skipped"] == [["mask", 1, "dropout", "no score is defined for it"]]
    assert (coverage["never_called"], coverage["notes"]) == (
        ["classifier.unused"],
        ["the gates of lstm are not seen"],
    )
    assert coverage["text"] == str(FEW[3].coverage)
    assert DOCUMENT["networks"][3]["sites"]["reasons"] == {
        "4": "the output does not vary (3 of 3 batches)"
    }


def test_proofs_are_counted() -> None:
    assert DOCUMENT["networks"][0]["certified"] == {"identity": 3 * len(FEW[0])}


def test_distances_are_those_of_compare() -> None:
    found, expected = DOCUMENT["distances"], distances([FEW[0], FEW[1], FEW[3]])
    assert found["networks"] == [0, 1, 3]
    assert found["rows"] == [
        list(row[:number]) for number, row in enumerate(expected.matrix.tolist())
    ]
    clusters = expected.cluster()
    assert found["order"] == clusters.order
    assert np.array_equal(np.array(found["merges"]), clusters.linkage[:, :3])


def test_densities_are_those_of_compare() -> None:
    expected = densities([FEW[0], FEW[1], FEW[3]], points=120)
    assert [curve["network"] for curve in DOCUMENT["densities"]["curves"]] == [0, 1, 3]
    for found, curve in zip(DOCUMENT["densities"]["curves"], expected.curves, strict=True):
        assert found["values"] == pytest.approx(curve.values, rel=1e-2, abs=1e-12)
        assert [found["low"], found["high"]] == pytest.approx(curve.grid[[0, -1]], abs=1e-4)


def test_a_constant_network_has_a_reason_instead_of_a_density() -> None:
    found = document_of([FEW[0], made("flat", [0.5, 0.5])])["densities"]
    [[number, reason]] = found["lacking"]
    assert (number, "equal" in reason, len(found["curves"])) == (1, True, 1)


def test_a_single_network_has_no_distances() -> None:
    assert document_of(FEW[:1])["distances"] is None
    assert document_of([without_scores()])["densities"] == {"curves": [], "lacking": []}


def test_networks_of_one_name_are_told_apart() -> None:
    assert [network["name"] for network in document_of([FEW[0], FEW[0]])["networks"]] == [
        "resnet",
        "resnet (2)",
    ]


def test_companions_are_the_changes_and_one_norm() -> None:
    assert list(DOCUMENT["networks"][0]["metrics"]) == ["cka", "norm", "sparsity", "entropy", "r2"]
    assert DOCUMENT["networks"][0]["metrics"]["cka"][0] == pytest.approx(
        FEW[0].sites[0].metrics["cka"], rel=1e-3
    )
    without = without_companions(document_of(FEW))
    assert (without["networks"][0]["metrics"], without["companionsLeftOut"]) == ({}, True)
    plain = document_of([example("plain", residual_paths(2), metrics=False)])
    assert not without_companions(plain)["companionsLeftOut"]


@pytest.mark.parametrize(
    ("signatures", "error", "match"),
    [
        (FEW[0], InputTypeError, "single Signature"),
        ([FEW[0], "resnet.json"], InputTypeError, "Item 1 of signatures is a str"),
        (iter(FEW), InputTypeError, "Pass a list or tuple"),
        ([], InputError, "no signatures"),
    ],
    ids=["single", "path", "iterator", "empty"],
)
def test_what_is_no_list_of_signatures_is_refused(
    signatures: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        document_of(signatures)


def test_settings_are_sorted_into_shared_and_different() -> None:
    other = replace(
        FEW[0],
        name="other",
        options=replace(FEW[0].options, pool="sum", metrics=()),
        versions={"torch": "2.7.0"},
    )
    found = document_of([FEW[0], other])["settings"]
    assert ["covariance", "ledoit-wolf"] in found["shared"]
    assert ["max_batches", "no limit"] in found["shared"]
    assert ["compat", "no"] in found["shared"]
    assert found["columns"][:3] == ["pool", "metrics", "version of python"]
    assert [row[:2] for row in found["rows"]] == [
        ["channels", "cka, norm, sparsity, entropy, r2"],
        ["sum", "none"],
    ]
    assert found["rows"][1][2] == "–"
    assert found["mixed"] == ["pool"]
    assert document_of(FEW[:1])["settings"]["columns"] == []


POPULATED = [populated(one, seed=seed) for seed, one in enumerate(FEW)]


def test_published_scores_are_compared_and_population_scores_stand_beside_them() -> None:
    """The page and `compare` say the same of the same runs."""
    found, scored = document_of(POPULATED), [POPULATED[0], POPULATED[1], POPULATED[3]]
    assert (found["by"], found["ranked"]) == ("published", "population")
    assert (DOCUMENT["by"], DOCUMENT["ranked"]) == ("published", "published")
    for name in ("distances", "densities"):
        assert found[name] == DOCUMENT[name]
    assert found["distances"]["rows"][2] == distances(scored).matrix[2, :2].tolist()
    for shown, plain in zip(found["networks"], DOCUMENT["networks"], strict=True):
        assert (shown["summary"], plain["population"]) == (plain["summary"], None)
    told = statistics(scored, by="population")
    assert found["networks"][1]["population"] == {
        "median": told.table["median"][1],
        "half": told.half_width["median"][1],
    }
    assert found["networks"][2]["population"] is None
    mixed = document_of([POPULATED[0], FEW[1]])
    assert (mixed["by"], mixed["ranked"]) == ("published", "published")


def test_population_scores_are_compared_on_request() -> None:
    found = document_of(POPULATED, by="population")
    scored = [POPULATED[0], POPULATED[1], POPULATED[3]]
    assert (found["by"], found["ranked"]) == ("population", "population")
    sites, first = found["networks"][0]["sites"], POPULATED[0].sites[0]
    assert sites["population"][0] == pytest.approx(first.population, abs=1e-4)
    assert column(sites["half"], 1)[0] == pytest.approx(first.population - first.low, abs=1e-4)
    told = statistics(scored, by="population")
    assert found["networks"][1]["summary"]["median"] == told.table["median"][1]
    assert found["networks"][1]["halves"]["median"] == told.half_width["median"][1]
    assert found["networks"][2]["halves"] == {}
    assert "3 samples are too few" in found["networks"][3]["sites"]["reasons"]["4"]
    expected = distances(scored, by="population").matrix
    assert found["distances"]["rows"][2] == expected[2, :2].tolist()
    with pytest.raises(OptionError, match="was measured with estimator='published'"):
        document_of([POPULATED[0], FEW[1]], by="population")


def test_the_most_nonlinear_are_tied_where_they_are() -> None:
    near = populated(made("near", [0.7, 0.4, 0.402, 0.9]), error=0.01)
    assert document_of([near])["networks"][0]["lowest"] == [1, 2]
    assert document_of([near])["extremes"] is None
    apart = populated(made("apart", [0.7, 0.4, 0.6, 0.9]), error=0.01)
    assert document_of([apart])["networks"][0]["lowest"] == [1]
    assert DOCUMENT["networks"][0]["lowest"] == [int(np.argmin(FEW[0].scores))]
    assert DOCUMENT["networks"][2]["lowest"] == []
    higher = populated(made("higher", [0.95, 0.9, 0.92]), error=0.01)
    lost = without_scores()
    alike = populated(made("alike", [0.7, 0.4, 0.41, 0.9]), seed=1, error=0.01)
    [low, high] = document_of([near, lost, alike, higher])["extremes"]
    assert sorted(low) == [0, 2]
    assert high == [3]
    medians = [FEW[number].summary()["median"] for number in (0, 1, 3)]
    order = np.array([0, 1, 3])[np.argsort(medians)]
    assert DOCUMENT["extremes"] == [[order[0]], [order[-1]]]


def test_a_lower_bound_is_told() -> None:
    network = populated(made("narrow", [0.7, 0.4]))
    moved = replace(network, sites=(network.sites[0], replace(network.sites[1], moved=3, tested=9)))
    [shown] = document_of([moved])["networks"]
    assert list(shown["sites"]["reasons"]) == ["1"]
    assert shown["sites"]["reasons"]["1"].endswith("not optimal on 3 of 9 sampled rows")
    assert shown["lowest"] == [0]  # a bound does not rank
    assert document_of([network])["networks"][0]["lowest"] == [1]


def test_settings_say_what_eps_is_relative_to() -> None:
    relative = replace(FEW[0], name="relative", options=replace(FEW[0].options, eps=None))
    found = document_of([FEW[0], relative])["settings"]
    assert (found["columns"], found["mixed"]) == (["eps"], ["eps"])
    assert found["rows"] == [["1e-06"], ["1e-06 of the mean variance"]]
