"""The result of stitching: the accuracy it costs, and the stitch itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sigmascope.errors import FileFormatError, InputError, printable
from sigmascope.stitching.assembly import StitchedNetwork, assemble
from sigmascope.stitching.families import FAMILIES, sparsity
from sigmascope.stitching.settings import Settings
from sigmascope.stitching.trainer import Epoch, set_buffers
from sigmascope.store import read_paired, record_of, write_paired
from sigmascope.symmetry.monomial import Monomial
from sigmascope.tables import Preformatted

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

KIND, VERSION = "stitch", 1
REAL = (torch.float32, torch.float64)
SMALLEST = 1e-6
"""The smallest scale of an exported element; a scale of 0 is outside the group."""


@dataclass(frozen=True, repr=False, eq=False)
class StitchResult(Preformatted):
    """The front of one network stitched to the back of another.

    Attributes:
        networks: the names of the front and the back.
        site: where they are stitched.
        inner: whether values bypass the site, as inside a residual block; no stitch changes these.
        family: of the stitch.
        channels: of the site.
        style: "conv" or "linear".
        front_accuracy: of the front network on the test data, in percent.
        back_accuracy: of the back network.
        stitched_accuracy: of the stitched network at its best epoch; NaN, with a note, if training
            diverged in the first epoch.
        chosen_accuracy: on the samples on which that epoch was selected.
        best_epoch: its number, from 1; 0 for a stitch that is not trained.
        history: the epochs.
        settings: how it was trained.
        samples: the numbers of samples trained on, selected on and tested on.
        augment: how the training data were augmented.
        seed: of all random numbers.
        notes: what a reader should know.
        versions: of the packages that matter.
        tensors: "matrix" (c, c), and the running statistics of the evaluated network as "front/…"
            and "back/…".
        adapted_accuracies: of the front and the back after the pass that gave the batch norms of
            the stitched network new statistics; as they are if there was none. Empty in files of
            earlier versions.

    >>> import torch
    >>> import sigmascope as sg
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> found = sg.stitch(net, net, (samples, samples), site="1", family="identity")
    >>> found.penalty, found.family, found.channels, found.matrix.shape
    (0.0, 'identity', 4, torch.Size([4, 4]))
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
    adapted_accuracies: tuple[float, ...] = field(default=(), metadata={"later": True})

    @property
    def penalty(self) -> float:
        """Mean accuracy of the two networks minus that of the stitched one, in points."""
        return (self.front_accuracy + self.back_accuracy) / 2 - self.stitched_accuracy

    @property
    def adapted_penalty(self) -> float:
        """The penalty against both networks with their batch norms adapted alike, in points.

        It is what the stitch costs without what new statistics cost a network by themselves.
        """
        if not self.adapted_accuracies:
            return math.nan
        return sum(self.adapted_accuracies) / 2 - self.stitched_accuracy

    @property
    def has_diverged(self) -> bool:
        """Whether training diverged before there was a stitch to evaluate; see `notes`."""
        return math.isnan(self.stitched_accuracy)

    @property
    def matrix(self) -> Tensor:
        """(c, c), float64: the stitch as evaluated; it acts on columns. NaN if diverged."""
        return self.tensors["matrix"]

    @property
    def sparsity(self) -> float:
        """Share of entries of the matrix with absolute value <= 0.001; NaN if diverged."""
        return math.nan if self.has_diverged else sparsity(self.matrix)

    @property
    def element(self) -> Monomial | None:
        """The stitch as a permutation and scales, at least 1e-6; None if it is not one."""
        is_one = FAMILIES[self.family].monomial and not self.has_diverged
        return element_of(self.matrix) if is_one else None

    def network(self, front: nn.Module, back: nn.Module, inputs: Tensor) -> StitchedNetwork:
        """Return the network that was evaluated, with its running statistics.

        Args:
            front: the front network.
            back: the back network.
            inputs: a few inputs of both.

        Raises:
            InputError: training diverged.
        """
        if self.has_diverged:
            why = "; ".join(self.notes)
            raise InputError(f"there is no stitched network: {why}. Stitch with a lower rate.")
        built = assemble(
            front, back, inputs=inputs, site=self.site, stitch=self.matrix, style=self.style
        )
        for name, half in (("front/", built.front), ("back/", built.back)):
            own = [key for key in self.tensors if key.startswith(name)]
            set_buffers(half, {key.removeprefix(name): self.tensors[key] for key in own})
        return built

    def __repr__(self) -> str:
        star = " (inside a block*)" if self.inner else ""
        options = "".join(f", {name}={getattr(self.settings, name)}" for name in self._told())
        sparse = "" if self.has_diverged else f"sparsity {self.sparsity:.4f}; "
        front, back, stitched = self.front_accuracy, self.back_accuracy, self.stitched_accuracy
        lines = [
            f"{self.networks[0]} stitched to {self.networks[1]} at {self.site}{star}: "
            f"{self.family}{options}, {self.channels} channels",
            f"penalty {_percent(self.penalty)} points: stitched {_percent(stitched)} %, the two "
            f"networks {front:.2f} % and {back:.2f} % (mean {(front + back) / 2:.2f} %)",
            *self._adapted(),
            f"{sparse}{self._training()}; {self.samples[2]} test samples",
        ]
        return printable("\n".join([*lines, *(f"Note: {note}." for note in self.notes)]))

    def _adapted(self) -> list[str]:
        """Return a line about the networks with adapted batch norms, if these differ."""
        found = self.adapted_accuracies
        if not found or found == (self.front_accuracy, self.back_accuracy):
            return []
        front, back = map(_percent, found)
        return [
            f"penalty {_percent(self.adapted_penalty)} points against both networks with batch "
            f"norms adapted as those of the stitched one: {front} % and {back} %"
        ]

    def _told(self) -> list[str]:
        """Return the settings of the family to show: the first, and those that are not defaults."""
        options, usual, own = FAMILIES[self.family].options, Settings(), self.settings
        changed = [name for name in options if getattr(own, name) != getattr(usual, name)]
        return [name for name in options if name == options[0] or name in changed]

    def _training(self) -> str:
        batch = f"batch {self.settings.batch}"
        if not FAMILIES[self.family].is_trained:
            return "not trained"
        if self.has_diverged:
            return f"no stitch, since training diverged; {batch}"
        data = "held-out" if self.settings.select_on == "validation" else "test"
        return (
            f"best epoch {self.best_epoch} of {len(self.history)} "
            f"({_percent(self.chosen_accuracy)} % on {data} data), {batch}"
        )

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger: `{prefix}{name}` -> number."""
        names = (
            "penalty",
            "adapted_penalty",
            "stitched_accuracy",
            "front_accuracy",
            "back_accuracy",
        )
        more = ("chosen_accuracy", "best_epoch", "sparsity")
        return {f"{prefix}{name}": getattr(self, name) for name in (*names, *more)}

    def plot(self) -> Drawn:
        """Draw accuracy by epoch; see `sigmascope.figures.draw_stitch`."""
        from sigmascope.figures.stitching import draw_stitch

        return draw_stitch(self)

    def save(self, path: str | Path) -> Path:
        """Write FILE.json, and the tensors to FILE.safetensors beside it, each atomically."""
        return write_paired(path, KIND, VERSION, self, {"site": self.site, "family": self.family})

    def record(self) -> dict[str, object]:
        """Return everything but the tensors as plain values, None standing for NaN."""
        return record_of(self)

    @classmethod
    def load(cls, path: str | Path) -> StitchResult:
        """Return what `save` wrote; raise a FileFormatError if it is not a stitch file."""
        values = read_paired(path, KIND, VERSION, cls)
        tensors, size = values["tensors"], values["channels"]
        shape = tuple(tensors["matrix"].shape) if "matrix" in tensors else ()
        is_real = "matrix" in tensors and tensors["matrix"].dtype in REAL
        if shape != (size, size) or not is_real or values["family"] not in FAMILIES:
            raise FileFormatError(
                f"{path}: the tensors beside it belong to another stitch. Restore them."
            )
        if math.isnan(values["stitched_accuracy"]):  # files of earlier versions hold zeros
            tensors["matrix"] = no_matrix(size)
        return cls(**values)


def no_matrix(channels: int) -> Tensor:
    """Return (c, c) of NaN, float64: the matrix of a training without a stitch."""
    return torch.full((channels, channels), math.nan, dtype=torch.float64)


def element_of(matrix: Tensor) -> Monomial:
    """Return the permutation and scales of a matrix with <= 1 positive entry per row and column.

    Rows and columns without one, whose scale is 0, are matched in order and get `SMALLEST`.

    >>> element_of(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    Monomial(permutation=[1, 0], scales=[2, 1e-06])
    """
    order = torch.full((len(matrix),), -1)
    scales = torch.full((len(matrix),), SMALLEST, dtype=torch.float64)
    rows, columns = (matrix > 0).nonzero(as_tuple=True)
    order[rows] = columns
    scales[columns] = matrix[rows, columns].double().clamp_min(SMALLEST)
    free = sorted(set(range(len(matrix))) - set(columns.tolist()))
    order[order < 0] = torch.tensor(free, dtype=order.dtype)
    return Monomial(order, scales)


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


@dataclass(frozen=True, repr=False)
class CrossValidation(Preformatted):
    """Relu-group stitches that differ in α; see `Stitcher.cross_validate`.

    `results` has one stitch per α, all trained on the same part of the training data.

    >>> import torch
    >>> from sigmascope import stitching
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> options = {"site": "1", "alphas": (0.1, 1.0), "preset": "fast", "epochs": 1}
    >>> found = stitching.cross_validate(net, net, (samples, samples), **options)
    >>> found.alphas, found.alpha in found.alphas, found.chosen.family
    ((0.1, 1.0), True, 'relu-group')
    """

    alphas: tuple[float, ...]
    results: tuple[StitchResult, ...]

    @property
    def chosen(self) -> StitchResult:
        """The stitch with the best accuracy on held-out data; an InputError if all diverged."""
        return self.results[self._place()]

    @property
    def alpha(self) -> float:
        """The chosen α."""
        return self.alphas[self._place()]

    def _place(self) -> int:
        accuracies = [result.chosen_accuracy for result in self.results]
        finite = [place for place, value in enumerate(accuracies) if not math.isnan(value)]
        if not finite:
            tried = ", ".join(f"{alpha:g}" for alpha in self.alphas)
            raise InputError(f"training diverged for every α ({tried}). Pass a lower rate.")
        return max(finite, key=accuracies.__getitem__)

    def __repr__(self) -> str:
        lines = []
        for alpha, result in zip(self.alphas, self.results, strict=True):
            told, held_out = "diverged", result.chosen_accuracy
            if not math.isnan(held_out):
                told = f"{held_out:.2f} % held out, penalty {result.penalty:.2f}"
                told += " ←" * (result is self.chosen)
            lines.append(f"α = {alpha:g}: {told}")
        return "\n".join(lines)

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger: `{prefix}{α}/{name}` -> number."""
        return {
            name: value
            for alpha, result in zip(self.alphas, self.results, strict=True)
            for name, value in result.to_dict(f"{prefix}{alpha:g}/").items()
        }

    def plot(self) -> Drawn:
        """Draw accuracy against α; see `sigmascope.figures.draw_cross_validation`."""
        from sigmascope.figures.stitching import draw_cross_validation

        return draw_cross_validation(self)
