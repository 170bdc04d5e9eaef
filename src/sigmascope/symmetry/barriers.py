"""The loss along the straight line between two networks, before and after aligning them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope import choices
from sigmascope.capture.guard import copied, unwrapped
from sigmascope.checks import check_choice, check_whole
from sigmascope.measure.progress import progress_bar
from sigmascope.symmetry import interpolation
from sigmascope.symmetry.aligning.align import align
from sigmascope.symmetry.aligning.result import Alignment
from sigmascope.symmetry.labeled_batches import evaluated, inputs_of, labeled_batches, labels_of
from sigmascope.symmetry.leveling import leveled
from sigmascope.symmetry.wiring.network import Wiring
from sigmascope.tables import Table, Tabular

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn


@dataclass(frozen=True)
class Curve:
    """What is measured at each point of a line.

    Attributes:
        losses: cross-entropy.
        accuracies: from 0 to 1.
        calibrated: cross-entropy with the logits divided by the temperature that is best there.
    """

    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    calibrated: tuple[float, ...]


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

    >>> import torch
    >>> from sigmascope import symmetry
    >>> _ = torch.manual_seed(0)
    >>> a = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    >>> x = torch.randn(64, 2).double()
    >>> line = symmetry.barrier(a, symmetry.move(a, seed=0), (x, (x[:, 0] > 0).long()), points=3)
    >>> abs(line.height("aligned")) < 1e-9
    True
    """

    networks: tuple[str, str]
    points: tuple[float, ...]
    curves: Mapping[str, Curve]
    correction: str
    samples: int
    alignment: Alignment = field(repr=False)

    def height(self, curve: str, *, calibrated: bool = False) -> float:
        """Return the largest loss above the chord between the ends of a curve.

        Args:
            curve: one of `curves`.
            calibrated: whether every point gets its best temperature, the ends too. Otherwise the
                loss also tells how sure the networks are: ends that are too sure of themselves lose
                more than a mean whose logits are small, even where it is wrong more often.
        """
        found = self._curve(curve)
        return float(np.max(self._above(found.calibrated if calibrated else found.losses)))

    def accuracy_loss(self, curve: str) -> float:
        """Return the largest loss of accuracy below the chord, as a share of the samples."""
        return float(np.max(-self._above(self._curve(curve).accuracies)))

    def _curve(self, name: str) -> Curve:
        check_choice("curve", name, list(self.curves))
        return self.curves[name]

    def _above(self, values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        t, y = np.asarray(self.points), np.asarray(values)
        above: np.ndarray[Any, np.dtype[np.float64]] = y - ((1 - t) * y[0] + t * y[-1])
        return above

    def _louder(self, name: str) -> bool:
        """Return whether a correction raises the barrier in loss, but not in accuracy."""
        both = name, f"{name}, corrected"
        loss, lost = ([of(one) for one in both] for of in (self.height, self.accuracy_loss))
        return loss[1] > loss[0] and lost[1] <= lost[0]

    def plot(self) -> Drawn:
        """Draw loss and accuracy along the line."""
        from sigmascope.figures import draw_barrier

        return draw_barrier(self)

    def _columns(self) -> dict[str, Sequence[Any]]:
        middle = len(self.points) // 2
        return {
            "curve": list(self.curves),
            "barrier": [self.height(name) for name in self.curves],
            "calibrated barrier": [self.height(name, calibrated=True) for name in self.curves],
            "accuracy lost": [self.accuracy_loss(name) for name in self.curves],
            "loss in the middle": [one.losses[middle] for one in self.curves.values()],
            "accuracy in the middle": [one.accuracies[middle] for one in self.curves.values()],
        }

    def _tables(self) -> list[Table]:
        count = f"{self.samples} sample{'' if self.samples == 1 else 's'}"
        title = f"Barrier between {' and '.join(self.networks)}, {count}"
        notes = [
            f"aligned by {self.alignment.by}; corrected: {WORDS[self.correction]}, "
            "channels of both ends at equal scales",
            "barrier: loss above the chord between the ends; calibrated: each point at its best "
            "temperature",
        ]
        risen = [name for name in ("naive", "aligned") if self._louder(name)]
        if risen:
            notes.append(
                f"the correction raises the loss of the {' and the '.join(risen)} line but loses "
                "no more accuracy: it makes the mean as sure of itself as the ends; read the "
                "calibrated barrier"
            )
        infinite = [name for name, one in self.curves.items() if not np.isfinite(one.losses).all()]
        if infinite:
            notes.append(f"no barrier: a loss is NaN or infinite on the line {', '.join(infinite)}")
        return [Table(self._columns(), title=title, notes=notes)]


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
    rescaled to the statistics between those of the two ends (REPAIR). Before a correction, scales
    that the activations leave free are changed in b so that its channels vary as much as those of
    a: a corrected line does not depend on how they were chosen. The loss is cross-entropy, as it is
    and, as `calibrated`, with the best temperature at each point.

    A correction can raise the barrier in loss where it lowers that in accuracy. The mean of two
    networks has small logits, which loses little even where it is often wrong; with corrected
    features it is as sure of itself as the ends are, so that each error costs more. The calibrated
    barrier leaves that out. A note says so where it happens.

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
    items = labeled_batches(batches)
    first, second = unwrapped(a), unwrapped(b)
    if alignment is None:
        inputs = [inputs_of(item) for item in items]
        alignment = align(first, second, inputs, by=by, progress=progress)
    shares = np.linspace(0, 1, points).tolist()
    ends = {"naive": second, "aligned": alignment.apply(second)}
    curves, correction = curves_to(first, ends, items, alignment.element.wiring, shares, progress)
    return Barrier(
        networks=alignment.networks,
        points=tuple(shares),
        curves=curves,
        correction=correction,
        samples=sum(len(labels_of(item)) for item in items),
        alignment=alignment,
    )


def curves_to(
    start: nn.Module,
    ends: Mapping[str, nn.Module],
    items: list[Any],
    wiring: Wiring,
    shares: Sequence[float],
    progress: bool = False,
) -> tuple[dict[str, Curve], str]:
    """Return the curves from a network to each of several, as they are and corrected, and how.

    Args:
        start: the network at share 0.
        ends: name -> network of the same architecture at share 1.
        items: batches with labels.
        wiring: of the architecture.
        shares: of the end, from 0 to 1.
        progress: see `barrier`.
    """
    evaluated(start, items[:1])  # to refuse early what has no logits or other labels
    line = _Line(copied(start), items, wiring)
    curves = {}
    steps = 2 * len(ends) * len(shares)
    with progress_bar("line between the networks", steps, shown=progress) as advance:
        for name, end in ends.items():
            line.begin(copied(end))
            for corrected, label in ((False, name), (True, f"{name}, corrected")):
                found = []
                for share in shares:
                    found.append(line.at(share, corrected=corrected))
                    advance()
                curves[label] = Curve(*map(tuple, zip(*found, strict=True)))
    return curves, line.correction


class _Line:
    """The line from a network that stays to another one."""

    def __init__(self, start: nn.Module, items: list[Any], wiring: Wiring) -> None:
        self._start, self._items, self._wiring = start, items, wiring
        self.correction = "batch norm" if interpolation.has_batch_norm(start) else "repair"
        self._layers = interpolation.layers_within(self._wiring, start)
        kinds = (*interpolation.LAYERS, _BatchNorm)
        self._seen = interpolation.layers_within(self._wiring, start, kinds)
        self._first = self._statistics(start, self._seen)

    def begin(self, end: nn.Module) -> None:
        """Choose the other end."""
        self._end = end
        own = self._statistics(end, self._seen)
        self._level = leveled(end, self._wiring, own, self._first)
        self._second: interpolation.Statistics = {}
        if self.correction == "repair":
            same = self._level is end
            self._second = own if same else self._statistics(self._level, self._layers)

    def at(self, share: float, *, corrected: bool) -> tuple[float, float, float]:
        """Return loss, accuracy and calibrated loss at a point."""
        ends = [self._start, self._level if corrected else self._end]
        network = interpolation.mean_network(ends, [1 - share, share])
        with self._corrected(network, share) if corrected else _nothing():
            return evaluated(network, self._items)

    @contextmanager
    def _corrected(self, network: nn.Module, share: float) -> Iterator[None]:
        inputs = [inputs_of(item) for item in self._items]
        if self.correction == "batch norm":
            interpolation.reset_batch_norm(network, inputs)
            yield
        else:
            first = {path: self._first[path] for path in self._layers}
            target = interpolation.between(first, self._second, share)
            with interpolation.repaired(network, inputs, self._layers, target):
                yield

    def _statistics(
        self, network: nn.Module, layers: Mapping[str, int]
    ) -> interpolation.Statistics:
        return interpolation.statistics_of(network, map(inputs_of, self._items), layers)


@contextmanager
def _nothing() -> Iterator[None]:
    yield
