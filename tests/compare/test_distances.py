"""Distances with names, the trees and the maps that follow from them."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import pdist, squareform

from sigmascope.choices import Linkage, values_of
from sigmascope.compare.distances import Distances, distances
from sigmascope.errors import InputError, MissingExtraError, OptionError
from sigmascope.maths.warping import dtw
from tests.compare.made import made, many, populated
from tests.work import calls_of

CURVES = {
    "a": [0.9, 0.8, 0.9],
    "b": [0.2, 0.3],
    "c": [0.9, 0.8, 0.85, 0.9],
    "d": [0.5, np.nan, 0.4],
}
SIGNATURES = [made(name, curve) for name, curve in CURVES.items()]


def plane(count: int = 12, seed: int = 0) -> tuple[np.ndarray, Distances]:
    """Points in the plane and their true distances."""
    points = np.random.default_rng(seed).standard_normal((count, 2)) * [3, 1]
    names = tuple(f"point {number}" for number in range(count))
    return points, Distances(names, squareform(pdist(points)), None)


def test_every_distance_is_that_of_the_curves() -> None:
    for normalize in (None, "path"):
        found = distances(SIGNATURES, normalize=normalize)
        assert found.names == ("a", "b", "c", "d")
        curves = [one.scores[np.isfinite(one.scores)] for one in SIGNATURES]
        assert found.matrix.tolist() == [
            [dtw(x, y, normalize=normalize) for y in curves] for x in curves
        ]
        assert found.normalize == normalize


def test_a_single_network_is_at_no_distance_from_itself() -> None:
    found = distances(SIGNATURES[:1])
    assert found.matrix.tolist() == [[0]]
    for wanted, what in ((found.cluster, "A clustering"), (found.embed, "An embedding")):
        with pytest.raises(
            InputError, match=f"{what} needs at least two networks, and there is one: a"
        ):
            wanted()


def test_few_are_printed_as_a_matrix() -> None:
    assert repr(distances(SIGNATURES[:2])).splitlines() == [
        "Distances by dynamic time warping, published scores",
        "",
        "network       1       2",
        "1 a      0.0000  1.0488",
        "2 b      1.0488  0.0000",
    ]
    assert repr(distances(SIGNATURES, normalize="path")).startswith(
        "Distances by dynamic time warping, published scores, per step of the path\n"
    )


def test_many_are_printed_with_their_neighbors() -> None:
    points, found = plane(13)
    lines = repr(found).splitlines()
    assert len(lines) == 13 + 3
    apart = np.linalg.norm(points[0] - points[1:], axis=1)
    near, far = int(apart.argmin()) + 1, int(apart.argmax()) + 1
    assert lines[3].split() == [
        "point",
        "0",
        "point",
        str(near),
        f"{apart.min():.4f}",
        "point",
        str(far),
        f"{apart.max():.4f}",
    ]
    assert max(map(len, repr(distances(many())).splitlines())) < 128


def test_frames() -> None:
    found = distances(SIGNATURES)
    frame = found.to_frame()
    assert frame.loc["a", "c"] == frame.loc["c", "a"] == found.matrix[0, 2]
    merges = found.cluster().to_frame()
    assert merges.columns.tolist() == ["merge", "one", "other", "height", "networks"]
    assert set(merges.loc[0, ["one", "other"]]) == {"a", "c"}
    assert merges["networks"].tolist()[-1] == 4
    points = found.embed().to_frame()
    assert points.columns.tolist() == ["network", "x", "y"]


@pytest.mark.parametrize("method", values_of(Linkage))
def test_the_tree_is_that_of_scipy(method: str) -> None:
    _, found = plane()
    tree = found.cluster(method)
    expected = linkage(squareform(found.matrix), method)
    assert tree.linkage[:, 2:] == pytest.approx(expected[:, 2:])
    assert sorted(tree.order) == list(range(12))
    assert tree.method == method


def test_the_leaves_are_so_turned_that_neighbors_are_near() -> None:
    _, found = plane()

    def walked(order: list[int]) -> float:
        return float(sum(found.matrix[one, other] for one, other in itertools.pairwise(order)))

    plain = linkage(squareform(found.matrix), "average")
    assert walked(found.cluster().order) < walked(leaves_list(plain).tolist())


def test_single_linkage_is_the_minimax_path() -> None:
    """The cophenetic distance of single linkage is the least largest hop on a way from one to the
    other.
    """
    _, found = plane()
    hops = found.matrix.copy()
    for middle in range(len(hops)):
        hops = np.minimum(hops, np.maximum(hops[:, middle, None], hops[middle]))
    heights = found.cluster("single").cophenetic()
    assert heights.matrix == pytest.approx(hops)
    assert heights.kind == "cophenetic"
    assert repr(heights).startswith("Cophenetic distances, published scores\n")


@pytest.mark.parametrize("method", values_of(Linkage))
def test_cophenetic_distances_are_ultrametric_and_others_are_not(method: str) -> None:
    def worst(matrix: np.ndarray) -> float:
        detour = np.maximum(matrix[:, :, None], matrix[None]).min(axis=1)
        return float((matrix - detour).max())

    _, found = plane()
    assert worst(found.cluster(method).cophenetic().matrix) <= 1e-12
    assert worst(found.matrix) > 0.1


def test_groups_are_those_of_scipy_and_numbered_by_name() -> None:
    _, found = plane()
    tree = found.cluster()
    for count in range(1, 13):
        groups = tree.groups(count)
        theirs = fcluster(tree.linkage, count, "maxclust")
        assert len(set(groups)) == count
        assert len(set(zip(groups, theirs.tolist(), strict=True))) == count
        assert list(dict.fromkeys(groups)) == list(range(count))


def test_ties_do_not_change_the_number_of_groups() -> None:
    found = Distances(("a", "b", "c", "d"), 1 - np.eye(4), None)
    assert [len(set(found.cluster().groups(count))) for count in (1, 2, 3, 4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("count", [0, 5, 2.0, True])
def test_other_counts_are_refused(count: int) -> None:
    with pytest.raises(OptionError, match=r"count must be a whole number from 1 to 4"):
        distances(SIGNATURES).cluster().groups(count)


def test_a_tree_prints_its_merges() -> None:
    lines = repr(distances(SIGNATURES).cluster("complete")).splitlines()
    assert lines[0] == "Clustering of 4 networks, complete linkage, published scores"
    assert lines[3].split()[:3] in (["1", "a", "c"], ["1", "c", "a"])
    assert "merge 1" in "".join(lines[4:])


def test_many_deep_networks_are_compared_together() -> None:
    """1770 pairs: a loop over the steps of each pair would make half a million calls."""
    signatures = many()
    assert calls_of(lambda: distances(signatures).cluster()) < 150_000
    assert distances(signatures).embed().points.shape == (60, 2)


def test_points_of_the_plane_are_found_again() -> None:
    _, found = plane()
    map_ = found.embed()
    assert squareform(pdist(map_.points)) == pytest.approx(found.matrix, abs=1e-3)
    assert map_.stress < 1e-4
    assert map_.names == found.names


def test_the_map_is_centered_turned_and_oriented() -> None:
    _, found = plane()
    x, y = found.embed().points.T
    assert (x.mean(), y.mean(), x @ y) == pytest.approx((0, 0, 0), abs=1e-9)
    assert x.std() > y.std()
    assert (np.abs(x).max(), np.abs(y).max()) == (x.max(), y.max())


def test_of_two_networks_the_first_lies_to_the_right() -> None:
    for pair in (SIGNATURES[:2], SIGNATURES[1::-1]):
        assert distances(pair).embed().points[0, 0] > 0


@pytest.mark.parametrize("of", ["distances", "cophenetic"])
def test_the_map_is_the_same_again(of: str) -> None:
    _, found = plane()
    one, other = found.embed(of), found.embed(of)
    assert (one.points == other.points).all()
    assert one.stress == other.stress
    assert one.of == of


def test_the_order_of_the_networks_does_not_move_them() -> None:
    _, found = plane()
    turned = Distances(found.names[::-1], found.matrix[::-1, ::-1].copy(), None)
    assert turned.embed().points[::-1] == pytest.approx(found.embed().points, abs=2e-3)


def test_stress_is_what_the_plane_misses() -> None:
    """Four points at equal distances need three dimensions."""
    found = Distances(("a", "b", "c", "d"), 5 * (1 - np.eye(4)), None).embed()
    apart = pdist(found.points)
    assert found.stress == pytest.approx(np.sqrt(np.square(apart - 5).sum() / (6 * 25)))
    # The best flat solution is a square: stress² is the least over its side s of (4 (s - 1)² + 2 (s
    # √2 - 1)²) / 6.
    side = (4 + 2 * np.sqrt(2)) / 8
    assert found.stress == pytest.approx(
        np.sqrt((4 * (side - 1) ** 2 + 2 * (side * np.sqrt(2) - 1) ** 2) / 6), abs=1e-6
    )


def test_two_networks_lie_on_a_line() -> None:
    found = distances(SIGNATURES[:2])
    map_ = found.embed()
    assert np.abs(map_.points) == pytest.approx(
        np.array([[1, 0], [1, 0]]) * found.matrix[0, 1] / 2, abs=1e-6
    )
    assert map_.stress == pytest.approx(0, abs=1e-6)


def test_equal_networks_lie_on_one_point() -> None:
    map_ = distances([SIGNATURES[0]] * 3).embed()
    assert map_.names == ("a", "a (2)", "a (3)")
    assert not map_.points.any()
    assert map_.stress == 0
    mixed = distances([SIGNATURES[0], SIGNATURES[0], SIGNATURES[1]]).embed()
    assert mixed.points[0] == pytest.approx(mixed.points[1], abs=1e-4)
    assert np.linalg.norm(mixed.points[0] - mixed.points[2]) > 1


def test_cophenetic_maps_differ_from_others() -> None:
    _, found = plane()
    assert found.embed("cophenetic").stress > found.embed().stress + 0.01
    assert (
        found.embed("cophenetic", method="single").stress
        != found.embed("cophenetic", method="complete").stress
    )
    assert repr(found.embed("cophenetic")).startswith(
        "Embedding of cophenetic distances, published scores, stress 0."
    )
    assert repr(found.embed()).startswith("Embedding of distances, published scores, stress 0.")


def test_without_scikit_learn_there_is_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(
        MissingExtraError,
        match=r"An embedding needs scikit-learn: pip install 'sigmascope\[analysis\]'",
    ):
        distances(SIGNATURES).embed()


def test_other_options_are_refused() -> None:
    found = distances(SIGNATURES)
    with pytest.raises(
        OptionError, match=r"method='avrage' is not a valid choice\. Did you mean 'average'\?"
    ):
        found.cluster("avrage")
    with pytest.raises(OptionError, match=r"method='centroid' is not a valid choice.*'ward'"):
        found.embed(method="centroid")
    with pytest.raises(
        OptionError, match=r"of='linkage' is not a valid choice.*'distances', 'cophenetic'"
    ):
        found.embed("linkage")
    with pytest.raises(OptionError, match=r"normalize='length' is not a valid choice"):
        distances(SIGNATURES, normalize="length")
    for seed in (-1, 0.5, 2**32):
        with pytest.raises(OptionError, match=r"seed must be a whole number from 0"):
            found.embed(seed=seed)  # type: ignore[arg-type]


def test_what_follows_from_distances_names_their_scores() -> None:
    networks = [populated(made("a", [0.5, 0.7])), populated(made("b", [0.2, 0.9, 0.4]), bias=0.1)]
    found = distances(networks, by="population")
    assert (distances(networks).by, found.by) == ("published", "population")
    assert repr(found).startswith("Distances by dynamic time warping, population scores\n")
    tree = found.cluster()
    for result in (tree, tree.cophenetic(), found.embed(), found.embed("cophenetic")):
        assert result.by == "population"
        assert ", population scores" in repr(result).splitlines()[0]
        assert "population scores" in " ".join(
            axes.get_xlabel() for axes in result.plot().figure.axes
        )
