"""Two networks and their data, ready for training, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.checks import check_choice
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.measure.batches import fingerprint, place_of
from sigmascope.measure.subject import current_versions
from sigmascope.stitching.assembly import Joint, prepare
from sigmascope.stitching.data import Feed, Samples, StitchData, check_labels, divided
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.features import moments_of
from sigmascope.stitching.layer import Stitch, as_matrix
from sigmascope.stitching.result import StitchResult, no_matrix
from sigmascope.stitching.seam import Seam, Snapshot
from sigmascope.stitching.settings import Settings, settings_for
from sigmascope.stitching.training import Training
from sigmascope.symmetry.monomial import Monomial

__all__ = ["Task", "Work", "circumstances", "settings_of"]

FEW = 4  # samples on which the cut is checked


@dataclass(frozen=True)
class Task:
    """One stitch among several.

    Attributes:
        family: a row of `FAMILIES`.
        changes: settings other than those of the preset; of those that not all families read, only
            those that this one reads.
        element: of the family "fixed": a group element or matrix (c, c).
    """

    family: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    element: Monomial | Array | None = None


def settings_of(task: Task, preset: str | Settings) -> Settings:
    """Return the settings of a task.

    Raises:
        OptionError: an unknown family, preset or setting; a value that cannot be; a change that the
            family would ignore; or an element without the family "fixed", or the other way round.

    >>> settings_of(Task("full", {"rank": 4}), "paper")
    Traceback (most recent call last):
    sigmascope.errors.OptionError: rank=4 is read by family='low-rank' only, and not by 'full'. Leave it out.
    """
    check_choice("family", task.family, FAMILIES)
    if (task.element is not None) != (task.family == "fixed"):
        raise OptionError(
            "element belongs to family='fixed', which needs one. Pass both or neither."
        )
    settings = settings_for(preset, task.family, task.changes)
    for name, value in task.changes.items():
        readers = [family for family, row in FAMILIES.items() if name in row.options]
        if readers and task.family not in readers:
            known = " and ".join(map(repr, readers))
            raise OptionError(
                f"{name}={value!r} is read by family={known} only, and not by "
                f"{task.family!r}. Leave it out."
            )
    return settings


class Work:
    """Two networks and their data, ready for training.

    Args:
        front: the network whose front is taken.
        back: the other one.
        at: the site.
        data: the samples; they are moved to where the front is.
        settings: what all stitches have in common.
        seed: of the stitches at their start, and of the samples that are held out.
        style: where the channels are, or "auto".
        names: of the two networks, for errors.

    Attributes:
        joint: the halves of the networks.
        everything: the training samples, of which `train` are trained on.
        chosen: the samples by which the best epoch is chosen, held out or those of the `test`.
    """

    def __init__(
        self,
        front: nn.Module,
        back: nn.Module,
        at: str,
        data: StitchData,
        settings: Settings,
        seed: int,
        style: str,
        names: tuple[str, str] | None = None,
    ) -> None:
        self.data, self.settings, self.seed = data, settings, seed
        self.device, self.dtype = place_of(front)
        device, dtype = place_of(back)
        if device != self.device:
            raise InputTypeError(
                f"the front is on {self.device} and the back on {device}. Move one with .to(...)."
            )
        if None not in (dtype, self.dtype) and dtype != self.dtype:
            raise InputTypeError(
                f"the front is in {self.dtype} and the back in {dtype}. Convert one with .to(...)."
            )
        train, test = (_moved(samples, self.device) for samples in (data.train, data.test))
        self.everything = Feed(train, data, self.device, self.dtype)
        self.test = Feed(test, data, self.device, self.dtype)
        self.train, self.chosen = self.everything, self.test
        if settings.select_on == "validation":
            kept, held = divided(len(self.everything), settings.validation, seed)
            self.train, self.chosen = (
                Feed(train, data, self.device, self.dtype, one) for one in (kept, held)
            )
        few = next(iter(self.test.batches(FEW)))[1]
        self.joint: Joint = prepare(front, back, at=at, inputs=few, style=style, names=names)
        self.networks = (front, back)
        _check_classes(self.networks, few, (self.everything, self.test))

    def seam(self, task: Task, settings: Settings) -> Seam:
        """Make a stitch, at its start."""
        layer = Stitch(
            task.family, self.joint.channels, self.joint.style, settings=settings, seed=self.seed
        )
        layer = layer.to(self.device, self.dtype or torch.get_default_dtype())
        fit = FAMILIES[task.family].fit
        if fit is not None:
            halves = self.joint.front.before, self.joint.back.before
            layer.set_matrix(fit(moments_of(*halves, self.train, self.joint.style)))
        if task.element is not None:
            layer.set_matrix(as_matrix(task.element, self.joint.channels))
        return Seam(layer, self.joint.back.after, task.family, settings)

    def key(
        self, tasks: Sequence[Task], settings: Sequence[Settings], *, cached: bool
    ) -> dict[str, object]:
        """Describe the run, as a checkpoint does; a front that is cached runs on other batches,
        which rounds differently.
        """
        return {
            **circumstances(*self.networks, self.data),
            "site": self.joint.site.name,
            "style": self.joint.style,
            "seed": self.seed,
            "families": [task.family for task in tasks],
            "elements": [self._element(task) for task in tasks],
            "cached": cached,
            "settings": [asdict(one) for one in settings],
        }

    def _element(self, task: Task) -> str | None:
        """Digest a given element, all of it: two permutations may differ in a few entries only."""
        if task.element is None:
            return None
        matrix = as_matrix(task.element, self.joint.channels)
        return fingerprint([matrix], values_each=matrix.numel())

    def result(
        self, training: Training, seam: Seam, names: tuple[str, str], own: tuple[float, float]
    ) -> StitchResult:
        """Evaluate the best epoch of a stitch on the test data."""
        best = training.finish(seam)
        accuracy = float("nan") if best is None else training.accuracies([seam], self.test)[0]
        matrix = (
            no_matrix(self.joint.channels)
            if best is None
            else seam.stitch.matrix(exact=True).detach().double().cpu()
        )
        return StitchResult(
            networks=names,
            site=self.joint.site.name,
            inner=self.joint.site.inner,
            family=seam.name,
            channels=self.joint.channels,
            style=self.joint.style,
            front_accuracy=own[0],
            back_accuracy=own[1],
            stitched_accuracy=accuracy,
            chosen_accuracy=float("nan") if best is None else best.accuracy,
            best_epoch=0 if best is None else best.epoch,
            history=tuple(seam.history),
            settings=seam.settings,
            samples=(len(self.train), len(self.chosen), len(self.test)),
            augment=self.data.augment,
            seed=self.seed,
            notes=_notes(seam, matrix),
            versions=current_versions(),
            tensors={"matrix": matrix, **_statistics(best)},
        )


def circumstances(front: nn.Module, back: nn.Module, data: StitchData) -> dict[str, str]:
    """Describe what a stitch depends on beside its options: digests of both networks and the data,
    and the kind of device.

    The kind of device, such as "cpu" or "cuda", counts since each has its own random numbers.

    >>> x = torch.zeros(2, 3), torch.tensor([0, 1])
    >>> circumstances(nn.ReLU(), nn.ReLU(), StitchData(x, x))["device"]
    'cpu'
    """
    digests = (
        fingerprint([*one.parameters(), *one.buffers()]) for one in map(unwrapped, (front, back))
    )
    samples = fingerprint([*data.train, *data.test])
    return {
        **dict(zip(("front", "back"), digests, strict=True)),
        "data": f"{samples} {data.augment}",
        "device": place_of(front)[0].type,
    }


def _check_classes(
    networks: tuple[nn.Module, nn.Module], few: Tensor, feeds: Sequence[Feed]
) -> None:
    """Refuse networks with different numbers of logits, and labels that none of these stands for."""
    counts = []
    for network in map(unwrapped, networks):
        with preserve_state(network, mode="eval"):
            counts.append(network(few).shape[-1])
    if counts[0] != counts[1]:
        raise InputError(
            f"the front tells {counts[0]} classes apart and the back {counts[1]}. Stitch "
            "networks for one task."
        )
    for feed in feeds:
        check_labels(feed.labels, counts[0])


def _moved(samples: Samples, device: torch.device) -> Samples:
    return samples[0].to(device), samples[1].to(device)


def _statistics(best: Snapshot | None) -> dict[str, Tensor]:
    sides = {} if best is None else {"front": best.front, "back": best.back}
    return {
        f"{side}/{name}": value.cpu()
        for side, found in sides.items()
        for name, value in found.items()
    }


def _notes(seam: Seam, matrix: Tensor) -> tuple[str, ...]:
    notes = [seam.reason] if seam.reason else []
    zeros = int((matrix.abs().sum(dim=0) == 0).sum())
    if seam.family.monomial and zeros:
        notes.append(
            f"{zeros} of {len(matrix)} scales are 0, outside the group; `element` has 1e-6 there"
        )
    return tuple(notes)
