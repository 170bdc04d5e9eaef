"""What stitching gives: how much accuracy it costs, and the stitch itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from sigmascope.errors import FileFormatError, InputError
from sigmascope.stitching.assembly import StitchedNetwork, assemble
from sigmascope.stitching.families import FAMILIES, sparsity
from sigmascope.stitching.seam import Epoch, put_buffers
from sigmascope.stitching.settings import Settings
from sigmascope.store import read_paired, record_of, write_paired
from sigmascope.symmetry.monomial import Monomial

__all__ = ["SMALLEST", "StitchResult", "element_of", "no_matrix"]

KIND, VERSION = "stitch", 1
SMALLEST = 1e-6
"""Of the scales of an exported element: one that is 0 has left the group."""


@dataclass(frozen=True, repr=False, eq=False)
class StitchResult:
    """The front of one network stitched to the back of another.

    Attributes:
        networks: the names of the front and the back.
        site: where they are stitched.
        inner: whether values go past the site, as inside a residual block; no stitch can repair
            these.
        family: of the stitch.
        channels: of the site.
        style: "conv" or "linear".
        front_accuracy: of the front's network on the test data, in percent.
        back_accuracy: of the back's.
        stitched_accuracy: of the stitched network, at its best epoch; NaN with a note if training
            diverged in the first.
        chosen_accuracy: on the data by which that epoch was chosen.
        best_epoch: its number, from 1; 0 for a stitch that is not trained.
        history: the epochs.
        settings: how it was trained.
        samples: how many were trained on, chosen by, and tested on.
        augment: how the training data were augmented.
        seed: of everything drawn.
        notes: what a reader should know.
        versions: of the packages that matter.
        tensors: "matrix" (c, c), and the running statistics of the evaluated network as "front/…"
            and "back/…".
    """

    networks: tuple[str, str]
    site: str
    inner: bool
    family: str
    channels: int
    style: str
    front_accuracy: float
    back_accuracy: float
    stitched_accuracy: float
    chosen_accuracy: float
    best_epoch: int
    history: tuple[Epoch, ...]
    settings: Settings
    samples: tuple[int, int, int]
    augment: str
    seed: int
    notes: tuple[str, ...]
    versions: dict[str, str]
    tensors: dict[str, Tensor]

    @property
    def penalty(self) -> float:
        """The mean accuracy of the two networks minus that of the stitched one, in percentage points."""
        return (self.front_accuracy + self.back_accuracy) / 2 - self.stitched_accuracy

    @property
    def has_diverged(self) -> bool:
        """Whether training diverged before there was a stitch to evaluate; `notes` say why."""
        return math.isnan(self.stitched_accuracy)

    @property
    def matrix(self) -> Tensor:
        """(c, c), float64: the stitch as it was evaluated; it acts on columns of channels. NaN if
        there is none.
        """
        return self.tensors["matrix"]

    @property
    def sparsity(self) -> float:
        """The share of entries of the matrix that are at most 0.001 in absolute value; NaN if there
        is none.
        """
        return math.nan if self.has_diverged else sparsity(self.matrix)

    @property
    def element(self) -> Monomial | None:
        """The stitch as a permutation and scales, those that are 0 raised to 1e-6; None for other
        matrices, or without one.
        """
        return (
            element_of(self.matrix)
            if FAMILIES[self.family].monomial and not self.has_diverged
            else None
        )

    def network(self, front: nn.Module, back: nn.Module, inputs: Tensor) -> StitchedNetwork:
        """Build the network that was evaluated, with the running statistics that belong to it.

        Args:
            front: the network that was the front.
            back: the one that was the back.
            inputs: a few inputs that both take.

        Raises:
            InputError: training diverged, so that there is none.
        """
        if self.has_diverged:
            raise InputError(
                f"there is no stitched network: {'; '.join(self.notes)}. Stitch again with a "
                "lower rate."
            )
        built = assemble(
            front, back, at=self.site, inputs=inputs, stitch=self.matrix, style=self.style
        )
        for name, part in (("front", built.front), ("back", built.back)):
            put_buffers(
                part,
                {
                    key.removeprefix(f"{name}/"): one
                    for key, one in self.tensors.items()
                    if key.startswith(name)
                },
            )
        return built

    def __repr__(self) -> str:
        star = " (inside a block*)" if self.inner else ""
        options = "".join(f", {name}={getattr(self.settings, name)}" for name in self._told())
        mean = (self.front_accuracy + self.back_accuracy) / 2
        sparse = "" if self.has_diverged else f"sparsity {self.sparsity:.4f}; "
        lines = [
            f"{self.networks[0]} stitched to {self.networks[1]} at {self.site}{star}: "
            f"{self.family}{options}, "
            f"{self.channels} channels",
            f"penalty {_percent(self.penalty)} points: stitched "
            f"{_percent(self.stitched_accuracy)} %, the two networks "
            f"{_percent(self.front_accuracy)} % and {_percent(self.back_accuracy)} % (mean "
            f"{_percent(mean)} %)",
            f"{sparse}{self._training()}; {self.samples[2]} test samples",
        ]
        return "\n".join([*lines, *(f"Note: {note}." for note in self.notes)])

    def _told(self) -> list[str]:
        """Return the settings of the family that are worth a word: the first, and those that are
        not the usual ones.
        """
        options, usual = FAMILIES[self.family].options, Settings()
        return [
            name
            for name in options
            if name == options[0] or getattr(self.settings, name) != getattr(usual, name)
        ]

    def _training(self) -> str:
        if not FAMILIES[self.family].is_trained:
            return "not trained"
        if self.has_diverged:
            return f"no stitch, since training diverged; batch {self.settings.batch}"
        chosen = (
            f"{_percent(self.chosen_accuracy)} % on "
            f"{'held-out' if self.settings.select_on == 'validation' else 'test'} data"
        )
        return (
            f"best epoch {self.best_epoch} of {len(self.history)} ({chosen}), batch "
            f"{self.settings.batch}"
        )

    def save(self, path: str | Path) -> Path:
        """Write FILE.json, and the tensors to FILE.safetensors beside it; each replaces an older
        one at once or not at all.

        Raises:
            InputError: the name does not end in .json.
        """
        return write_paired(path, KIND, VERSION, self, {"site": self.site, "family": self.family})

    def record(self) -> dict[str, object]:
        """Return everything but the tensors as plain values, None standing for NaN."""
        return record_of(self)

    @classmethod
    def load(cls, path: str | Path) -> StitchResult:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: one of the two files is missing.
            FileFormatError: truncated, foreign, newer than this version, or hostile.
        """
        values = read_paired(path, KIND, VERSION, cls)
        tensors = values["tensors"]
        size = values["channels"]
        if (
            "matrix" not in tensors
            or tuple(tensors["matrix"].shape) != (size, size)
            or values["family"] not in FAMILIES
        ):
            raise FileFormatError(
                f"{path}: the tensors beside it are of another stitch. Restore a copy or "
                "write it again."
            )
        if math.isnan(values["stitched_accuracy"]):  # files of earlier versions hold zeros
            tensors["matrix"] = no_matrix(size)
        return cls(**values)


def no_matrix(channels: int) -> Tensor:
    """Return (c, c) of NaN, float64, where training gave no stitch."""
    return torch.full((channels, channels), math.nan, dtype=torch.float64)


def element_of(matrix: Tensor) -> Monomial:
    """Read a permutation and scales off a matrix with at most one positive entry in each row and
    column.

    Rows and columns without one, whose scale is 0, are matched in order and get the smallest scale.

    >>> element_of(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    Monomial(permutation=[1, 0], scales=[2, 1e-06])
    """
    order, scales = (
        torch.full((len(matrix),), -1),
        torch.full((len(matrix),), SMALLEST, dtype=torch.float64),
    )
    rows, columns = (matrix > 0).nonzero(as_tuple=True)
    order[rows] = columns
    scales[columns] = matrix[rows, columns].double().clamp_min(SMALLEST)
    free = sorted(set(range(len(matrix))) - set(columns.tolist()))
    order[order < 0] = torch.tensor(free, dtype=order.dtype)
    return Monomial(order, scales)


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"
