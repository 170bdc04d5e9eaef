"""How the program ends: exit codes, one-line errors, signals, and readers that go away."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import click

from sigmascope.cli.output import complain
from sigmascope.errors import Interruption, SigmascopeError

DONE, FAILED, PARTIAL = 0, 1, 3
SIGNALS = (signal.SIGINT, signal.SIGTERM)
NO_READER = 128 + 13  # as if ended by SIGPIPE, like other programs


class Stopped(Interruption):
    """A signal asks the program to end.

    Attributes:
        number: the signal.
        remedy: what to tell the user about the work done so far.
    """

    def __init__(self, number: int, remedy: str = "") -> None:
        super().__init__(number)
        self.number = number
        self.remedy = remedy


class NoReader(BaseException):
    """The reader of the output has gone away, as `head` does."""


class Program(click.Group):
    """A group of commands that return an exit code, or nothing when all went well."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their table."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn its errors into a line and an exit code."""
        try:
            with _noticing_readers():
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            complain(_told(error, ctx))
            return FAILED

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments, which may print the help."""
        with _noticing_readers():
            return super().make_context(*args, **kwargs)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run the program and leave it with an exit code."""
        kwargs["standalone_mode"] = False
        try:
            with _noticing_readers(), _signals(), _plain_warnings():
                _be_printable()
                code = super().main(*args, **kwargs)
                sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except Stopped as stopped:
            complain(f"Stopped. {stopped.remedy}".strip(), label="")
            code = 128 + stopped.number
        except NoReader:
            _forget_output()
            code = NO_READER
        sys.exit(code if isinstance(code, int) else DONE)


def is_debugging() -> bool:
    """Return whether the user asked to see where errors come from."""
    return bool(click.get_current_context().find_root().params.get("debug"))


@contextmanager
def keeping(kept: str | None) -> Iterator[None]:
    """Tell the user, if a signal stops the block, what is kept; None if nothing is written."""
    try:
        yield
    except Stopped as stopped:
        stopped.remedy = "Nothing was written: no -o was given."
        if kept:
            stopped.remedy = f"{kept}: the same command continues from there."
        raise


def _told(error: Exception, ctx: click.Context) -> str:
    """Return what went wrong and what helps; errors of sigmascope say it themselves."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, (SigmascopeError, OSError)):
        return str(error)
    return f"{type(error).__name__}: {error}. To see where it comes from: {ctx.info_name} --debug …"


@contextmanager
def _signals() -> Iterator[None]:
    """Turn signals into an exception, so that files are closed; ignored signals stay ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        before = {number: old for number, old in handlers.items() if old != signal.SIG_IGN}
    for number in before:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show a warning as one line, without the code that issued it."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *rest, **more: f"Note: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _be_printable() -> None:
    """Replace characters that the terminal cannot encode; an error would lose the rest."""
    for stream in (sys.stdout, sys.stderr):
        is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
        if hasattr(stream, "reconfigure") and not is_utf8:
            stream.reconfigure(errors="replace")


@contextmanager
def _noticing_readers() -> Iterator[None]:
    """Notice that a reader went away, before click or rich turn that into exit code 1."""
    try:
        yield
    except (OSError, SystemExit) as error:
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if isinstance(cause, OSError) and cause.errno == errno.EPIPE:
            raise NoReader from error
        raise


def _forget_output() -> None:
    """Let the interpreter flush to nowhere when it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
