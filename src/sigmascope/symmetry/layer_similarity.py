"""The similarity of the layers of two networks, as a result that prints, saves and loads itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.maths.procrustes import Matrix
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.tables import as_frame, as_lines

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

__all__ = ["LayerSimilarity", "Missing"]

KIND, VERSION = "layer-similarity", 1
# As a matrix, more layers than this do not fit on a line.
WIDEST = 12


@dataclass(frozen=True)
class Missing:
    """A pair of layers without a similarity, and why; or a layer that could not be read, the other
    then being empty.
    """

    row: str
    column: str
    reason: str


@dataclass(frozen=True, repr=False)
class LayerSimilarity:
    """The similarity of each layer of one network with each layer of another.

    Attributes:
        measure: "procrustes" or "cka".
        group: "relu" or "orthogonal".
        settings: the options of the measure, by name.
        networks: the names of the two.
        rows: the activation calls of the first network, in order of execution.
        columns: of the second.
        similarities: one row for each of `rows`; NaN where none was asked for, or with a reason in
            `missing`.
        channels: of the rows and of the columns.
        live: how many of them vary (centered CKA), or are not zero everywhere.
        pairs: "all", or "diagonal" if only layers at the same place were compared.
        samples: how many inputs were compared.
        missing: what has no similarity, and why.
    """

    measure: str
    group: str
    settings: dict[str, str]
    networks: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    similarities: tuple[tuple[float, ...], ...]
    channels: tuple[tuple[int, ...], tuple[int, ...]]
    live: tuple[tuple[int, ...], tuple[int, ...]]
    pairs: str
    samples: int
    missing: tuple[Missing, ...]

    @property
    def similarity(self) -> Matrix:
        """(k, l), larger is more alike; NaN where there is none."""
        return np.array(self.similarities, dtype=np.float64).reshape(
            len(self.rows), len(self.columns)
        )

    @property
    def distance(self) -> Matrix:
        """(k, l), 1 - similarity."""
        return 1 - self.similarity

    def __repr__(self) -> str:
        what = {"procrustes": "Procrustes", "cka": "CKA"}[self.measure]
        title = (
            f"{what} similarity, group {self.group}: {self.networks[0]} (rows) and "
            f"{self.networks[1]}, {self.samples} samples"
        )
        wide = len(self.columns) > WIDEST or self.pairs == "diagonal"
        lines = [title, "", *as_lines(self._listed() if wide else self._numbered())]
        notes = [
            f"{' and '.join(filter(None, [one.row, one.column]))}: {one.reason}."
            for one in self.missing
        ]
        notes = [*notes[:4], *(["…"] if len(notes) > 4 else []), *self._idle()]
        return "\n".join([*lines, *([""] if notes else []), *notes])

    def to_frame(self) -> Any:
        """Return a pandas DataFrame (k, l) of similarities with the sites as index and columns.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(dict(zip(self.columns, self.similarity.T, strict=True)), self.rows)

    def plot(self) -> Drawn:
        """Draw the matrix; see `sigmascope.figures.draw_similarity`."""
        # results know how they are drawn, and only when asked
        from sigmascope.figures import draw_similarity

        return draw_similarity(self)

    def save(self, path: str | Path) -> Path:
        """Write the result to a JSON file, which replaces an older one at once or not at all; see
        `LayerSimilarity.load`.
        """
        write_json(path, KIND, VERSION, encode(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> LayerSimilarity:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: no such file.
            FileFormatError: truncated, foreign, newer than this version, or hostile.
        """
        return decode(cls, read_json(path, KIND, VERSION), f"{path}: content")

    def _idle(self) -> Iterator[str]:
        """Say for each network which of its layers have channels that carry nothing; where none
        does, `missing` says why.
        """
        what = "constant" if self.settings.get("centered") == "True" else "zero everywhere"
        sides = zip(
            ("rows", "columns"),
            self.networks,
            (self.rows, self.columns),
            self.live,
            self.channels,
            strict=True,
        )
        for side, network, layers, live, channels in sides:
            found = zip(layers, live, channels, strict=True)
            counts = [
                f"{all_ - some} of {all_} in {layer}"
                for layer, some, all_ in found
                if 0 < some < all_
            ]
            if counts:
                yield f"Channels of {network} ({side}) that are {what}: {', '.join(counts)}."

    def _numbered(self) -> dict[str, Sequence[Any]]:
        columns = [f"{place} {name}" for place, name in enumerate(self.columns, 1)]
        return {"similarity": self.rows} | dict(
            zip(columns, self.similarity.T.tolist(), strict=True)
        )

    def _listed(self) -> dict[str, Sequence[Any]]:
        """Name for each layer the one at its place, and the one most like it, where the matrix is
        too wide to show.
        """
        found: dict[str, Sequence[Any]] = {"layer": self.rows}
        if len(self.rows) == len(self.columns):
            found |= {"same place": self.columns, "similarity": self.similarity.diagonal().tolist()}
        if self.pairs == "all":
            filled = np.where(np.isnan(self.similarity), -np.inf, self.similarity)
            best = filled.argmax(axis=1)
            known = np.isfinite(filled.max(axis=1))
            found["most alike"] = [
                self.columns[j] if some else "–" for j, some in zip(best, known, strict=True)
            ]
            found["its similarity"] = [
                row[j] for row, j in zip(self.similarity.tolist(), best, strict=True)
            ]
        return found
