"""The errors of sigmascope: every message says what was wrong, where, and what to do about it."""

from __future__ import annotations

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
    "UnknownSiteError",
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
    """A file is not a sigmascope file of the expected kind, is corrupt, or too new to be read."""


class ResumeError(SigmascopeError, ValueError):
    """A run cannot be resumed: its file belongs to another network, other data or other options."""


class UnknownSiteError(SigmascopeError, KeyError):
    """A signature has no site of this name."""

    __str__ = Exception.__str__  # a KeyError shows its message quoted
