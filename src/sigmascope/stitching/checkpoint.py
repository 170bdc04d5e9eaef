"""A training that can go on after it was stopped: its state in one file, replaced after every
epoch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from sigmascope.errors import FileFormatError
from sigmascope.stitching.seam import Epoch, Seam, Snapshot, put_buffers
from sigmascope.stitching.training import Training
from sigmascope.store import check_identity, decode, encode, read_features, write_features

__all__ = ["load_checkpoint", "save_checkpoint"]

BUFFERS = ("stitch", "front", "back", "before")


def save_checkpoint(path: Path, training: Training, key: dict[str, object]) -> None:
    """Write the state of a training, which belongs to the run that `key` describes."""
    tensors: dict[str, Tensor] = {
        f"front/{name}": value for name, value in training.front.named_buffers()
    }
    seams: list[object] = []
    for number, seam in enumerate(training.seams):
        tensors |= {f"{number}/{name}": value for name, value in _tensors(seam).items()}
        best = (
            None if seam.best is None else [seam.best.epoch, seam.best.accuracy, seam.best.scaled]
        )
        state = {
            "history": encode(seam.history),
            "scaled": seam.stitch.scaled,
            "reason": seam.reason,
            "best": best,
        }
        seams.append(state)
    write_features(path, tensors, {"key": key, "done": training.done, "seams": seams})


def load_checkpoint(path: Path, training: Training, key: dict[str, object]) -> None:
    """Put a training into the state of a file.

    Raises:
        ResumeError: the file belongs to another run.
        FileFormatError: it is damaged or foreign.
    """
    tensors, info = read_features(path)
    check_identity(path, info.get("key"), key)
    try:
        put_buffers(training.front, _part(tensors, "front/"))
        described: Any = info["seams"]
        for number, (seam, state) in enumerate(zip(training.seams, described, strict=True)):
            _fill(seam, _part(tensors, f"{number}/"), state, str(path))
        training.done = decode(int, info["done"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{path} is damaged: {error}. Remove it and start again.") from error


def _tensors(seam: Seam) -> dict[str, Tensor]:
    found = {f"stitch/{name}": value for name, value in seam.stitch.values.items()}
    found |= {f"back/{name}": value for name, value in seam.back.named_buffers()}
    for place, parameter in enumerate(_trained(seam)):
        held = seam.optimizer.state.get(parameter, {})
        found |= {
            f"optimizer/{place}/{key}": value
            for key, value in held.items()
            if isinstance(value, Tensor)
        }
    if seam.best is not None:
        for part in BUFFERS:
            found |= {
                f"best/{part}/{name}": value for name, value in getattr(seam.best, part).items()
            }
    return found


def _fill(seam: Seam, tensors: dict[str, Tensor], state: Any, path: str) -> None:
    if state["scaled"] and not seam.stitch.scaled:
        seam.begin(seam.settings.head_start)
    seam.restore(_part(tensors, "stitch/"), _part(tensors, "back/"))
    for place, parameter in enumerate(_trained(seam)):
        for key, value in _part(tensors, f"optimizer/{place}/").items():
            # torch keeps that one on the CPU
            alone = key == "step" and not seam.optimizer.defaults.get("capturable")
            seam.optimizer.state[parameter][key] = value if alone else value.to(parameter.device)
    seam.history = list(decode(tuple[Epoch, ...], state["history"], f"{path}: history"))
    seam.reason = state["reason"]
    if state["best"] is not None:
        epoch, accuracy, scaled = state["best"]
        device = seam.loss_sum.device
        parts = {
            part: {n: v.to(device) for n, v in _part(tensors, f"best/{part}/").items()}
            for part in BUFFERS
        }
        seam.best = Snapshot(epoch, accuracy, scaled, **parts)


def _trained(seam: Seam) -> list[Tensor]:
    return [parameter for group in seam.optimizer.param_groups for parameter in group["params"]]


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
