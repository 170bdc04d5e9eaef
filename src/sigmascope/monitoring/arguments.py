"""The arguments of a monitor, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from sigmascope.checks import check_choice, check_whole, renamed
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.measure.batches import batches_of
from sigmascope.measure.options import Options
from sigmascope.monitoring.health import Thresholds

AUTO = "auto"
OWN = ("every", "budget", "log", "warn", "file", "forward")


def check_names(changes: Mapping[str, Any]) -> None:
    """Raise an OptionError for what is no option of a monitor or of a signature."""
    names = [*OWN, *(field.name for field in dataclasses.fields(Options))]
    for name in renamed(changes, names):
        check_choice("option", name, names)


def checked_probe(probe: object) -> Iterable[object]:
    """Return the batches of a probe."""
    try:
        batches = batches_of(probe)
    except InputTypeError as error:
        raise InputTypeError(
            f"probe must be a list of batches, or one, got {type(probe).__name__}."
        ) from error
    if isinstance(probe, (list, tuple)) and not probe:
        raise InputError("the probe is empty. Pass at least one batch.")
    return batches


def checked_every(every: int | str) -> int | str:
    """Return the number of steps between measurements, or AUTO."""
    if every == AUTO:
        return AUTO
    if isinstance(every, str):
        raise OptionError(f"every must be a number of steps or 'auto', got {every!r:.80}.")
    return check_whole("every", every, 1)


def checked_limits(warn: bool | Thresholds) -> Thresholds | None:
    """Return the thresholds of warnings; None without warnings."""
    if isinstance(warn, Thresholds):
        return warn
    if not isinstance(warn, bool):
        raise OptionError(f"warn must be True, False or sigmascope.Thresholds, got {warn!r:.80}.")
    return Thresholds() if warn else None


def checked_budget(budget: float) -> float:
    """Return the share of the time that measuring may take."""
    if not isinstance(budget, (int, float)) or not 0 < budget <= 1:
        raise OptionError(f"budget must be a share above 0 and at most 1, got {budget!r:.80}.")
    return float(budget)
