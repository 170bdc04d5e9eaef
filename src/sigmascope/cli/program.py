"""How the program ends: exit codes, errors on one line, signals, and readers that go away."""

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
from sigmascope.errors import SigmascopeError

__all__ = ["DONE", "FAILED", "PARTIAL", "Program", "Stopped", "is_debugging"]

DONE, FAILED, PARTIAL = 0, 1, 3
SIGNALS = (signal.SIGINT, signal.SIGTERM)
NO_READER = 128 + 13  # as if ended by SIGPIPE, like other programs


class Stopped(BaseException):
    """A signal asks the program to end.

    Attributes:
        number: of the signal.
        remedy: what to tell the user about the work done so far.
    """

    def __init__(self, number: int, remedy: str = "") -> None:
        super().__init__(number)
        self.number = number
        self.remedy = remedy


class NoReader(BaseException):
    """Whoever read the output has gone away, as `head` does."""


class Program(click.Group):
    """A group of commands that return an exit code, or nothing when all went well."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of their table, which is that of the work."""
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
    """Say whether the user asked to see where errors come from."""
    return bool(click.get_current_context().find_root().params.get("debug"))


def _told(error: Exception, ctx: click.Context) -> str:
    """Say what went wrong, and what helps: an error that was raised on purpose says it itself."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, (SigmascopeError, OSError)):
        return str(error)
    return f"{type(error).__name__}: {error}. To see where it comes from: {ctx.info_name} --debug …"


@contextmanager
def _signals() -> Iterator[None]:
    """Turn signals into an exception, so that everything is closed on the way out. A signal that is
    ignored stays so.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {
            one: signal.getsignal(one) for one in SIGNALS if signal.getsignal(one) != signal.SIG_IGN
        }
    for one in before:
        signal.signal(one, _stop)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show a warning as a line, without the code that gave it."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *rest, **more: f"Note: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _be_printable() -> None:
    """Replace what a terminal of another encoding cannot show; an error would lose the rest."""
    for stream in (sys.stdout, sys.stderr):
        if (
            hasattr(stream, "reconfigure")
            and (stream.encoding or "").lower().replace("-", "") != "utf8"
        ):
            stream.reconfigure(errors="replace")


@contextmanager
def _noticing_readers() -> Iterator[None]:
    """Notice that a reader went away before click or rich make an exit with code 1 of it."""
    try:
        yield
    except (OSError, SystemExit) as error:
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if isinstance(cause, OSError) and cause.errno == errno.EPIPE:
            raise NoReader from error
        raise


def _forget_output() -> None:
    """Let the interpreter flush into nothing when it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
