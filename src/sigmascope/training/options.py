"""Checks of the settings that every training has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sigmascope.checks import check_choice, check_number, check_share, check_whole
from sigmascope.choices import Selection

__all__ = ["check_training"]


def check_training(settings: Any, *, rates: Iterable[str] = (), counts: Iterable[str] = ()) -> None:
    """Raise unless the settings of a training, a frozen dataclass, are valid.

    Every training has `epochs`, `batch`, `rate`, `decay`, `select_on` and `validation`. Whole
    numbers of other types become int, so that files can hold them.

    Args:
        settings: the dataclass.
        rates: names of further numbers >= 0.
        counts: names of further whole numbers >= 1.

    Raises:
        OptionError: naming the setting, what it must be, and what it is.
    """
    check_choice("select_on", settings.select_on, Selection)
    check_share("validation", settings.validation)
    for name in ("epochs", "batch", *counts):
        object.__setattr__(settings, name, check_whole(name, getattr(settings, name), 1))
    for name in ("rate", "decay", *rates):
        check_number(name, getattr(settings, name))
