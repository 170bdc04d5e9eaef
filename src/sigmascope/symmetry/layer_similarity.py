"""The similarity of the layers of two networks, as a result that prints, saves and loads itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmascope.checks import OLD_NAMES
from sigmascope.errors import FileFormatError
from sigmascope.maths.procrustes import Matrix
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.tables import Table, Tabular, as_frame

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

KIND, VERSION = "layer-similarity", 1
TITLES = {"procrustes": "Procrustes", "cka": "CKA"}
# A matrix of more layers than this does not fit on a line.
WIDEST = 12
# Reasons that are printed.
PRINTED = 4


@dataclass(frozen=True)
class Missing:
    """A pair of layers without a similarity, or one unreadable layer (the other is ""), and why."""

    row: str
    column: str
    reason: str


@dataclass(frozen=True, repr=False)
class LayerSimilarity(Tabular):
    """The similarity of each layer of one network with each layer of another.

    Attributes:
        measure: "procrustes" or "cka".
        group: "relu" or "orthogonal".
        settings: the options of the measure, by name.
        networks: the names of the two networks.
        rows: the activation calls of the first network, in order of execution.
        columns: those of the second.
        similarities: one row for each of `rows`; NaN where none was asked for, or with a reason in
            `missing`.
        channels: numbers of channels of the rows and of the columns.
        live: how many of them vary (centered CKA), or are not zero everywhere.
        pairs: "all", or "diagonal" if only layers at the same place were compared.
        samples: number of inputs.
        missing: what has no similarity, and why.

    >>> import torch
    >>> from torch import nn
    >>> from sigmascope import symmetry
    >>> _ = torch.manual_seed(0)
    >>> a = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
    >>> found = symmetry.compare(a, symmetry.move(a, seed=0), torch.randn(256, 4))
    >>> found.rows, found.similarity.diagonal().round(3).tolist()
    (('1', '3'), [1.0, 1.0])
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
        """(k, l), larger is more similar; NaN where there is none."""
        shape = (len(self.rows), len(self.columns))
        return np.array(self.similarities, dtype=np.float64).reshape(shape)

    @property
    def distance(self) -> Matrix:
        """(k, l), 1 - similarity."""
        return 1 - self.similarity

    def _check(self, source: str) -> None:
        """Raise a FileFormatError if the parts of a stored result do not fit each other."""
        sides = (len(self.rows), len(self.columns))
        fits = [len(row) == sides[1] for row in self.similarities]
        for numbers in (self.channels, self.live):
            fits += [len(one) == count for one, count in zip(numbers, sides, strict=True)]
        if self.measure not in TITLES or len(self.similarities) != sides[0] or not all(fits):
            raise FileFormatError(
                f"{source}: its measure or its numbers of layers do not fit. Write it again."
            )

    def _tables(self) -> list[Table]:
        title = (
            f"{TITLES[self.measure]} similarity, group {self.group}: {self.networks[0]} (rows) and "
            f"{self.networks[1]}, {self.samples} samples"
        )
        wide = len(self.columns) > WIDEST or self.pairs == "diagonal"
        notes = [
            f"{' and '.join(filter(None, [one.row, one.column]))}: {one.reason}."
            for one in self.missing
        ]
        notes = [*notes[:PRINTED], *(["…"] if len(notes) > PRINTED else []), *self._dead()]
        return [Table(self._listed() if wide else self._numbered(), title, notes)]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame (k, l) of similarities with the sites as index and columns.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return as_frame(dict(zip(self.columns, self.similarity.T, strict=True)), self.rows)

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return `{prefix}{row}/{column}` -> similarity of the compared pairs, for a logger."""
        return {
            f"{prefix}{row}/{column}": self.similarities[i][j]
            for i, row in enumerate(self.rows)
            for j, column in enumerate(self.columns)
            if self.pairs == "all" or i == j
        }

    def plot(self) -> Drawn:
        """Draw the matrix; see `sigmascope.figures.draw_similarity`."""
        # results know how they are drawn, and only when asked
        from sigmascope.figures import draw_similarity

        return draw_similarity(self)

    def save(self, path: str | Path) -> Path:
        """Write the result to a JSON file, atomically, and return its path."""
        write_json(path, KIND, VERSION, encode(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> LayerSimilarity:
        """Return the result that `save` wrote.

        Raises:
            FileNotFoundError: no such file.
            FileFormatError: truncated, corrupt, not a sigmascope file, or of a newer version.
        """
        found = decode(cls, read_json(path, KIND, VERSION), f"{path}: content")
        found._check(str(path))
        names = {OLD_NAMES.get(name, name): value for name, value in found.settings.items()}
        return replace(found, settings=names)

    def _dead(self) -> Iterator[str]:
        """Yield for each network which of its layers have channels without information."""
        what = "constant" if self.settings.get("centered") == "True" else "zero everywhere"
        for side, layers in enumerate((self.rows, self.columns)):
            found = zip(layers, self.live[side], self.channels[side], strict=True)
            counts = [
                f"{count - live} of {count} in {layer}"
                for layer, live, count in found
                if 0 < live < count  # where none is live, `missing` says why
            ]
            if counts:
                network = f"{self.networks[side]} ({('rows', 'columns')[side]})"
                yield f"Channels of {network} that are {what}: {', '.join(counts)}."

    def _numbered(self) -> dict[str, Sequence[Any]]:
        names = [f"{place} {name}" for place, name in enumerate(self.columns, 1)]
        values = dict(zip(names, self.similarity.T.tolist(), strict=True))
        return {"similarity": self.rows, **values}

    def _listed(self) -> dict[str, Sequence[Any]]:
        """Return a table of the layers at the same place and of the most similar ones."""
        found: dict[str, Sequence[Any]] = {"layer": self.rows}
        if len(self.rows) == len(self.columns):
            found |= {"same place": self.columns, "similarity": self.similarity.diagonal().tolist()}
        if self.pairs == "all":
            filled = np.where(np.isnan(self.similarity), -np.inf, self.similarity)
            best = filled.argmax(axis=1).tolist()
            known = np.isfinite(filled.max(axis=1)).tolist()
            found["most similar"] = [
                self.columns[j] if some else "–" for j, some in zip(best, known, strict=True)
            ]
            found["its similarity"] = [
                row[j] for row, j in zip(self.similarity.tolist(), best, strict=True)
            ]
        return found
