"""The errors of sigmascope: every message says what was wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "FileFormatError",
    "GradientError",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "NetworkError",
    "NoActivationError",
    "OptionError",
    "ResumeError",
    "SigmascopeError",
    "check_option",
]


class SigmascopeError(Exception):
    """The base of every error that sigmascope raises on purpose."""


class InputError(SigmascopeError, ValueError):
    """The numbers or the shape of an input cannot be measured."""


class InputTypeError(SigmascopeError, TypeError):
    """An input is of a kind, dtype or layout that cannot be measured."""


class OptionError(SigmascopeError, ValueError):
    """An option has a value that is not in its table."""


class GradientError(SigmascopeError, RuntimeError):
    """A derivative was asked for that does not exist here."""


class MissingExtraError(SigmascopeError, ImportError):
    """An optional package is needed and not installed."""


class NetworkError(SigmascopeError, TypeError):
    """A network is wrapped or compiled in a way that hides its activation calls."""


class NoActivationError(SigmascopeError, ValueError):
    """A network made no activation call that could be seen."""


class FileFormatError(SigmascopeError, ValueError):
    """A file is not what it should be: truncated, foreign, newer than this version, or hostile."""


class ResumeError(SigmascopeError, ValueError):
    """A run cannot be continued: its file belongs to another network, other data or other settings."""


def check_option(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of the `allowed` names of the option `name`.

    Raises:
        OptionError: naming the nearest allowed value, if one is near, and all of them.

    >>> check_option("coupling", "optimal", ["optimal", "paired"])
    """
    choices = list(allowed)
    if isinstance(value, str) and value in choices:
        return
    near = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    guess = f" Did you mean {near[0]!r}?" if near else ""
    listing = ", ".join(repr(choice) for choice in choices)
    raise OptionError(f"{name}={value!r} is not known.{guess} Choose one of {listing}.")
