"""How far signatures lie from each other, and what groups and maps follow from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.hierarchy import cophenet, leaves_list, linkage
from scipy.spatial.distance import squareform

from sigmascope.checks import check_choice
from sigmascope.compare.networks import checked_networks
from sigmascope.compare.scaling import scale_to_plane
from sigmascope.compare.table import as_frame, as_lines
from sigmascope.errors import InputError
from sigmascope.maths.warping import Curve, dtw_matrix
from sigmascope.measure.signature import Signature

if TYPE_CHECKING:
    import pandas

__all__ = ["LINKAGES", "Clustering", "Distances", "Embedding", "distances"]

KINDS = {"dtw": "Distances by dynamic time warping", "cophenetic": "Cophenetic distances"}
LINKAGES = ("average", "single", "complete", "weighted", "ward")
EMBEDDED = ("distances", "cophenetic")
# As a matrix, more networks than this do not fit on a line.
WIDEST = 12


@dataclass(frozen=True, repr=False, eq=False)
class Distances:
    """The distance of every two networks.

    Attributes:
        names: of the k networks.
        matrix: (k, k), symmetric, with a diagonal of zeros.
        normalize: None, or "path"; see `distances`.
        kind: "dtw", or "cophenetic": the heights at which a clustering merges two networks.

    >>> Distances(("a", "b"), np.array([[0.0, 0.25], [0.25, 0.0]]), None)
    Distances by dynamic time warping
    <BLANKLINE>
    network       1       2
    1 a      0.0000  0.2500
    2 b      0.2500  0.0000
    """

    names: tuple[str, ...]
    matrix: Curve
    normalize: str | None
    kind: str = "dtw"

    def __repr__(self) -> str:
        title = KINDS[self.kind] + (", per step of the path" if self.normalize else "")
        columns = self._numbered() if len(self.names) <= WIDEST else self._neighbors()
        return "\n".join([title, "", *as_lines(columns)])

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame (k, k) with the names as index and columns.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(dict(zip(self.names, self.matrix, strict=True)), self.names)

    def cluster(self, method: str = "average") -> Clustering:
        """Merge the two nearest groups, again and again, until one is left.

        Args:
            method: how the distance of two groups follows from those of their members: "average",
                "single" (the least), "complete" (the largest), "weighted" (groups count alike,
                whatever their size), or "ward", which is meant for Euclidean distances, as these
                are not.

        Raises:
            OptionError: another method.
            InputError: fewer than two networks.
        """
        check_choice("method", method, LINKAGES)
        self._check_several("A clustering")
        merges: Curve = linkage(
            squareform(self.matrix, checks=False), method, optimal_ordering=True
        )
        return Clustering(
            self.names, merges, [int(leaf) for leaf in leaves_list(merges)], method, self.normalize
        )

    def embed(self, of: str = "distances", *, method: str = "average", seed: int = 0) -> Embedding:
        """Place the networks in the plane so that their distances are kept as well as possible; see
        `scale_to_plane`.

        Args:
            of: "distances", or "cophenetic": the heights at which a clustering merges two networks.
            method: of that clustering; see `cluster`.
            seed: of the random starts.

        Raises:
            OptionError: another `of` or `method`.
            InputError: fewer than two networks, or a seed that is no whole number of at least 0.
            MissingExtraError: scikit-learn is not installed.
        """
        check_choice("of", of, EMBEDDED)
        check_choice("method", method, LINKAGES)
        self._check_several("An embedding")
        target = self if of == "distances" else self.cluster(method).cophenetic()
        return Embedding(self.names, *scale_to_plane(target.matrix, seed), of)

    def _check_several(self, what: str) -> None:
        if len(self.names) < 2:
            raise InputError(
                f"{what} needs at least two networks, and there is one: {self.names[0]}. "
                "Pass more signatures."
            )

    def _numbered(self) -> dict[str, Sequence[Any]]:
        rows = [f"{place} {name}" for place, name in enumerate(self.names, 1)]
        return {"network": rows} | {
            str(place): column.tolist() for place, column in enumerate(self.matrix, 1)
        }

    def _neighbors(self) -> dict[str, Sequence[Any]]:
        """Name the nearest and the farthest network of each, where the matrix is too wide to show."""
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
class Clustering:
    """Networks merged into ever larger groups.

    Attributes:
        names: of the k networks.
        linkage: (k - 1, 4), as SciPy has it: the two groups that merge (from k on they are earlier
            merges), the height at which they do, and how many networks they then hold.
        order: the networks as the leaves of the tree, so turned that neighbors are near.
        method: how groups were compared; see `Distances.cluster`.
        normalize: of the distances.
    """

    names: tuple[str, ...]
    linkage: Curve
    order: list[int]
    method: str
    normalize: str | None

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"Clustering of {len(self.names)} networks, {self.method} linkage",
                "",
                *as_lines(self._merges()),
            ]
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per merge.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(self._merges())

    def cophenetic(self) -> Distances:
        """Return for every two networks the height at which they first are in one group."""
        return Distances(
            self.names, squareform(cophenet(self.linkage)), self.normalize, "cophenetic"
        )

    def groups(self, count: int) -> list[int]:
        """Cut the tree where exactly `count` groups are left.

        Returns:
            For each network the number of its group, from 0 in the order of the names.

        Raises:
            InputError: `count` is not between 1 and the number of networks.

        >>> apart = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 3.0], [1.0, 3.0, 0.0]])
        >>> Distances(("a", "b", "c"), apart, None).cluster().groups(2)
        [0, 1, 0]
        """
        k = len(self.names)
        if type(count) is not int or not 1 <= count <= k:
            raise InputError(
                f"count={count!r} is not a whole number from 1 to {k}, the number of networks."
            )
        members = {place: [place] for place in range(k)}
        for number, (left, right) in enumerate(self.linkage[: k - count, :2].astype(int).tolist()):
            members[k + number] = members.pop(left) + members.pop(right)
        group_of = {
            place: number
            for number, group in enumerate(sorted(members.values(), key=min))
            for place in group
        }
        return [group_of[place] for place in range(k)]

    def _merges(self) -> dict[str, Sequence[Any]]:
        k = len(self.names)
        labels = [*self.names, *(f"merge {number}" for number in range(1, k))]
        left, right, height, size = self.linkage.T
        return {
            "merge": range(1, k),
            "one": [labels[place] for place in left.astype(int)],
            "other": [labels[place] for place in right.astype(int)],
            "height": height.tolist(),
            "networks": size.astype(int).tolist(),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Embedding:
    """Networks as points in the plane.

    Attributes:
        names: of the k networks.
        points: (k, 2), centered, in the unit of the distances.
        stress: the share of the distances that the plane misses, root of squares; 0 is perfect.
        of: "distances" or "cophenetic".
    """

    names: tuple[str, ...]
    points: Curve
    stress: float
    of: str

    def __repr__(self) -> str:
        what = "distances" if self.of == "distances" else "cophenetic distances"
        return "\n".join(
            [f"Embedding of {what}, stress {self.stress:.4f}", "", *as_lines(self._columns())]
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with one row per network.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(self._columns())

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {
            "network": self.names,
            "x": self.points[:, 0].tolist(),
            "y": self.points[:, 1].tolist(),
        }


def distances(signatures: Sequence[Signature], *, normalize: str | None = None) -> Distances:
    """Compare every two signatures by dynamic time warping; see `sigmascope.maths.warping.dtw`.

    Sites without a score are left out.

    Args:
        signatures: of one network or more.
        normalize: None, or "path": per cell of the best path, since distances grow with the number
            of sites.

    Raises:
        InputError, InputTypeError: not a list of signatures with scores.
        OptionError: another `normalize`.

    >>> import torch
    >>> from sigmascope.measure.survey import signature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid())
    >>> measured = signature(network, [torch.eye(4)], name="small")
    >>> distances([measured, measured])
    Distances by dynamic time warping
    <BLANKLINE>
    network           1       2
    1 small      0.0000  0.0000
    2 small (2)  0.0000  0.0000
    """
    networks = checked_networks(signatures)
    return Distances(networks.names, dtw_matrix(networks.curves, normalize=normalize), normalize)
