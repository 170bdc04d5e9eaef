"""The checkpoint of a tuning: one file, replaced after every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.errors import FileFormatError
from sigmascope.linearize.judging import Judgment
from sigmascope.linearize.tuned import TunedEpoch
from sigmascope.linearize.tuner import Tuner
from sigmascope.store import check_identity, decode, encode, read_features, write_features

MARK = "tuning"  # the entry that tells such a file from others


def save_checkpoint(path: Path, tuner: Tuner, identity: dict[str, object]) -> None:
    """Write the state of a tuning, which belongs to the run with this identity."""
    tensors = {f"network/{name}": value for name, value in named_tensors(tuner.network).items()}
    for place, parameter in enumerate(tuner.trained):
        state = tuner.optimizer.state.get(parameter, {})
        found = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        tensors |= {f"optimizer/{place}/{name}": value for name, value in found.items()}
    about = {
        MARK: identity,
        "before": encode(tuner.before),
        "history": encode(tuple(tuner.history)),
        "samples": tuner.samples,
    }
    write_features(path, tensors, about)


def load_checkpoint(path: Path, tuner: Tuner, identity: dict[str, object]) -> None:
    """Restore the state of a tuning.

    Raises:
        ResumeError: the file belongs to another run.
        FileFormatError: it is corrupt, or not the checkpoint of a tuning.
    """
    tensors, about = read_features(path)
    there = about.get(MARK)
    if not isinstance(there, dict):
        raise FileFormatError(
            f"{path} is not a checkpoint of a tuning. Remove it, or choose another file."
        )
    check_identity(path, there, identity)
    try:
        _restore(tuner, tensors)
        tuner.before = decode(Judgment, about["before"], f"{path}: before")
        history = decode(tuple[TunedEpoch, ...], about["history"], f"{path}: history")
        tuner.history = list(history)
        tuner.samples = decode(int, about["samples"], f"{path}: samples")
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{path} is corrupt: {error}. Remove it and start again.") from error


def named_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers by name, each once."""
    return dict([*network.named_parameters(), *network.named_buffers()])


@torch.no_grad()
def _restore(tuner: Tuner, tensors: dict[str, Tensor]) -> None:
    for name, value in named_tensors(tuner.network).items():
        value.copy_(tensors[f"network/{name}"])
    for place, parameter in enumerate(tuner.trained):
        prefix = f"optimizer/{place}/"
        state: dict[str, Any] = {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }
        # torch keeps the number of steps on the CPU
        tuner.optimizer.state[parameter] = {
            name: value if name == "step" else value.to(parameter.device)
            for name, value in state.items()
        }
