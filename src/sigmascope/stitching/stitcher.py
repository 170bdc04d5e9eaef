"""Stitching two networks: one stitch, several that share their batches, or several to choose α
from.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmascope.capture.guard import preserve_state, randomness_kept, unwrapped
from sigmascope.errors import InputError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.measure.progress import progress_bar
from sigmascope.stitching.checkpoint import load_checkpoint, save_checkpoint
from sigmascope.stitching.data import Feed, as_data
from sigmascope.stitching.features import FrontCache
from sigmascope.stitching.result import StitchResult
from sigmascope.stitching.settings import SHARED, Settings
from sigmascope.stitching.training import Training, accuracy_of
from sigmascope.stitching.work import Task, Work, settings_of
from sigmascope.symmetry.monomial import Monomial

__all__ = ["CrossValidation", "Task", "cross_validate", "stitch", "stitch_many"]

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


def stitch(
    front: nn.Module,
    back: nn.Module,
    *,
    at: str,
    data: Any,
    family: str = "relu-group",
    preset: str | Settings = "paper",
    element: Monomial | Array | None = None,
    style: str = "auto",
    cache_front: bool | str | Path = False,
    checkpoint: str | Path | None = None,
    seed: int = 0,
    names: tuple[str, str] | None = None,
    progress: bool = True,
    **changes: Any,
) -> StitchResult:
    """Stitch the front of one network to the back of another and measure what that costs.

    Only the stitch, a matrix on the channels of one site, is trained. Both networks are copied and
    never changed. Everything runs where they are: on a GPU the data are moved there once and a step
    is captured.

    Args:
        front: a network that puts out logits (n, classes) and that torch.fx can trace.
        back: another one of the same architecture, on the same device.
        at: the site, named as `sigmascope.signature` names it, or the path of a module whose output
            it is; where a path is both, it is the activation call that the signature names so. A
            wrong name lists the choices.
        data: a pair (training, test), each a loader, a list of batches (inputs, labels) or one such
            pair; or a `StitchData`, which can augment. Everything is read into memory once.
        family: what the stitch may be: "full", "low-rank" (rank=), "lasso" (strength=),
            "relu-group" (alpha=), "softsort"; or not trained: "identity", "least-squares",
            "permutation", "fixed" (element=).
        preset: "paper" as the paper says, "as-run" as its scripts ran, "fast"; or `Settings`.
        element: for the family "fixed", a group element or matrix (c, c).
        style: "conv" for channels on axis 1, "linear" for the last axis; "auto" goes by the layers
            that made the value at the site.
        cache_front: keep what the front puts out for the training data, in memory (True) or in a
            folder. That is only right without augmentation and with front_mode="eval".
        checkpoint: a file from which a stopped run goes on where it was, on the same kind of
            device, to the same result.
        seed: of the stitch at the start, the order of the data, the augmentation, and the samples
            that are held out.
        names: of the two networks; by default their classes.
        progress: whether to show a progress bar, on a terminal.
        **changes: any of `Settings` that the family reads, such as epochs=5, batch=256,
            select_on="test".

    Raises:
        NetworkError: a network that cannot be traced, or two that differ in structure.
        OptionError: an unknown site, family, preset or setting, or a setting that only other
            families read.
        InputError, InputTypeError: data or shapes that do not fit.
        ResumeError: the checkpoint belongs to another run.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> x = torch.randn(64, 2)
    >>> samples = (x, (x[:, 0] > 0).long())
    >>> stitch(net, net, at="1", data=(samples, samples), family="identity").penalty
    0.0
    """
    task = Task(family, changes, element)
    [result] = stitch_many(
        front,
        back,
        [task],
        at=at,
        data=data,
        preset=preset,
        style=style,
        cache_front=cache_front,
        checkpoint=checkpoint,
        seed=seed,
        names=names,
        progress=progress,
    )
    return result


@torch.inference_mode(False)
@torch.enable_grad()  # whatever the caller has switched off: a stitch is trained
def stitch_many(
    front: nn.Module,
    back: nn.Module,
    tasks: Sequence[Task],
    *,
    at: str,
    data: Any,
    preset: str | Settings = "paper",
    style: str = "auto",
    cache_front: bool | str | Path = False,
    checkpoint: str | Path | None = None,
    seed: int = 0,
    names: tuple[str, str] | None = None,
    progress: bool = True,
) -> list[StitchResult]:
    """Train several stitches of one pair at one site together: the front runs once for all of them.

    Each gets the result that it would get alone, but for random layers such as dropout, which draw
    other numbers.

    Args:
        front: see `stitch`, as for all that is not named here.
        back: see `stitch`.
        tasks: the stitches. They must agree in batch, epochs and whatever else concerns the data or
            the front.
        at: see `stitch`.
        data: see `stitch`.
        preset: see `stitch`.
        style: see `stitch`.
        cache_front: see `stitch`.
        checkpoint: see `stitch`.
        seed: see `stitch`.
        names: see `stitch`.
        progress: see `stitch`.

    Raises:
        OptionError: tasks that do not agree, or none; otherwise as `stitch`.
    """
    settings = [settings_of(task, preset) for task in tasks]
    _check_shared(settings)
    samples = as_data(data)
    titles = names or (type(front).__name__, type(back).__name__)
    with randomness_kept():
        torch.manual_seed(seed)
        work = Work(front, back, at, samples, settings[0], seed, style, names)
        seams = [work.seam(task, one) for task, one in zip(tasks, settings, strict=True)]
        cache = _cache(work, cache_front)
        try:
            training = Training(
                work.joint, seams, work.train, work.chosen, settings[0], seed=seed, cache=cache
            )
            _train(
                training,
                checkpoint,
                work.key(tasks, settings, cached=cache is not None),
                " → ".join(titles),
                progress,
            )
            # whatever was drawn in training, or not, as after a finished checkpoint
            torch.manual_seed(seed)
            own = _own_accuracies(front, back, work.test)
            return [work.result(training, seam, titles, own) for seam in seams]
        finally:
            if cache is not None:
                cache.close()


@dataclass(frozen=True)
class CrossValidation:
    """Relu-group stitches that differ in α.

    Attributes:
        alphas: the values.
        results: one stitch for each, trained on the same part of the training data and judged on
            the rest of it.
    """

    alphas: tuple[float, ...]
    results: tuple[StitchResult, ...]

    @property
    def chosen(self) -> StitchResult:
        """The stitch with the best accuracy on the held-out training data; its `stitched_accuracy`
        is that on the test data.

        Raises:
            InputError: the training of all of them diverged.
        """
        return self.results[self._place()]

    @property
    def alpha(self) -> float:
        """The α that was chosen."""
        return self.alphas[self._place()]

    def _place(self) -> int:
        finished = [
            place for place, one in enumerate(self.results) if not math.isnan(one.chosen_accuracy)
        ]
        if not finished:
            tried = ", ".join(f"{alpha:g}" for alpha in self.alphas)
            raise InputError(
                f"training diverged for every α ({tried}), so none can be chosen. Pass a "
                "lower rate."
            )
        return max(finished, key=lambda place: self.results[place].chosen_accuracy)

    def __repr__(self) -> str:
        lines = [
            f"α = {alpha:g}: diverged"
            if math.isnan(one.chosen_accuracy)
            else f"α = {alpha:g}: {one.chosen_accuracy:.2f} % held out, penalty {one.penalty:.2f}"
            + " ←" * (one is self.chosen)
            for alpha, one in zip(self.alphas, self.results, strict=True)
        ]
        return "\n".join(lines)


def cross_validate(
    front: nn.Module,
    back: nn.Module,
    *,
    at: str,
    data: Any,
    alphas: Iterable[float] = ALPHAS,
    preset: str | Settings = "paper",
    style: str = "auto",
    cache_front: bool | str | Path = False,
    checkpoint: str | Path | None = None,
    seed: int = 0,
    names: tuple[str, str] | None = None,
    progress: bool = True,
    **changes: Any,
) -> CrossValidation:
    """Choose α of a relu-group stitch on a part of the training data that it is not trained on.

    As in the paper by default: one split into 80 and 20 %, five epochs, no head start, and before
    the test a pass over both parts that adapts batch norm. The two parts are disjoint.

    Args:
        front: see `stitch`, as for all that is not named here.
        back: see `stitch`.
        at: see `stitch`.
        data: see `stitch`.
        alphas: the values to choose from.
        preset: see `stitch`.
        style: see `stitch`.
        cache_front: see `stitch`.
        checkpoint: see `stitch`.
        seed: see `stitch`.
        names: see `stitch`.
        progress: see `stitch`.
        **changes: see `stitch`; select_on must stay "validation".

    Raises:
        OptionError: no alphas, or select_on="test".
    """
    usual = {
        "epochs": 5,
        "head_start": 0,
        "validation": 0.2,
        "select_on": "validation",
        "final_pass": True,
    }
    common = usual | changes
    values = tuple(float(alpha) for alpha in alphas)
    if common["select_on"] != "validation" or "alpha" in common or not values:
        raise OptionError(
            "cross-validation chooses from alphas=(…) by held-out data. Leave select_on and "
            "alpha out."
        )
    tasks = [Task("relu-group", {**common, "alpha": alpha}) for alpha in values]
    given: dict[str, Any] = {
        "preset": preset,
        "style": style,
        "seed": seed,
        "names": names,
        "progress": progress,
    }
    found = stitch_many(
        front,
        back,
        tasks,
        at=at,
        data=data,
        cache_front=cache_front,
        checkpoint=checkpoint,
        **given,
    )
    return CrossValidation(values, tuple(found))


def _check_shared(settings: Sequence[Settings]) -> None:
    if not settings:
        raise OptionError("tasks is empty. Pass at least one stitch.")
    for name in SHARED:
        values = {getattr(one, name) for one in settings}
        if len(values) > 1:
            raise OptionError(
                f"{name} is {' and '.join(map(str, values))} in tasks that share their "
                "batches. Pass one value."
            )


def _cache(work: Work, cache_front: bool | str | Path) -> FrontCache | None:
    if cache_front is False:
        return None
    front = work.joint.front.before
    FrontCache.check(front, work.everything, work.data, work.settings.front_mode)
    return FrontCache(front, work.everything, None if cache_front is True else Path(cache_front))


def _train(
    training: Training,
    checkpoint: str | Path | None,
    key: dict[str, object],
    title: str,
    progress: bool,
) -> None:
    """Run all epochs that are left, and write a checkpoint after each."""
    path = None if checkpoint is None else Path(checkpoint)
    is_new = path is None or not path.exists()
    if path is not None and not is_new:
        load_checkpoint(path, training, key)
    left = 0 if training.is_over else training.seams[0].settings.epochs - training.done
    if (cache := training.cache) and (is_new or left):
        with progress_bar(f"{title}: front", cache.steps, shown=progress) as cache.advance:
            cache.fill()
    if is_new:
        training.evaluate_untrained()
    with progress_bar(title, left * training.steps, shown=progress) as advance:
        while not training.is_over:
            training.epoch(advance)
            if path is not None:
                save_checkpoint(path, training, key)


def _own_accuracies(front: nn.Module, back: nn.Module, feed: Feed) -> tuple[float, float]:
    found = []
    for network in (front, back):
        plain = copy.deepcopy(unwrapped(network))
        with preserve_state(plain, mode="eval"):
            found.append(accuracy_of(plain, feed))
    return found[0], found[1]
