"""The loss along the straight line between two networks, before and after aligning them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope import choices
from sigmascope.capture.guard import copied, preserve_state, unwrapped
from sigmascope.capture.nested import tensors_in
from sigmascope.checks import check_whole
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.batches import LABELS
from sigmascope.measure.progress import progress_bar
from sigmascope.symmetry import interpolation
from sigmascope.symmetry.aligning.align import align
from sigmascope.symmetry.aligning.result import Alignment
from sigmascope.tables import Table, Tabular

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn


@dataclass(frozen=True)
class Curve:
    """Loss and accuracy (0 to 1) at each point of a line."""

    losses: tuple[float, ...]
    accuracies: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Barrier(Tabular):
    """Loss and accuracy along the line between two networks; see `sigmascope.symmetry.barrier`.

    Attributes:
        networks: the names of the two networks.
        points: the share of the second network, from 0 to 1.
        curves: "naive", "naive, corrected", "aligned" and "aligned, corrected" -> the curve.
        correction: "batch norm" or "repair".
        samples: number of inputs.
        alignment: by which the second network was aligned.
    """

    networks: tuple[str, str]
    points: tuple[float, ...]
    curves: Mapping[str, Curve]
    correction: str
    samples: int
    alignment: Alignment = field(repr=False)

    def height(self, curve: str) -> float:
        """Return the largest loss above the chord between the ends of a curve."""
        return float(np.max(self._above(self.curves[curve].losses)))

    def accuracy_loss(self, curve: str) -> float:
        """Return the largest loss of accuracy below the chord, as a share of the samples."""
        return float(np.max(-self._above(self.curves[curve].accuracies)))

    def _above(self, values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        t, y = np.asarray(self.points), np.asarray(values)
        above: np.ndarray[Any, np.dtype[np.float64]] = y - ((1 - t) * y[0] + t * y[-1])
        return above

    def plot(self) -> Drawn:
        """Draw loss and accuracy along the line."""
        from sigmascope.figures import draw_barrier

        return draw_barrier(self)

    def _columns(self) -> dict[str, Sequence[Any]]:
        middle = len(self.points) // 2
        return {
            "curve": list(self.curves),
            "barrier": [self.height(name) for name in self.curves],
            "accuracy lost": [self.accuracy_loss(name) for name in self.curves],
            "loss in the middle": [one.losses[middle] for one in self.curves.values()],
            "accuracy in the middle": [one.accuracies[middle] for one in self.curves.values()],
        }

    def _tables(self) -> list[Table]:
        title = f"Barrier between {' and '.join(self.networks)}, {self.samples} samples"
        note = f"aligned by {self.alignment.by}; corrected: {WORDS[self.correction]}"
        return [Table(self._columns(), title=title, notes=[note])]


WORDS = {
    "batch norm": "statistics of batch norm taken again at each point",
    "repair": "channels of each layer rescaled to the statistics between both ends (REPAIR)",
}


def barrier(
    a: nn.Module,
    b: nn.Module,
    batches: Any,
    *,
    by: choices.Matching = "weights",
    alignment: Alignment | None = None,
    points: int = 11,
    progress: bool = True,
) -> Barrier:
    r"""Return loss and accuracy along the line between two networks, before and after aligning.

    At share t the parameters are $(1 - t)\,\theta_a + t\,\theta_b$. The mean of two networks has
    features that vary too little. Each line is evaluated as it is and corrected: statistics of
    batch norm are taken again on the batches, and in networks without batch norm every channel is
    rescaled to the statistics between those of the two ends (REPAIR). The loss is cross-entropy.

    Frankle et al., 2019, arXiv:1912.05671; Jordan et al., 2022, arXiv:2211.08403.

    Args:
        a: a network that returns logits (n, classes).
        b: another one of the same architecture.
        batches: a loader or list of batches (inputs, labels), or one; read several times.
        by: how to align; see `sigmascope.symmetry.align`.
        alignment: of b to a, if it is known already.
        points: number of points on the line, both ends included.
        progress: whether to show a progress bar, on a terminal.

    Raises:
        InputError: no labels, or some beyond the classes; no batches, or an iterator that can be
            read once only.
        OptionError: fewer than 3 points.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> a, b = (nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(2))
    >>> x = torch.randn(64, 2)
    >>> line = barrier(a, b, (x, (x[:, 0] > 0).long()), points=3)
    >>> line.points, list(line.curves)
    ((0.0, 0.5, 1.0), ['naive', 'naive, corrected', 'aligned', 'aligned, corrected'])
    """
    check_whole("points", points, 3)
    items = _items(batches)
    first, second = unwrapped(a), unwrapped(b)
    if alignment is None:
        inputs = [_inputs(item) for item in items] if by == "activations" else None
        alignment = align(first, second, inputs, by=by, progress=progress)
    ends = {"naive": second, "aligned": alignment.apply(second)}
    shares = np.linspace(0, 1, points).tolist()
    line = _Line(copied(first), items, alignment)
    curves = {}
    with progress_bar("line between the networks", 4 * points, shown=progress) as advance:
        for name, end in ends.items():
            line.begin(copied(end))
            for corrected, label in ((False, name), (True, f"{name}, corrected")):
                found = []
                for share in shares:
                    found.append(line.at(share, corrected=corrected))
                    advance()
                curves[label] = Curve(*map(tuple, zip(*found, strict=True)))
    return Barrier(
        networks=alignment.networks,
        points=tuple(shares),
        curves=curves,
        correction=line.correction,
        samples=sum(len(_labels(item)) for item in items),
        alignment=alignment,
    )


class _Line:
    """The line from a network that stays to another one."""

    def __init__(self, start: nn.Module, items: list[Any], alignment: Alignment) -> None:
        self._start, self._items = start, items
        self.correction = "batch norm" if interpolation.has_batch_norm(start) else "repair"
        self._layers = interpolation.layers_within(alignment.element.wiring, start)
        self._first: interpolation.Statistics = {}
        if self.correction == "repair":
            self._first = self._statistics(start)

    def begin(self, end: nn.Module) -> None:
        """Choose the other end."""
        self._end = end
        self._second = self._statistics(end) if self.correction == "repair" else {}

    def at(self, share: float, *, corrected: bool) -> tuple[float, float]:
        """Return loss and accuracy at a point."""
        network = interpolation.mean_network([self._start, self._end], [1 - share, share])
        with self._corrected(network, share) if corrected else _nothing():
            return _evaluated(network, self._items)

    @contextmanager
    def _corrected(self, network: nn.Module, share: float) -> Iterator[None]:
        inputs = [_inputs(item) for item in self._items]
        if self.correction == "batch norm":
            interpolation.reset_batch_norm(network, inputs)
            yield
        else:
            target = interpolation.between(self._first, self._second, share)
            with interpolation.repaired(network, inputs, self._layers, target):
                yield

    def _statistics(self, network: nn.Module) -> interpolation.Statistics:
        return interpolation.statistics_of(network, map(_inputs, self._items), self._layers)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _items(batches: Any) -> list[Any]:
    items = list(interpolation.read_again(batches))
    if not items:
        raise InputError("batches is empty. Pass a loader or a list with at least one batch.")
    for item in items:
        _labels(item)
    return items


def _labels(item: Any) -> Tensor:
    """Return the labels (n,) of a batch."""
    found = None
    if isinstance(item, Mapping):
        found = next((item[name] for name in LABELS if name in item), None)
    elif isinstance(item, (tuple, list)) and len(item) > 1:
        found = item[1]
    if not isinstance(found, Tensor) or found.ndim != 1 or found.is_floating_point():
        raise InputTypeError(
            "a batch has no labels. Yield pairs (inputs, labels), with labels (n,) of whole "
            "numbers."
        )
    return found


def _inputs(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {name: value for name, value in item.items() if name not in LABELS}
    return item[0]


def _evaluated(network: nn.Module, items: list[Any]) -> tuple[float, float]:
    """Return mean cross-entropy and accuracy."""
    loss, right, count = 0.0, 0, 0
    with preserve_state(network, mode="eval"):
        for item in items:
            logits = next(iter(tensors_in(interpolation.forward(network, _inputs(item)))))
            labels = _labels(item).to(logits.device)
            if logits.ndim != 2 or len(logits) != len(labels):
                raise InputError(
                    f"the network must return logits ({len(labels)}, classes), got "
                    f"{tuple(logits.shape)}."
                )
            classes = logits.shape[1]
            if bool(((labels < 0) | (labels >= classes)).any()):
                low, high = int(labels.min()), int(labels.max())
                raise InputError(
                    f"labels must be from 0 to {classes - 1}, as the network returns logits of "
                    f"{classes} classes, got labels from {low} to {high}."
                )
            loss += float(F.cross_entropy(logits.double(), labels, reduction="sum"))
            right += int((logits.argmax(dim=1) == labels).sum())
            count += len(labels)
    return loss / count, right / count
