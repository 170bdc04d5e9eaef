"""Distances between signatures, and the clusters and maps that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import cophenet, leaves_list, linkage
from scipy.spatial.distance import squareform

from sigmascope.checks import check_choice, check_whole
from sigmascope.choices import Embedded, Linkage, Normalize, ScoreKind
from sigmascope.compare.multidimensional_scaling import scale_to_plane
from sigmascope.compare.networks import checked_networks
from sigmascope.errors import InputError
from sigmascope.maths.randomness import FixedSeed
from sigmascope.maths.warping import TOGETHER, Curve, dtw_matrix
from sigmascope.measure.progress import progress_bar
from sigmascope.tables import Columns, Table, Tabular, as_frame

if TYPE_CHECKING:
    import pandas

    from sigmascope.figures.drawn import Drawn
    from sigmascope.measure.result import Signature

KINDS = {"dtw": "Distances by dynamic time warping", "cophenetic": "Cophenetic distances"}
MANY_PAIRS = 20_000  # which take some tenths of a second
# As a matrix, more networks than this do not fit on a line.
WIDEST = 12


@dataclass(frozen=True, repr=False, eq=False)
class Distances(Tabular):
    """The distance between every two networks.

    Attributes:
        names: names of the k networks.
        matrix: (k, k), symmetric, with a diagonal of zeros.
        normalize: None, or "path"; see `distances`.
        kind: "dtw", or "cophenetic": the heights at which a clustering merges two networks.
        by: whose scores were compared, "published" or "population".

    >>> Distances(("a", "b"), np.array([[0.0, 0.25], [0.25, 0.0]]), None)
    Distances by dynamic time warping, published scores
    <BLANKLINE>
    network       1       2
    1 a      0.0000  0.2500
    2 b      0.2500  0.0000
    """

    names: tuple[str, ...]
    matrix: Curve
    normalize: Normalize | None
    kind: str = "dtw"
    by: ScoreKind = "published"

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame (k, k) with the names as index and columns.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(dict(zip(self.names, self.matrix, strict=True)), self.names)

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the distances for a logger: `{prefix}{name} vs {name}` -> number."""
        pairs = combinations(range(len(self.names)), 2)
        return {
            f"{prefix}{self.names[i]} vs {self.names[j]}": float(self.matrix[i, j])
            for i, j in pairs
        }

    def plot(self, *, method: Linkage = "average") -> Drawn:
        """Draw the matrix in the order of a clustering; see `sigmascope.figures.draw_distances`."""
        from sigmascope.figures.distances import draw_distances

        return draw_distances(self, method=method)

    def cluster(self, method: Linkage = "average") -> Clustering:
        """Return a hierarchical clustering, which merges the two nearest groups until one is left.

        Args:
            method: linkage, the distance between two groups: "average", "single" (the least),
                "complete" (the largest), "weighted" (groups count alike, whatever their size), or
                "ward", which is meant for Euclidean distances; these are not.

        Raises:
            OptionError: another method.
            InputError: fewer than two networks.
        """
        check_choice("method", method, Linkage)
        self._check_several("A clustering")
        apart = squareform(self.matrix, checks=False)
        merges: Curve = linkage(apart, method, optimal_ordering=True)
        order = [int(leaf) for leaf in leaves_list(merges)]
        return Clustering(self.names, merges, order, method, self.normalize, self.by)

    def embed(
        self, of: Embedded = "distances", *, method: Linkage = "average", seed: FixedSeed = 0
    ) -> Embedding:
        """Return points in the plane that preserve the distances as well as possible.

        Args:
            of: "distances", or "cophenetic": the heights at which a clustering merges two networks.
            method: linkage of that clustering; see `cluster`.
            seed: of the random starts of the scaling, a whole number or a torch.Generator.

        Raises:
            OptionError: another `of` or `method`; a seed that is not a whole number >= 0.
            InputError: fewer than two networks.
            MissingExtraError: scikit-learn is not installed.
        """
        check_choice("of", of, Embedded)
        check_choice("method", method, Linkage)
        self._check_several("An embedding")
        target = self if of == "distances" else self.cluster(method).cophenetic()
        return Embedding(self.names, *scale_to_plane(target.matrix, seed), of, self.by)

    def _check_several(self, what: str) -> None:
        if len(self.names) < 2:
            raise InputError(
                f"{what} needs at least two networks, and there is one: {self.names[0]}. "
                "Pass more signatures."
            )

    def _tables(self) -> list[Table]:
        per_step = ", per step of the path" if self.normalize else ""
        return [Table(self._columns(), f"{KINDS[self.kind]}, {self.by} scores{per_step}")]

    def _columns(self) -> Columns:
        if len(self.names) > WIDEST:
            return self._neighbors()
        rows = [f"{place} {name}" for place, name in enumerate(self.names, 1)]
        columns = {str(place): column.tolist() for place, column in enumerate(self.matrix, 1)}
        return {"network": rows} | columns

    def _neighbors(self) -> Columns:
        """Return the nearest and the farthest network of each, for a matrix too wide to show."""
        others = np.where(np.eye(len(self.names), dtype=bool), np.inf, self.matrix)
        nearest, farthest = others.argmin(axis=1), self.matrix.argmax(axis=1)
        return {
            "network": self.names,
            "nearest": [self.names[place] for place in nearest],
            "least": others.min(axis=1).tolist(),
            "farthest": [self.names[place] for place in farthest],
            "largest": self.matrix.max(axis=1).tolist(),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Clustering(Tabular):
    """A hierarchical clustering of networks.

    Attributes:
        names: names of the k networks.
        linkage: (k - 1, 4), as in SciPy: the two groups that merge (from k on they are earlier
            merges), the height at which they merge, and the number of networks they then hold.
        order: the networks in the order of the leaves, so that neighbors are near.
        method: linkage; see `Distances.cluster`.
        normalize: of the distances.
        by: whose scores were compared, "published" or "population".
    """

    names: tuple[str, ...]
    linkage: Curve
    order: list[int]
    method: Linkage
    normalize: Normalize | None
    by: ScoreKind = "published"

    def cophenetic(self) -> Distances:
        """Return for every two networks the height at which they first are in one group."""
        heights = squareform(cophenet(self.linkage))
        return Distances(self.names, heights, self.normalize, "cophenetic", self.by)

    def groups(self, count: int) -> list[int]:
        """Return the group of each network when the tree is cut into exactly `count` groups.

        Groups are numbered from 0 in the order of the names.

        Raises:
            OptionError: `count` is not between 1 and the number of networks.

        >>> apart = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 3.0], [1.0, 3.0, 0.0]])
        >>> Distances(("a", "b", "c"), apart, None).cluster().groups(2)
        [0, 1, 0]
        """
        k = len(self.names)
        check_whole("count", count, 1, k)
        members = {place: [place] for place in range(k)}
        for number, (left, right) in enumerate(self.linkage[: k - count, :2].astype(int).tolist()):
            members[k + number] = members.pop(left) + members.pop(right)
        group_of = {
            place: number
            for number, group in enumerate(sorted(members.values(), key=min))
            for place in group
        }
        return [group_of[place] for place in range(k)]

    def plot(self, *, families: Mapping[str, str] | None = None) -> Drawn:
        """Draw the tree; see `sigmascope.figures.draw_tree`."""
        from sigmascope.figures.tree import draw_tree

        return draw_tree(self, families=families)

    def merges(self) -> list[tuple[str, str, float, int]]:
        """Return one row per merge: the two groups, the height, the number of networks in both."""
        labels = [*self.names, *(f"merge {number}" for number in range(1, len(self.names)))]
        return [
            (labels[int(left)], labels[int(right)], height, int(size))
            for left, right, height, size in self.linkage.tolist()
        ]

    def _tables(self) -> list[Table]:
        title = f"Clustering of {len(self.names)} networks, {self.method} linkage"
        return [Table(self._columns(), f"{title}, {self.by} scores")]

    def _columns(self) -> Columns:
        columns = zip(*self.merges(), strict=True)
        named = zip(("one", "other", "height", "networks"), columns, strict=True)
        return {"merge": range(1, len(self.names)), **dict(named)}


@dataclass(frozen=True, repr=False, eq=False)
class Embedding(Tabular):
    """Networks as points in the plane.

    Attributes:
        names: names of the k networks.
        points: (k, 2), centered, in the unit of the distances.
        stress: share of the distances that the plane misses (root mean square); 0 is perfect.
        of: "distances" or "cophenetic".
        by: whose scores were compared, "published" or "population".

    >>> import torch
    >>> import sigmascope as sg
    >>> x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    >>> networks = [torch.nn.Sequential(torch.nn.LeakyReLU(slope)) for slope in (0.1, 0.4, 0.7)]
    >>> found = sg.distances([sg.signature(one, x) for one in networks]).embed()
    >>> found.points.shape, found.stress < 0.01
    ((3, 2), True)
    """

    names: tuple[str, ...]
    points: Curve
    stress: float
    of: Embedded
    by: ScoreKind = "published"

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return stress and coordinates for a logger: `stress`, `{prefix}{name}/x` -> number."""
        return {f"{prefix}stress": self.stress, **super().to_dict(prefix)}

    def plot(self, *, families: Mapping[str, str] | None = None) -> Drawn:
        """Draw the points; see `sigmascope.figures.draw_embedding`."""
        from sigmascope.figures.embedding import draw_embedding

        return draw_embedding(self, families=families)

    def _tables(self) -> list[Table]:
        what = "distances" if self.of == "distances" else "cophenetic distances"
        title = f"Embedding of {what}, {self.by} scores, stress {self.stress:.4f}"
        return [Table(self._columns(), title)]

    def _columns(self) -> Columns:
        x, y = self.points.T.tolist()
        return {"network": self.names, "x": x, "y": y}


def distances(
    signatures: Sequence[Signature],
    *,
    normalize: Normalize | None = None,
    by: ScoreKind | None = None,
    progress: bool = True,
) -> Distances:
    """Return the distance between every two signatures by dynamic time warping.

    Sites without a score are left out. As in Bouniot et al., CVPR 2025, arXiv:2310.11439; see
    `sigmascope.maths.warping.dtw`. The time grows with the square of the number of networks: some
    seconds for 1,000.

    Args:
        signatures: one per network, at least one.
        normalize: None, or "path": divided by the length of the best path, since distances grow
            with the number of sites.
        by: "published" or "population" scores; by default published scores if all have them.
        progress: whether to show a progress bar for hundreds of networks, on a terminal.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: another `normalize` or `by`, or one that was not measured.

    >>> import torch
    >>> from sigmascope.measure.signature import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid())
    >>> measured = signature(network, [torch.eye(4)], name="small")
    >>> distances([measured, measured])
    Distances by dynamic time warping, published scores
    <BLANKLINE>
    network           1       2
    1 small      0.0000  0.0000
    2 small (2)  0.0000  0.0000
    """
    networks = checked_networks(signatures, by)
    pairs = math.comb(len(networks.curves), 2)
    steps, shown = math.ceil(pairs / TOGETHER), progress and pairs > MANY_PAIRS
    with progress_bar(f"{pairs:,} distances", steps, shown=shown) as advance:
        matrix = dtw_matrix(networks.curves, normalize=normalize, advance=advance)
    return Distances(networks.names, matrix, normalize, by=networks.by)
