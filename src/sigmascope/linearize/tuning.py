"""The verb `tune`: a short training of a linearized network, with or without a teacher."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict, Unpack

from torch import nn

from sigmascope.capture.guard import copied, randomness_kept, unwrapped
from sigmascope.checks import check_path, check_seed, options_from
from sigmascope.choices import Augmentation, TuningOptimizer
from sigmascope.errors import InputError
from sigmascope.linearize.data import Data, Loss
from sigmascope.linearize.functions import functions_of
from sigmascope.linearize.planning import structure_of
from sigmascope.linearize.tuned import Tuned, TuneSettings
from sigmascope.linearize.tuner import Epochs, Tuner, teaching
from sigmascope.linearize.tuning_checkpoint import load_checkpoint, save_checkpoint
from sigmascope.measure.batches import Forward, place_of
from sigmascope.measure.digests import digest_of_weights
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import check_device
from sigmascope.store import claim_beside


class TuneOptions(TypedDict, total=False):
    """Further options of `tune`.

    Attributes:
        optimizer: "sgd", with Nesterov's momentum, or "adamw".
        rate: the highest learning rate; by default √(batch / 128) times 0.03 for SGD and 0.0005 for
            AdamW.
        decay: of weights with two or more axes, not of maps; by default 0.0005 and 0.05.
        momentum: of SGD; 0.9 by default.
        warm_up: the share of all steps over which the rate rises in a straight line, 0.1 by
            default. After it the rate falls to 0 like a cosine.
        clip: the largest norm of a gradient, 2.0 by default; 0 for no limit.
        distill: the share of the loss that compares with the teacher, 0.9 by default; 1 without
            labels.
        temperature: by which logits are divided before they are compared; 4.0 by default.
        batch: the size of batches that are made of two tensors (inputs, labels); 128 by default.
        augment: of images in two tensors: "none" or "flip-shift".
        loss: a function of outputs and labels that returns the mean loss over the batch; by default
            the cross-entropy of logits.
        forward: a function of the network and a batch that runs the network.
        progress: whether to show a progress bar, on a terminal; True by default.

    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> options: linearize.TuneOptions = {"optimizer": "adamw", "warm_up": 0.05}
    >>> linearize.tune(network, samples, epochs=1, **options).settings.optimizer
    'adamw'
    """

    optimizer: TuningOptimizer
    rate: float | None
    decay: float | None
    momentum: float
    warm_up: float
    clip: float
    distill: float
    temperature: float
    batch: int
    augment: Augmentation
    loss: Loss | None
    forward: Forward | None
    progress: bool


def tune(
    network: nn.Module,
    batches: Any,
    *,
    teacher: nn.Module | None = None,
    held_out: Any = None,
    epochs: int = 5,
    checkpoint: str | Path | None = None,
    seed: int = 0,
    **options: Unpack[TuneOptions],
) -> Tuned:
    """Return a network after a short training, such as one in which maps replaced activations.

    All parameters that require gradients are trained, those of the maps too, and batch norms follow
    their inputs. The network itself is not changed. It is an ordinary `nn.Module`: any training
    loop of your own does as well.

    With a teacher, usually the original network, the loss is

        (1 - distill) · loss(s, labels) + distill · T² · KL(softmax(t / T) ‖ softmax(s / T))

    where s and t are the logits of the network and the teacher and T the temperature (Hinton et
    al., 2015, arXiv:1503.02531). Without one, it is that of the labels.

    Args:
        network: from `sigmascope.linearize.apply`, or any other one.
        batches: two tensors (inputs, labels), which are shuffled and divided anew in every epoch;
            or a loader or list of batches, which is read once in every epoch. Before each, torch,
            NumPy and Python are seeded, so that a `DataLoader` that shuffles is repeatable.
        teacher: runs in evaluation mode and is not changed.
        held_out: batches with labels, on which the accuracy is measured after every epoch. No epoch
            is selected by it: the last one is returned.
        epochs: how often to read the batches.
        checkpoint: a file that is replaced after every epoch. The same call continues from there
            after a kill, on the CPU to the same bits. It stays when the tuning is finished.
        seed: of the order, the augmentation and random layers.
        **options: see `TuneOptions`: optimizer="sgd", rate=None, decay=None, momentum=0.9,
            warm_up=0.1, clip=2.0, distill=0.9, temperature=4.0, batch=128, augment="none",
            loss=None, forward=None, progress=True.

    Raises:
        OptionError: an option that is not valid.
        InputError: no batches or no labels, a teacher with other outputs, or a training that
            diverged.
        ResumeError: the checkpoint belongs to another run, or is open in one.
        FileFormatError: the checkpoint is corrupt.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> x = torch.randn(256, 2)
    >>> samples = (x, (x[:, 0] > 0).long())
    >>> found = tune(net, samples, held_out=samples, epochs=3, batch=32, rate=0.1)
    >>> found.accuracy > 95, len(found.losses)
    (True, 3)
    """
    given: dict[str, Any] = dict(options)
    functions = {name: given.pop(name, None) for name in ("forward", "loss")}
    shown = bool(given.pop("progress", True))
    settings = options_from(TuneSettings, {**given, "epochs": epochs})
    check_seed(seed)
    original, guide = unwrapped(network), None if teacher is None else unwrapped(teacher)
    check_device(original)
    _check_places(original, guide)
    path = None if checkpoint is None else _checked(checkpoint)
    with randomness_kept(), teaching(guide):
        data = Data(batches, **functions)
        judge = None if held_out is None else Data(held_out, **functions)
        made = copied(original)
        tuner = Tuner(
            *(made, Epochs(batches, data, settings, made), data, settings),
            teacher=guide,
            held_out=judge,
            seed=seed,
        )
        identity = _identity(tuner, original, guide)
        if told := functions_of(**functions):
            identity["functions"] = told
        with claim_beside(path) if path else nullcontext():
            _train(tuner, path, identity, shown=shown)
    for one, other in zip(made.modules(), original.modules(), strict=True):
        one.training = other.training
    return Tuned(
        network=made,
        name=type(original).__name__,
        before=tuner.before,
        history=tuple(tuner.history),
        teacher="" if guide is None else type(guide).__name__,
        samples=tuner.samples,
        settings=settings,
        seed=seed,
    )


def _checked(checkpoint: str | Path) -> Path:
    check_path("checkpoint", checkpoint)
    path = Path(checkpoint)
    if path.is_dir():
        raise InputError(f"{path} is a directory. Pass the name of a file for the checkpoint.")
    return path


def _check_places(network: nn.Module, teacher: nn.Module | None) -> None:
    if teacher is not None and place_of(network)[0] != place_of(teacher)[0]:
        raise InputError(
            f"the network is on {place_of(network)[0]} and the teacher on {place_of(teacher)[0]}. "
            "Move one with .to(...)."
        )


def _identity(tuner: Tuner, original: nn.Module, teacher: nn.Module | None) -> dict[str, object]:
    """Return what the result depends on, as plain values."""
    return {
        "network": structure_of(original),
        "weights": digest_of_weights(original),
        "teacher": None if teacher is None else digest_of_weights(teacher),
        "data": tuner.digests(),
        "device": place_of(original)[0].type,
        "seed": tuner.seed,
        "settings": asdict(tuner.settings),
    }


def _train(tuner: Tuner, path: Path | None, identity: dict[str, object], *, shown: bool) -> None:
    """Run the epochs that are left, and write a checkpoint after each."""
    if path is not None and path.exists():
        load_checkpoint(path, tuner, identity)
    if not tuner.done:
        tuner.before = tuner.judge()
    left = tuner.settings.epochs - tuner.done
    title = f"tune {type(tuner.network).__name__}"
    with progress_bar(title, left * tuner.steps, shown=shown) as advance:
        while tuner.done < tuner.settings.epochs:
            tuner.epoch(advance)
            if path is not None:
                save_checkpoint(path, tuner, identity)
