"""The concepts that the units of a layer detect, in its own basis and in rotated ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.dissection.masks import Concept
from sigmascope.errors import FileFormatError, printable
from sigmascope.store import read_paired, write_paired
from sigmascope.tables import Preformatted, as_lines

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

KIND, VERSION = "dissection", 1
REAL = (torch.float32, torch.float64)
Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, repr=False, eq=False)
class Dissection(Preformatted):
    """Units as detectors of concepts, for r rotations, p powers of each, c units and k concepts.

    Attributes:
        name: of the features.
        samples: the number of images.
        units: c.
        concepts: k of them.
        about: what the masks are.
        size: (h, w) of the masks, to which the feature maps are resized.
        quantile: of all values of a unit, above which it is active.
        least_iou: a unit is interpretable if its best IoU is larger.
        powers: of the rotations; 0 is the layer's own basis.
        seeds: of the rotations, if they were drawn.
        notes: what a reader should know.
        versions: of the packages that matter.
        tensors: "iou" (r, p, c, k), NaN where neither unit nor concept has a pixel; "thresholds"
            (r, p, c); "coverage" (k,), the share of all pixels that each concept covers.

    >>> import torch
    >>> import sigmascope as sg
    >>> from sigmascope import dissection
    >>> maps = torch.rand(50, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> masks = dissection.pixel_masks(maps > 0.99, [("spots", "texture"), ("dots", "texture")])
    >>> found = sg.dissect(maps, masks)
    >>> found.units, found.best_concept, found.unique_concepts
    (2, tensor([[[0, 1]]]), array([[2]]))
    """

    name: str
    samples: int
    units: int
    concepts: tuple[Concept, ...]
    about: str
    size: tuple[int, int]
    quantile: float
    least_iou: float
    powers: tuple[float, ...]
    seeds: tuple[int, ...]
    notes: tuple[str, ...]
    versions: dict[str, str]
    tensors: dict[str, Tensor]

    @property
    def iou(self) -> Tensor:
        """(r, p, c, k), float64: intersection over union of each unit and concept."""
        return self.tensors["iou"]

    @property
    def thresholds(self) -> Tensor:
        """(r, p, c), float64: the value above which a unit is active."""
        return self.tensors["thresholds"]

    @property
    def best_iou(self) -> Tensor:
        """(r, p, c): the largest IoU of each unit; 0 if it overlaps no concept."""
        return self.iou.nan_to_num(0.0).amax(dim=-1)

    @property
    def best_concept(self) -> Tensor:
        """(r, p, c): the first best concept of each unit, a place in `concepts`; -1 if none."""
        filled = self.iou.nan_to_num(0.0)
        return filled.argmax(dim=-1).where(filled.amax(dim=-1) > 0, -1)

    @property
    def interpretable(self) -> Tensor:
        """(r, p, c), booleans: whether the best IoU of a unit exceeds `least_iou`."""
        return self.best_iou > self.least_iou

    @property
    def fraction(self) -> Values:
        """(r, p): the share of units that are interpretable."""
        share: Values = self.interpretable.double().mean(dim=-1).numpy()
        return share

    @property
    def unique_concepts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """(r, p): the number of different concepts that interpretable units detect."""
        rotations, powers = (range(count) for count in self.fraction.shape)
        counts = [[len(set(self._detected(r, p))) for p in powers] for r in rotations]
        return np.array(counts, dtype=np.int64)

    def categories(self, rotation: int = 0, power: int = 0) -> dict[str, int]:
        """Return category -> number of interpretable units, for one rotation and power by place."""
        counts = Counter(self.concepts[place].category for place in self._detected(rotation, power))
        names = dict.fromkeys(concept.category for concept in self.concepts)
        return {name: counts[name] for name in names}

    def unit(self, number: int, rotation: int = 0, power: int = 0) -> tuple[Concept | None, float]:
        """Return the best concept of a unit and its IoU, for one rotation and power by place."""
        place = int(self.best_concept[rotation, power, number])
        iou = float(self.best_iou[rotation, power, number])
        return (None if place < 0 else self.concepts[place]), iou

    @property
    def out_of_reach(self) -> tuple[Concept, ...]:
        """Concepts that cover too many pixels for any unit: IoU <= active share / covered share.

        A unit is active at a share 1 - quantile of its values at most, and after resizing at about
        that share of the pixels. A lower quantile makes more concepts reachable.
        """
        ceiling = (1 - self.quantile) / self.tensors["coverage"]
        ceilings = zip(self.concepts, ceiling.tolist(), strict=True)
        return tuple(concept for concept, top in ceilings if top <= self.least_iou)

    def _detected(self, rotation: int, power: int) -> list[int]:
        interpretable = self.interpretable[rotation, power]
        places: list[int] = self.best_concept[rotation, power][interpretable].tolist()
        return places

    def __repr__(self) -> str:
        rotations = len(self.iou)
        turned = f", {rotations} rotation{'s' * (rotations > 1)}" if self.powers != (0.0,) else ""
        head = (
            f"Dissection of {self.name}: {self.units} units, {self.samples} samples, "
            f"{len(self.concepts)} concepts{turned}; active above the {100 * self.quantile:g} % "
            f"quantile, interpretable if IoU > {self.least_iou:g}"
        )
        notes = [f"Note: {note}." for note in self.notes]
        lines = [head, *as_lines(self.columns()), *notes, *self._out_of_reach()]
        return printable("\n".join(lines))

    def _out_of_reach(self) -> list[str]:
        """Return a line about the concepts out of reach, with the remedy, if there are any."""
        names = [str(concept) for concept in self.out_of_reach]
        if not names:
            return []
        # below this quantile a unit can reach even the largest concept
        needed = 1 - min(self.least_iou, 1.0) * float(self.tensors["coverage"].max())
        return [
            f"Out of reach, since they cover too many pixels: {', '.join(names[:6])}"
            f"{', …' * (len(names) > 6)}. Pass a lower quantile, below "
            f"{math.floor(1000 * needed) / 1000:g}, so that units are active at more pixels."
        ]

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger: `{prefix}{power}/{column}` -> number, see `columns`."""
        columns = self.columns()
        powers = columns.pop("power")
        return {
            f"{prefix}{power:g}/{name}": value
            for name, values in columns.items()
            for power, value in zip(powers, values, strict=True)
        }

    def plot(self) -> Drawn:
        """Draw the share of interpretable units; see `sigmascope.figures.draw_dissection`."""
        from sigmascope.figures.stitching import draw_dissection

        return draw_dissection(self)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the printed table: one row per power, averaged over rotations."""
        fraction = self.fraction
        rotations, powers = range(len(fraction)), range(len(self.powers))
        table: dict[str, list[Any]] = {"power": list(self.powers)}
        table["interpretable"] = fraction.mean(axis=0).tolist()
        if len(rotations) > 1:
            table["spread"] = fraction.std(axis=0, ddof=1).tolist()
        concepts = self.unique_concepts
        table["concepts"] = [_mean_count(concepts[:, power].tolist()) for power in powers]
        table["mean best IoU"] = self.best_iou.mean(dim=(0, 2)).tolist()
        counts = [[self.categories(r, p) for r in rotations] for p in powers]
        names = list(counts[0][0])
        for name in names if len(names) > 1 else ():
            table[name] = [_mean_count([one[name] for one in row]) for row in counts]
        return table

    def save(self, path: str | Path) -> Path:
        """Write FILE.json, and the tensors to FILE.safetensors beside it, each atomically."""
        return write_paired(path, KIND, VERSION, self, {"features": self.name})

    @classmethod
    def load(cls, path: str | Path) -> Dissection:
        """Return what `save` wrote; raise a FileFormatError if it is not a dissection."""
        values = read_paired(path, KIND, VERSION, cls)
        tensors = values["tensors"]
        rotations = max(1, len(values["seeds"]))
        shape = (len(values["powers"]), values["units"], len(values["concepts"]))
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        lead = found.get("iou", (rotations,))[:1]
        wanted = {"iou": (*lead, *shape), "thresholds": (*lead, *shape[:2]), "coverage": shape[2:]}
        are_real = all(tensor.dtype in REAL for tensor in tensors.values())
        is_empty = not all((*lead, *shape))
        if (
            found != wanted
            or not are_real
            or is_empty
            or (values["seeds"] and lead != (rotations,))
        ):
            raise FileFormatError(
                f"{path}: the tensors beside it belong to another dissection. Restore them."
            )
        return cls(**values)


def _mean_count(counts: Sequence[int]) -> float | int:
    """Return a mean over rotations; of a single one, the whole number itself."""
    return counts[0] if len(counts) == 1 else float(np.mean(counts))
