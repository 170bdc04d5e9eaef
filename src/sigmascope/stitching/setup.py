"""Two networks and their data, ready for training, and the results of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import copied, unwrapped
from sigmascope.checks import OLD_NAMES, check_choice
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.measure.batches import fingerprint, place_of
from sigmascope.measure.digests import digest_of, digest_of_weights
from sigmascope.measure.subject import current_versions
from sigmascope.stitching.adapting import AdaptedAccuracies
from sigmascope.stitching.assembly import Joint, prepare
from sigmascope.stitching.families import FAMILIES, Moments, matched
from sigmascope.stitching.layer import Stitch, as_matrix, as_scaled_permutation, channel_axis
from sigmascope.stitching.loop import TrainingLoop
from sigmascope.stitching.result import StitchResult, no_matrix
from sigmascope.stitching.settings import SHARED, Settings, settings_for
from sigmascope.stitching.trainer import Snapshot, StitchTrainer
from sigmascope.symmetry.monomial import Monomial
from sigmascope.training import evaluation
from sigmascope.training.data import StitchData
from sigmascope.training.feed import Feed, feeds_of

FEW = 4  # samples on which the cut is checked


@dataclass(frozen=True)
class Task:
    """One stitch among several.

    Attributes:
        family: a row of `FAMILIES`.
        changes: settings that differ from the preset; only settings that the family reads.
        element: for the family "fixed", or to begin with if start="given": a group element or
            matrix (c, c).

    >>> Task("low-rank", {"rank": 2, "epochs": 5}).changes
    {'rank': 2, 'epochs': 5}
    """

    family: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    element: Monomial | Array | None = None


def settings_of(task: Task, preset: str | Settings) -> Settings:
    """Return the settings of a task; raise an OptionError if its family does not read one.

    >>> settings_of(Task("low-rank", {"rank": 4}), "paper").rank
    4
    """
    check_choice("family", task.family, FAMILIES)
    settings = settings_for(preset, task.family, task.changes)
    if (task.element is not None) != (task.family == "fixed" or settings.start == "given"):
        raise OptionError(
            "element=... belongs to family='fixed' and to start='given'. Pass both or neither."
        )
    for name, value in task.changes.items():
        current = OLD_NAMES.get(name, name)
        readers = [family for family, row in FAMILIES.items() if current in row.options]
        if readers and task.family not in readers:
            raise OptionError(
                f"{name}={value!r} is read by family={' and '.join(map(repr, readers))} only, not "
                f"by {task.family!r}. Leave it out."
            )
    return settings


def check_shared(settings: Sequence[Settings]) -> None:
    """Raise an OptionError unless settings can be trained together, on the same batches."""
    if not settings:
        raise OptionError("tasks is empty. Pass at least one.")
    for name in SHARED:
        values = dict.fromkeys(getattr(one, name) for one in settings)
        if len(values) > 1:
            raise OptionError(
                f"tasks that are trained together must agree in {name}, got "
                f"{' and '.join(map(repr, values))}."
            )


class StitchSetup:
    """A front and a back cut at a site (`joint`), and the samples on their device (`feeds`).

    `front` is the first half of the front network. The `settings` are those that all stitches have
    in common; `names` are for error messages.
    """

    def __init__(
        self,
        networks: tuple[nn.Module, nn.Module],
        data: StitchData,
        settings: Settings,
        *,
        site: str,
        seed: int = 0,
        style: str = "auto",
        names: tuple[str, str] | None = None,
    ) -> None:
        self.networks, self.data, self.settings, self.seed = networks, data, settings, seed
        self.device, self.dtype = place = _common_place(*networks)
        self.feeds = feeds_of(data, settings, seed, place)
        self.few = few = next(self.feeds.test.batches(FEW)).inputs
        self.joint: Joint = prepare(*networks, site=site, inputs=few, style=style, names=names)
        self.front = self.joint.front.before
        classes = [evaluation.classes_of(unwrapped(network), few) for network in networks]
        if classes[0] != classes[1]:
            raise InputError(
                f"the front has {classes[0]} output classes and the back {classes[1]}. Stitch "
                "networks for the same task."
            )
        for feed in (self.feeds.everything, self.feeds.test):
            evaluation.check_labels(feed.labels, classes[0])

    def trainer(self, task: Task, settings: Settings) -> StitchTrainer:
        """Return a new trainer of a stitch."""
        joint = self.joint
        layer = Stitch(task.family, joint.channels, joint.style, settings=settings, seed=self.seed)
        layer = layer.to(self.device, self.dtype or torch.get_default_dtype())
        fit = FAMILIES[task.family].fit
        if fit is not None:
            layer.set_matrix(fit(self._moments))
        if settings.start == "matched":
            layer.start_at(matched(self._moments))
        if task.element is not None:
            matrix = as_matrix(task.element, joint.channels)
            if task.family == "fixed":
                layer.set_matrix(matrix)
            else:
                layer.start_at(as_scaled_permutation(matrix))
        return StitchTrainer(layer, joint.back.after, task.family, settings)

    @cached_property
    def _moments(self) -> Moments:
        return _moments_of(self.front, self.joint.back.before, self.feeds.train, self.joint.style)

    def identity(
        self, tasks: Sequence[Task], settings: Sequence[Settings], *, cached: bool
    ) -> dict[str, object]:
        """Return what the results depend on, as plain values.

        Kinds of devices draw other random numbers, and a cached front rounds differently.
        """
        front, back = map(unwrapped, self.networks)
        samples = fingerprint([*self.data.train, *self.data.test])
        stitches = zip(tasks, settings, strict=True)
        return {
            "front": fingerprint([*front.parameters(), *front.buffers()]),
            "back": fingerprint([*back.parameters(), *back.buffers()]),
            "data": f"{samples} {self.data.augment}",
            "digests": {
                "front": digest_of_weights(front),
                "back": digest_of_weights(back),
                "data": digest_of([*self.data.train, *self.data.test]),
            },
            "device": self.device.type,
            "site": self.joint.site.name,
            "style": self.joint.style,
            "seed": self.seed,
            "cache_front": cached,
            "stitches": {
                str(k): {"family": task.family, "element": self._digest(task), **_plain(one)}
                for k, (task, one) in enumerate(stitches, 1)
            },
        }

    def _digest(self, task: Task) -> str | None:
        """Return a digest of all entries of an element: permutations may differ in a few only."""
        if task.element is None:
            return None
        matrix = as_matrix(task.element, self.joint.channels)
        return fingerprint([matrix], values_each=matrix.numel())

    def result(
        self,
        loop: TrainingLoop,
        trainer: StitchTrainer,
        names: tuple[str, str],
        accuracies: Sequence[float],
        adapted: AdaptedAccuracies,
    ) -> StitchResult:
        """Return the best epoch of a stitch, evaluated on the test data."""
        best = loop.finish(trainer)
        if best is None:
            accuracy, matrix = float("nan"), no_matrix(self.joint.channels)
        else:
            [accuracy] = loop.accuracies([trainer], self.feeds.test)
            matrix = trainer.stitch.matrix(exact=True).detach().double().cpu()
        return StitchResult(
            networks=names,
            site=self.joint.site.name,
            inner=self.joint.site.inner,
            family=trainer.name,
            channels=self.joint.channels,
            style=self.joint.style,
            front_accuracy=accuracies[0],
            back_accuracy=accuracies[1],
            stitched_accuracy=accuracy,
            chosen_accuracy=float("nan") if best is None else best.accuracy,
            best_epoch=0 if best is None else best.epoch,
            history=tuple(trainer.history),
            settings=trainer.settings,
            samples=self.feeds.sizes,
            augment=self.data.augment,
            seed=self.seed,
            notes=_notes(trainer, matrix),
            versions=current_versions(),
            tensors={"matrix": matrix, **_statistics(best)},
            adapted_accuracies=adapted.after(trainer),
        )

    def adapted(self, accuracies: Sequence[float]) -> AdaptedAccuracies:
        """Return what computes the accuracies of both networks with their batch norms adapted."""
        given: dict[str, Any] = {"site": self.joint.site.name, "style": self.joint.style}
        given |= {"inputs": self.few, "seed": self.seed}
        networks = copied(self.networks[0]), copied(self.networks[1])
        return AdaptedAccuracies(networks, accuracies, self.feeds, **given)


def _plain(settings: Settings) -> dict[str, object]:
    """Return settings as plain values; checkpoints of earlier versions have no `start`."""
    found: dict[str, object] = asdict(settings)
    if settings.start == "random":
        del found["start"]
    return found


def _common_place(front: nn.Module, back: nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """Return the device and dtype of two networks; raise unless they agree."""
    (device, dtype), (other_device, other_dtype) = place_of(front), place_of(back)
    if device != other_device:
        raise InputTypeError(
            f"the front is on {device} and the back on {other_device}. Move one with .to(...)."
        )
    if None not in (dtype, other_dtype) and dtype != other_dtype:
        raise InputTypeError(
            f"the front has dtype {dtype} and the back {other_dtype}. Convert one with .to(...)."
        )
    return device, dtype


@torch.no_grad()
def _moments_of(front: nn.Module, back: nn.Module, feed: Feed, style: str) -> Moments:
    """Return products of features of two halves, summed over samples and positions."""
    front.eval()
    back.eval()
    sums: list[Tensor] = []
    for _, inputs, _ in feed.batches(evaluation.BATCH):
        x, y = (_rows(half(inputs)[0], style) for half in (front, back))
        products = [x.T @ x, x.T @ y, y.square().sum(dim=0)]
        sums = (
            [total + one for total, one in zip(sums, products, strict=True)] if sums else products
        )
    return Moments(*sums)


def _rows(value: Tensor, style: str) -> Tensor:
    """Return features as (samples and positions, c), float64."""
    return value.double().movedim(channel_axis(tuple(value.shape), style), -1).flatten(0, -2)


def _statistics(best: Snapshot | None) -> dict[str, Tensor]:
    sides = {} if best is None else {"front": best.front, "back": best.back}
    return {
        f"{side}/{name}": value.cpu()
        for side, buffers in sides.items()
        for name, value in buffers.items()
    }


def _notes(trainer: StitchTrainer, matrix: Tensor) -> tuple[str, ...]:
    notes = [trainer.reason] if trainer.reason else []
    zeros = int((matrix.abs().sum(dim=0) == 0).sum())
    if trainer.family.monomial and zeros:
        notes.append(
            f"{zeros} of {len(matrix)} scales are 0, outside the group; `element` has 1e-6 there"
        )
    return tuple(notes)
