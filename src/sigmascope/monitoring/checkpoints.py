"""A track from checkpoints that a training has left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from torch import nn

from sigmascope.catalog.weights import load_weights
from sigmascope.checks import check_whole
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.options import SignatureOptions
from sigmascope.measure.progress import progress_bar
from sigmascope.monitoring.health import Event
from sigmascope.monitoring.monitor import Monitor
from sigmascope.monitoring.track import Entry, Track

NUMBER = re.compile(r"[0-9]+")


def track(
    checkpoints: Iterable[Any] | Mapping[int, Any],
    model: nn.Module,
    probe: object,
    *,
    file: str | Path | None = None,
    name: str | None = None,
    progress: bool = True,
    **changes: Unpack[SignatureOptions],
) -> Track:
    """Measure a network at stored checkpoints, and return the scores over its steps.

    Args:
        checkpoints: step -> file, safetensors or a state dict that holds tensors only; or a list of
            files, whose step is the last number in their names.
        model: the network that they are of. A copy is loaded with each; it is left as it is.
        probe: batches, as for `Monitor`.
        file: where the track is kept, as for `Monitor`. Steps that it has are not measured again.
        name: of the network.
        progress: whether to show a progress bar, on a terminal.
        **changes: options of `signature`; estimator="population" here by default.

    Raises:
        InputError: no checkpoints, a file without a number in its name, or two of one step.
        InputTypeError: a checkpoint that is not a path.
        FileFormatError: a file that is not the weights of the network.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for step in (0, 100):
    ...         torch.save(model.state_dict(), Path(folder, f"step-{step}.pt"))
    ...     found = track(Path(folder).glob("*.pt"), model, torch.randn(256, 4))
    >>> found.steps, found.sites
    ([0, 100], ['1'])
    """
    files = _by_step(checkpoints)
    network = deepcopy(model)
    with _Checkpoints(network, probe, file=file, every=1, **changes) as monitor:
        monitor.track = replace(monitor.track, name=name or monitor.track.name)
        with progress_bar(monitor.track.name, len(files), shown=progress) as advance:
            for step in sorted(files):
                if step not in monitor.track.steps:
                    load_weights(network, files[step])
                    monitor.measure(step)
                advance()
    return monitor.track


class _Checkpoints(Monitor):
    """A monitor of steps in any order, none of which makes another one void."""

    def _joined(self, entry: Entry, events: tuple[Event, ...]) -> Track:
        return self.track.merged(entry, events)


def _by_step(checkpoints: Iterable[Any] | Mapping[int, Any]) -> dict[int, Path]:
    if isinstance(checkpoints, Mapping):
        found = {check_whole("a step", step, 0): _path(file) for step, file in checkpoints.items()}
    elif isinstance(checkpoints, (str, bytes, Path)):
        raise InputTypeError("checkpoints is one path. Pass a list of files, or step -> file.")
    else:
        found = {}
        for file in map(_path, checkpoints):
            step = _step_of(file)
            if step in found:
                raise InputError(
                    f"{found[step].name} and {file.name} are both of step {step}. Pass a dict, "
                    "step -> file."
                )
            found[step] = file
    if not found:
        raise InputError("there are no checkpoints. Pass at least one file.")
    return found


def _path(file: Any) -> Path:
    try:
        return Path(file)
    except TypeError:
        raise InputTypeError(
            f"a checkpoint is a file, got a {type(file).__name__}. Save it with torch.save or "
            "safetensors, and pass the path."
        ) from None


def _step_of(file: Path) -> int:
    numbers = NUMBER.findall(file.stem)
    if not numbers:
        raise InputError(
            f"{file.name} has no number in its name, which would be its step. Pass a dict, "
            "step -> file."
        )
    return int(numbers[-1])
