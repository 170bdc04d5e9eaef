"""What a whole linearization comes to: the plan, the curve, the tuning, the fold and the test."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from torch import nn

from sigmascope.errors import FileFormatError
from sigmascope.linearize.folding.result import Cost
from sigmascope.linearize.judging import Judgment
from sigmascope.linearize.result import Plan
from sigmascope.linearize.tuned import TunedEpoch, TuneSettings
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.tables import Table, Tabular, shortened

if TYPE_CHECKING:
    from sigmascope.figures import Drawn

KIND, VERSION = "linearization", 1
FILE, PLAN = "linearization.json", "plan.json"


@dataclass(frozen=True)
class CurvePoint:
    """A network with some activations replaced.

    Attributes:
        replaced: how many.
        left: activation calls that are left.
        elements: activation elements that are left, for one sample.
        epochs: of tuning; 0 for none.
        held_out: how good it is on the held-out data.

    >>> import torch
    >>> from sigmascope import linearize
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(256, 2), torch.arange(256) % 2
    >>> data = linearize.Split(samples, samples, samples)
    >>> found = linearize.fit(network, data, budget=1, epochs=0)
    >>> [(point.replaced, point.left, point.elements) for point in found.points]
    [(0, 1, 8), (1, 0, 0)]
    """

    replaced: int
    left: int
    elements: int
    epochs: int
    held_out: Judgment


@dataclass(frozen=True)
class Tuning:
    """The epochs of one tuning, of a network with so many activations replaced.

    >>> import torch
    >>> from sigmascope import linearize
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(256, 2), torch.arange(256) % 2
    >>> data = linearize.Split(samples, samples, samples)
    >>> found = linearize.fit(network, data, budget=1, epochs=2)
    >>> [(tuning.replaced, len(tuning.history)) for tuning in found.tunings]
    [(1, 2)]
    """

    replaced: int
    history: tuple[TunedEpoch, ...]


@dataclass(frozen=True)
class Folding:
    """What `sigmascope.linearize.fold` did, in words and numbers; see `Folded`.

    >>> import torch
    >>> from sigmascope import linearize
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(256, 2), torch.arange(256) % 2
    >>> data = linearize.Split(samples, samples, samples)
    >>> linearize.fit(network, data, budget=1, epochs=0).folding.steps
    ('0 + 1 + 2 → one linear layer, 2 to 2',)
    """

    steps: tuple[str, ...]
    refused: tuple[str, ...]
    merges: tuple[str, ...]
    before: Cost
    after: Cost


@dataclass(frozen=True)
class Sizes:
    """Numbers of samples: to tune on, to select and calibrate on, and to test on."""

    train: int
    held_out: int
    test: int


@dataclass(frozen=True, eq=False, repr=False)
class Linearization(Tabular):
    """A network that was linearized, tuned and folded. It prints itself as a table.

    Attributes:
        name: of the original.
        plan: which activations were replaced, and by which maps.
        points: the curve: accuracies on held-out data by the number of replaced activations, first
            all without tuning, then those with.
        tunings: the epochs of each tuned point.
        settings: of the tuning; None without.
        folding: what was merged; None without.
        before: how good the original is on the test data.
        after: how good the result is on the test data.
        samples: how many there were.
        data: its name, where it has one.
        seed: of all random numbers.
        versions: of sigmascope, torch and Python.
        network: the result, in evaluation mode; None where only the description was read.

    >>> import torch
    >>> from sigmascope import linearize
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(256, 2), torch.arange(256) % 2
    >>> data = linearize.Split(samples, samples, samples)
    >>> found = linearize.fit(network, data, budget=1, epochs=0)
    >>> found.samples, found.chosen.left
    (Sizes(train=256, held_out=256, test=256), 0)
    """

    name: str
    plan: Plan
    points: tuple[CurvePoint, ...]
    tunings: tuple[Tuning, ...]
    settings: TuneSettings | None
    folding: Folding | None
    before: Judgment
    after: Judgment
    samples: Sizes
    data: str
    seed: int
    versions: dict[str, str]
    network: nn.Module | None = field(default=None, repr=False)

    @property
    def drop(self) -> float:
        """The points of test accuracy that it costs; negative for a gain."""
        return self.before.accuracy - self.after.accuracy

    @property
    def chosen(self) -> CurvePoint:
        """The point of the curve that the network is; see `best_of`."""
        return best_of([one for one in self.points if one.replaced == len(self.plan.chosen)])

    def curve(self, *, tuned: bool) -> list[CurvePoint]:
        """Return the points without or with tuning, by the number of replaced activations."""
        found = [one for one in self.points if bool(one.epochs) is tuned]
        return sorted(found, key=lambda one: one.replaced)

    def plot(self) -> Drawn:
        """Draw the accuracy against the activations left; see `figures.draw_linearization`."""
        from sigmascope.figures.linearization import draw_linearization

        return draw_linearization(self)

    def save(self, directory: str | Path) -> Path:
        """Write linearization.json and the plan, but not the network; return the first.

        `sigmascope.linearize.save` writes the network.
        """
        folder = Path(directory)
        self.plan.save(folder / PLAN)
        names = [one.name for one in dataclasses.fields(self) if one.name not in APART]
        content = {name: encode(getattr(self, name), name) for name in names}
        write_json(folder / FILE, KIND, VERSION, content)
        return folder / FILE

    @classmethod
    def load(cls, path: str | Path) -> Linearization:
        """Return what `save` wrote, without the network, which `sigmascope.linearize.load` reads.

        Args:
            path: the directory, or its linearization.json.

        Raises:
            FileNotFoundError: a file is missing.
            FileFormatError: corrupt, not a linearization, or newer than this version.
        """
        given = Path(path)
        file = given / FILE if given.is_dir() else given
        content = read_json(file, KIND, VERSION)
        hints = {name: hint for name, hint in _hints(cls).items() if name not in APART}
        if not isinstance(content, dict) or content.keys() != hints.keys():
            raise FileFormatError(f"{file} does not have the keys of a {KIND}. Write it again.")
        values: dict[str, Any] = {
            name: decode(hint, content[name], f"{file}: {name}") for name, hint in hints.items()
        }
        plan = Plan.load(file.with_name(PLAN))
        found = cls(plan=plan, **values)
        if not any(one.replaced == len(plan.chosen) for one in found.points):
            raise FileFormatError(
                f"{file} and {file.with_name(PLAN)} do not belong together. Restore both from one "
                "copy, or run the linearization again."
            )
        return found

    def _columns(self) -> dict[str, Sequence[object]]:
        tuned = {one.replaced: one for one in self.curve(tuned=True)}
        plain = {one.replaced: one for one in self.curve(tuned=False)}
        counts = sorted({*tuned, *plain})
        points = [plain.get(count) or tuned[count] for count in counts]
        return {
            "activations left": [one.left for one in points],
            "replaced": [one.replaced for one in points],
            "elements left": [one.elements for one in points],
            "accuracy": [_accuracy(plain.get(count)) for count in counts],
            "tuned": [_accuracy(tuned.get(count)) for count in counts],
        }

    def _tables(self) -> list[Table]:
        title = (
            f"{self.name}: {len(self.plan.chosen)} of {len(self.plan.sites)} activations replaced "
            f"(budget: {self.plan.budget}; ranked by {self.plan.by})"
        )
        return [Table(self._columns(), title, notes_of(self))]


def best_of(points: Sequence[CurvePoint]) -> CurvePoint:
    """Return the best network on held-out data; of equal ones that with more tuning."""

    def worth(point: CurvePoint) -> tuple[float, int]:
        found = point.held_out
        return -found.loss if math.isnan(found.accuracy) else found.accuracy, point.epochs

    return max(points, key=worth)


APART = ("plan", "network")  # which are in files of their own


def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in dataclasses.fields(kind)}


def _accuracy(point: CurvePoint | None) -> float:
    return math.nan if point is None else point.held_out.accuracy


def notes_of(found: Linearization) -> list[str]:
    """Return the result in words."""
    share = 100 * found.plan.saved / max(1, found.plan.elements)
    notes = [
        f"saved: {found.plan.saved:,} of {found.plan.elements:,} activation elements per sample "
        f"({share:.1f} %)",
        f"accuracy above: in percent of {found.samples.held_out:,} held-out samples, on which the "
        "sites were selected and the maps fitted",
    ]
    if found.samples.test:
        notes.append(
            f"test: {found.before.accuracy:.2f} % before, {found.after.accuracy:.2f} % after, of "
            f"{found.samples.test:,} samples that were used for nothing else"
        )
    if found.settings is not None:
        notes.append(
            f"tuned: {found.settings.epochs} epoch{'s' * (found.settings.epochs != 1)} on "
            f"{found.samples.train:,} samples"
        )
        if not found.chosen.epochs:
            notes.append(
                "the result is not tuned, since tuning lowered the held-out accuracy: try other "
                "settings, or more data"
            )
    if found.folding is not None:
        before, after = found.folding.before, found.folding.after
        if before.multiply_adds:  # otherwise it could not be run, and nothing is known
            notes.append(
                f"folded: {before.layers} → {after.layers} layers, {before.parameters:,} → "
                f"{after.parameters:,} parameters, {before.multiply_adds:,} → "
                f"{after.multiply_adds:,} multiply-adds, {1e3 * before.seconds:.3g} → "
                f"{1e3 * after.seconds:.3g} ms"
            )
        notes += [f"not folded: {shortened(reason, 160)}" for reason in found.folding.refused[:4]]
        more = len(found.folding.refused) - 4
        notes += [f"not folded: {more} more"] * (more > 0)
    return notes
