"""What the units of a layer detect, in its own basis and in rotated ones."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from sigmascope.dissection.masks import Concept
from sigmascope.errors import FileFormatError
from sigmascope.store import read_paired, write_paired
from sigmascope.tables import as_lines

__all__ = ["Dissection"]

KIND, VERSION = "dissection", 1
Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, repr=False, eq=False)
class Dissection:
    """Units as detectors of concepts, for r rotations, p powers of each, c units and k concepts.

    Attributes:
        name: of the features.
        samples: how many images there were.
        units: c.
        concepts: k of them.
        about: what the masks are.
        size: (h, w) of the masks, to which the feature maps are resized.
        quantile: of all values of a unit, above which it is active.
        least_iou: a unit is interpretable if its best IoU is larger.
        powers: of the rotations; 0 is the layer's own basis.
        seeds: of the rotations, where they were drawn; empty where they were given, or none was.
        notes: what a reader should know.
        versions: of the packages that matter.
        tensors: "iou" (r, p, c, k), NaN where neither unit nor concept has a pixel; "thresholds"
            (r, p, c); "coverage" (k,), the share of all pixels that each concept has.
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
        """(r, p, c), float64: above which value a unit is active."""
        return self.tensors["thresholds"]

    @property
    def best_iou(self) -> Tensor:
        """(r, p, c): the largest IoU of each unit; 0 where it meets no concept."""
        return self.iou.nan_to_num(0.0).amax(dim=-1)

    @property
    def best_concept(self) -> Tensor:
        """(r, p, c): the place in `concepts` of the best one of each unit, the first of equals; -1
        where it meets none.
        """
        filled = self.iou.nan_to_num(0.0)
        return filled.argmax(dim=-1).where(filled.amax(dim=-1) > 0, -1)

    @property
    def interpretable(self) -> Tensor:
        """(r, p, c), booleans: whether the best IoU of a unit exceeds `least_iou`."""
        return self.best_iou > self.least_iou

    @property
    def fraction(self) -> Values:
        """(r, p): the share of units that are interpretable."""
        found: Values = self.interpretable.double().mean(dim=-1).numpy()
        return found

    @property
    def unique_concepts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """(r, p): how many different concepts interpretable units detect."""
        rotations, powers = self.fraction.shape
        counts = [[len(set(self._detected(r, p))) for p in range(powers)] for r in range(rotations)]
        return np.array(counts, dtype=np.int64)

    def categories(self, rotation: int = 0, power: int = 0) -> dict[str, int]:
        """Return how many interpretable units there are by the category of their concept, for one
        basis by its places.
        """
        counts = Counter(self.concepts[place].category for place in self._detected(rotation, power))
        return {
            name: counts[name]
            for name in dict.fromkeys(concept.category for concept in self.concepts)
        }

    def unit(self, number: int, rotation: int = 0, power: int = 0) -> tuple[Concept | None, float]:
        """Return the best concept of a unit and its IoU, for one basis by its places."""
        place = int(self.best_concept[rotation, power, number])
        return (None if place < 0 else self.concepts[place]), float(
            self.best_iou[rotation, power, number]
        )

    @property
    def out_of_reach(self) -> tuple[Concept, ...]:
        """Concepts that no unit can be expected to detect, because they cover too much: IoU ≤
        (active share) / (covered share).

        A unit is active at a share 1 - quantile of its values at most, and after resizing at about
        that share of the pixels.
        """
        ceiling = (1 - self.quantile) / self.tensors["coverage"]
        return tuple(
            one
            for one, top in zip(self.concepts, ceiling.tolist(), strict=True)
            if top <= self.least_iou
        )

    def _detected(self, rotation: int, power: int) -> list[int]:
        chosen: list[int] = self.best_concept[rotation, power][
            self.interpretable[rotation, power]
        ].tolist()
        return chosen

    def __repr__(self) -> str:
        rotations = len(self.iou)
        turned = f", {rotations} rotation{'s' * (rotations > 1)}" if self.powers != (0.0,) else ""
        head = (
            f"Dissection of {self.name}: {self.units} units, {self.samples} samples, "
            f"{len(self.concepts)} concepts{turned}; "
            f"active above the {100 * self.quantile:g} % quantile, interpretable if IoU > "
            f"{self.least_iou:g}"
        )
        notes = [f"Note: {note}." for note in self.notes]
        reach = [str(one) for one in self.out_of_reach]
        if reach:
            more = ", …" * (len(reach) > 6)
            notes.append(
                f"Out of reach, since they cover too many pixels: {', '.join(reach[:6])}{more}."
            )
        return "\n".join([head, *as_lines(self.columns()), *notes])

    def columns(self) -> dict[str, list[Any]]:
        """Return the table that is printed: one row for each power, averaged over the rotations."""
        fraction = self.fraction
        spread = (
            fraction.std(axis=0, ddof=1).tolist()
            if len(fraction) > 1
            else [math.nan] * len(self.powers)
        )
        counts = [
            [self.categories(r, p) for r in range(len(fraction))] for p in range(len(self.powers))
        ]
        table: dict[str, list[Any]] = {
            "power": list(self.powers),
            "interpretable": fraction.mean(axis=0).tolist(),
        }
        table |= {"spread": spread} if len(fraction) > 1 else {}
        table["concepts"] = self.unique_concepts.mean(axis=0).tolist()
        table["mean best IoU"] = self.best_iou.mean(dim=(0, 2)).tolist()
        names = list(counts[0][0])
        if len(names) > 1:
            table |= {
                name: [float(np.mean([one[name] for one in row])) for row in counts]
                for name in names
            }
        return table

    def save(self, path: str | Path) -> Path:
        """Write FILE.json, and the tensors to FILE.safetensors beside it; each replaces an older
        one at once or not at all.

        Raises:
            InputError: the name does not end in .json.
        """
        return write_paired(path, KIND, VERSION, self, {"features": self.name})

    @classmethod
    def load(cls, path: str | Path) -> Dissection:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: one of the two files is missing.
            FileFormatError: truncated, foreign, newer than this version, or hostile.
        """
        values = read_paired(path, KIND, VERSION, cls)
        tensors = values["tensors"]
        rotations = max(1, len(values["seeds"]))
        shape = (len(values["powers"]), values["units"], len(values["concepts"]))
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        lead = found.get("iou", (rotations,))[:1]
        wanted = {"iou": (*lead, *shape), "thresholds": (*lead, *shape[:2]), "coverage": shape[2:]}
        if found != wanted or (values["seeds"] and lead != (rotations,)):
            raise FileFormatError(
                f"{path}: the tensors beside it are of another dissection. Restore a copy or "
                "write it again."
            )
        return cls(**values)
