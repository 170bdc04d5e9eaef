"""The errors of sigmascope; every message says what is wrong and what to do about it."""

from __future__ import annotations


class SigmascopeError(Exception):
    """The base of all errors of sigmascope."""


class InputError(SigmascopeError, ValueError):
    """An input has values or a shape that cannot be used."""


class InputTypeError(SigmascopeError, TypeError):
    """An input is of a type, dtype or layout that cannot be used."""


class OptionError(SigmascopeError, ValueError):
    """An option has a value that is not valid, or does not exist."""


class GradientError(SigmascopeError, RuntimeError):
    """A derivative does not exist here."""


class MissingExtraError(SigmascopeError, ImportError):
    """An optional package is needed but not installed."""


class NetworkError(SigmascopeError, TypeError):
    """A network is wrapped or compiled in a way that hides its activation calls."""


class NoActivationError(SigmascopeError, ValueError):
    """A network made no activation call that could be observed."""


class FileFormatError(SigmascopeError, ValueError):
    """A file is corrupt, not a sigmascope file, or newer than this version."""


class ResumeError(SigmascopeError, ValueError):
    """A run cannot be continued: its file belongs to a run with other settings, or is in use."""


class UnknownSiteError(SigmascopeError, KeyError):
    """A signature has no site of this name."""

    __str__ = Exception.__str__  # a KeyError shows its message quoted


class Interruption(BaseException):
    """Somebody asks to stop; like KeyboardInterrupt, it passes what turns errors into values."""
