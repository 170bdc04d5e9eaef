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
    """The base of all errors of sigmascope.

    >>> import sigmascope as sg
    >>> try:
    ...     sg.catalog.model("sigmascope/resnet21")
    ... except sg.SigmascopeError as error:
    ...     print(str(error).split(".")[0])
    sigmascope/resnet21 is not in the catalog
    """

    def __str__(self) -> str:
        # not that of KeyError, which quotes the message
        return printable(Exception.__str__(self))


class InputError(SigmascopeError, ValueError):
    """An input has values or a shape that cannot be used.

    >>> import torch
    >>> import sigmascope as sg
    >>> sg.affinity(torch.full((9, 2), torch.nan), torch.zeros(9, 2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.InputError: x contains NaN at row 0, column 0 (18 such values)...
    """


class InputTypeError(SigmascopeError, TypeError):
    """An input is of a type, dtype or layout that cannot be used.

    >>> import sigmascope as sg
    >>> sg.affinity("x", "y")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.InputTypeError: x is a str. Pass a NumPy array or a torch tensor of shape...
    """


class OptionError(SigmascopeError, ValueError):
    """An option has a value that is not valid, or does not exist.

    >>> import torch
    >>> import sigmascope as sg
    >>> sg.signature(torch.nn.ReLU(), torch.zeros(9, 1), reduce="max")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.OptionError: option='reduce' is not a valid choice. Choose from...
    """


class GradientError(SigmascopeError, RuntimeError):
    """A derivative does not exist here.

    >>> import torch
    >>> import sigmascope as sg
    >>> x = torch.ones(64, 2, requires_grad=True)
    >>> sg.affinity(x, torch.randn(64, 2)).score.backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.GradientError: x is constant, and the score has no gradient with respect to...
    """


class MissingExtraError(SigmascopeError, ImportError):
    """A package is needed but not installed, or too old to read files of others safely."""


class NetworkError(SigmascopeError, TypeError):
    """A network is wrapped or compiled in a way that hides its activation calls.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU())
    >>> sg.signature(network, torch.zeros(9, 1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.NetworkError: the layer '0' has no weights yet...
    """


class NoActivationError(SigmascopeError, ValueError):
    """A network made no activation call that could be observed.

    Attributes:
        notes: what is known of calls that were not seen.

    >>> import torch
    >>> import sigmascope as sg
    >>> sg.signature(torch.nn.Linear(4, 4), torch.randn(64, 4))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.NoActivationError: Linear made no activation call that could be seen...
    """

    notes: tuple[str, ...] = ()


class NoBlockError(SigmascopeError, ValueError):
    """A network has no repeated blocks that could be found, or none of the given name.

    >>> import torch
    >>> import sigmascope as sg
    >>> sg.blocks(torch.nn.Linear(4, 4), torch.randn(64, 10, 4))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.NoBlockError: Linear has no transformer blocks...
    """


class FileFormatError(SigmascopeError, ValueError):
    """A file is corrupt, not a sigmascope file, or newer than this version.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import sigmascope as sg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.json")
    ...     _ = path.write_text("something else")
    ...     sg.load(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.FileFormatError: ...notes.json is truncated, damaged or not a JSON file of...
    """


class ResumeError(SigmascopeError, ValueError):
    """A run cannot be continued: its file belongs to a run with other settings, or is in use.

    >>> import tempfile
    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> first = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> other = request_for(["sigmascope/resnet20"], Selection("embedded", limit=128))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = list(measure_runs(first, folder, skip=first.names))
    ...     _ = list(measure_runs(other, folder))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.ResumeError: ... belongs to another run: data.limit is 64 there...
    """


class PartError(SigmascopeError, RuntimeError):
    """A part of a divided measurement failed; the parts that were measured are kept.

    >>> import torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> batches = [torch.zeros(8, width) for width in (4, 4, 5)]
    >>> sg.runs.split_signature(network, batches, parts=3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.PartError: 1 of 3 parts failed: batch 2...
    """


class RankError(SigmascopeError, RuntimeError):
    """Another process of a distributed measurement failed, or cannot be reached."""


class UnknownSiteError(SigmascopeError, KeyError):
    """A signature has no site of this name.

    >>> import torch
    >>> import sigmascope as sg
    >>> measured = sg.signature(torch.nn.Sequential(torch.nn.ReLU()), torch.randn(9, 2))
    >>> measured["1"]  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sigmascope.errors.UnknownSiteError: '1' is not one of the 1 sites of Sequential...
    """


class Interruption(BaseException):
    """Somebody asks to stop; like KeyboardInterrupt, it passes what turns errors into values."""
