"""One stitch among several: its family and what differs from the preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sigmascope.checks import OLD_NAMES, check_choice
from sigmascope.errors import OptionError
from sigmascope.maths.samples import Array
from sigmascope.stitching.families import FAMILIES
from sigmascope.stitching.settings import SHARED, Settings, settings_for
from sigmascope.symmetry.monomial import Monomial

__all__ = ["Task", "check_shared", "settings_of"]


@dataclass(frozen=True)
class Task:
    """One stitch among several.

    Attributes:
        family: a row of `FAMILIES`.
        changes: settings that differ from the preset; only settings that the family reads.
        element: for the family "fixed": a group element or matrix (c, c).
    """

    family: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    element: Monomial | Array | None = None


def settings_of(task: Task, preset: str | Settings) -> Settings:
    """Return the settings of a task.

    Raises:
        OptionError: an unknown family, preset or setting; an invalid value; a setting that the
            family does not read; "fixed" without an element, or an element without "fixed".

    >>> settings_of(Task("low-rank", {"rank": 4}), "paper").rank
    4
    """
    check_choice("family", task.family, FAMILIES)
    if (task.element is not None) != (task.family == "fixed"):
        raise OptionError("family='fixed' and element=... belong together. Pass both or neither.")
    settings = settings_for(preset, task.family, task.changes)
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
    """Raise unless settings can be trained together, on the same batches.

    Raises:
        OptionError: none, or settings that differ in one of `SHARED`.
    """
    if not settings:
        raise OptionError("tasks is empty. Pass at least one.")
    for name in SHARED:
        values = dict.fromkeys(getattr(one, name) for one in settings)
        if len(values) > 1:
            raise OptionError(
                f"tasks that are trained together must agree in {name}, got "
                f"{' and '.join(map(repr, values))}."
            )
