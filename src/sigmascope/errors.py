"""The errors of sigmascope; every message says what is wrong and what to do about it."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return a text in which nothing can control a terminal or the direction of writing.

    Names in files come from anybody. Line feeds stay; what else is not printable is escaped.

    >>> print(printable("a\x1b[31m\u202eb"))
    a\x1b[31m\u202eb
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text
    )


class SigmascopeError(Exception):
    """The base of all errors of sigmascope."""

    def __str__(self) -> str:
        # not that of KeyError, which quotes the message
        return printable(Exception.__str__(self))


class InputError(SigmascopeError, ValueError):
    """An input has values or a shape that cannot be used."""


class InputTypeError(SigmascopeError, TypeError):
    """An input is of a type, dtype or layout that cannot be used."""


class OptionError(SigmascopeError, ValueError):
    """An option has a value that is not valid, or does not exist."""


class GradientError(SigmascopeError, RuntimeError):
    """A derivative does not exist here."""


class MissingExtraError(SigmascopeError, ImportError):
    """A package is needed but not installed, or too old to read files of others safely."""


class NetworkError(SigmascopeError, TypeError):
    """A network is wrapped or compiled in a way that hides its activation calls."""


class NoActivationError(SigmascopeError, ValueError):
    """A network made no activation call that could be observed.

    Attributes:
        notes: what is known of calls that were not seen.
    """

    notes: tuple[str, ...] = ()


class NoBlockError(SigmascopeError, ValueError):
    """A network has no repeated blocks that could be found, or none of the given name."""


class FileFormatError(SigmascopeError, ValueError):
    """A file is corrupt, not a sigmascope file, or newer than this version."""


class ResumeError(SigmascopeError, ValueError):
    """A run cannot be continued: its file belongs to a run with other settings, or is in use."""


class PartError(SigmascopeError, RuntimeError):
    """A part of a divided measurement failed; the parts that were measured are kept."""


class RankError(SigmascopeError, RuntimeError):
    """Another process of a distributed measurement failed, or cannot be reached."""


class UnknownSiteError(SigmascopeError, KeyError):
    """A signature has no site of this name."""


class Interruption(BaseException):
    """Somebody asks to stop; like KeyboardInterrupt, it passes what turns errors into values."""
