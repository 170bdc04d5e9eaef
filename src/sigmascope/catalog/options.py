"""Options of the catalog that are numbers, checked before anything is read or built."""

from __future__ import annotations

import numpy as np

from sigmascope.errors import OptionError

__all__ = ["check_seed", "check_whole"]

# The largest seed that every generator takes, together with a number of a row.
LARGEST_SEED = 2**32 - 1


def check_whole(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise unless an option is a whole number within its bounds.

    Raises:
        OptionError: naming the option, its value and the bounds.

    >>> check_whole("limit", 3, least=1)
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and least <= int(value) and (most is None or int(value) <= most):  # type: ignore[call-overload]
        return
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise OptionError(f"{name}={value!r:.80} is not a whole number {bounds}. Pass one.")


def check_seed(seed: object) -> None:
    """Raise unless a seed is a whole number from 0 to 2³² - 1, which torch, NumPy and Python all take."""
    check_whole("seed", seed, least=0, most=LARGEST_SEED)
