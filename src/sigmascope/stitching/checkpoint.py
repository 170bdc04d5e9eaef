"""Checkpoints: the state of a training in one file, replaced after every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from sigmascope.errors import FileFormatError
from sigmascope.stitching.loop import TrainingLoop
from sigmascope.stitching.trainer import Epoch, Snapshot, StitchTrainer, set_buffers
from sigmascope.store import check_identity, decode, encode, read_features, write_features

PARTS = ("stitch", "front", "back", "before")  # of a snapshot


def save_checkpoint(path: Path, loop: TrainingLoop, identity: dict[str, object]) -> None:
    """Write the state of a training, which belongs to the run with this identity."""
    tensors: dict[str, Tensor] = {
        f"front/{name}": value for name, value in loop.front.named_buffers()
    }
    states: list[object] = []
    for number, trainer in enumerate(loop.trainers):
        tensors |= {f"{number}/{name}": value for name, value in _tensors(trainer).items()}
        best = trainer.best
        state = {
            "history": encode(trainer.history),
            "scaled": trainer.stitch.scaled,
            "reason": trainer.reason,
            "best": None if best is None else [best.epoch, best.accuracy, best.scaled],
        }
        states.append(state)
    about = {"identity": identity, "done": loop.done, "trainers": states}
    write_features(path, tensors, about)


def load_checkpoint(path: Path, loop: TrainingLoop, identity: dict[str, object]) -> None:
    """Restore the state of a training from a file.

    Raises:
        ResumeError: it belongs to another run.
        FileFormatError: it is corrupt, of an earlier version, or not a checkpoint.
    """
    tensors, about = read_features(path)
    there: Any = about.get("identity")
    if not isinstance(there, dict):
        is_old = {"key", "seams"} <= about.keys()
        told = "was written by an earlier version" if is_old else "is not a checkpoint of a stitch"
        raise FileFormatError(f"{path} {told}. Remove it, or choose another file.")
    check_identity(path, there, identity)
    try:
        set_buffers(loop.front, _under(tensors, "front/"))
        states: Any = about["trainers"]
        for number, (trainer, state) in enumerate(zip(loop.trainers, states, strict=True)):
            _restore(trainer, _under(tensors, f"{number}/"), state, str(path))
        loop.done = decode(int, about["done"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{path} is corrupt: {error}. Remove it and start again.") from error


def _tensors(trainer: StitchTrainer) -> dict[str, Tensor]:
    named = {f"stitch/{name}": value for name, value in trainer.stitch.values.items()}
    named |= {f"back/{name}": value for name, value in trainer.back.named_buffers()}
    for place, parameter in enumerate(trainer.trained):
        state = trainer.optimizer.state.get(parameter, {})
        tensors = {key: value for key, value in state.items() if isinstance(value, Tensor)}
        named |= {f"optimizer/{place}/{key}": value for key, value in tensors.items()}
    for part in PARTS if trainer.best is not None else ():
        values = getattr(trainer.best, part)
        named |= {f"best/{part}/{name}": value for name, value in values.items()}
    return named


def _restore(trainer: StitchTrainer, tensors: dict[str, Tensor], state: Any, path: str) -> None:
    if state["scaled"] and not trainer.stitch.scaled:
        trainer.begin(trainer.settings.head_start)
    trainer.restore(_under(tensors, "stitch/"), _under(tensors, "back/"))
    optimizer = trainer.optimizer
    for place, parameter in enumerate(trainer.trained):
        for key, value in _under(tensors, f"optimizer/{place}/").items():
            # torch keeps this one on the CPU
            on_cpu = key == "step" and not optimizer.defaults.get("capturable")
            optimizer.state[parameter][key] = value if on_cpu else value.to(parameter.device)
    trainer.history = list(decode(tuple[Epoch, ...], state["history"], f"{path}: history"))
    trainer.reason = state["reason"]
    if state["best"] is not None:
        epoch, accuracy, scaled = state["best"]
        device = trainer.loss_sum.device
        parts = {
            part: {name: v.to(device) for name, v in _under(tensors, f"best/{part}/").items()}
            for part in PARTS
        }
        trainer.best = Snapshot(epoch, accuracy, scaled, **parts)


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors[name] for name in names}
