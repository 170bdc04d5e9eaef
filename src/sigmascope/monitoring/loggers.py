"""Numbers and figures to whatever logs a training, recognized by what it can do.

Nothing is imported: a logger is an object with certain methods. Numbers go to all of them, figures
to those that take images.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from sigmascope.errors import InputTypeError
from sigmascope.monitoring.csv_log import CsvLog

if TYPE_CHECKING:
    from sigmascope.monitoring.track import Track


class Picture(Protocol):
    """What is sent of a drawn figure."""

    @property
    def figure(self) -> Any:
        """The figure of matplotlib."""

    def pixels(self) -> Any:
        """Return its colors (height, width, 3)."""


# (name, figure, step)
Sender: TypeAlias = Callable[[str, Picture, int], object]
FEW = 8  # measurements of the first figure; the next ones come with twice as many each
FIGURE = "track"  # its name, behind the prefix


class Way(NamedTuple):
    """A method that a logger has, and how it is called with numbers at a step."""

    method: str
    call: Callable[[Any, Mapping[str, float], int], object]


def _scalars(writer: Any, values: Mapping[str, float], step: int) -> None:
    for name, value in values.items():
        writer.add_scalar(name, value, step)


# In this order: Lightning's loggers have `log_metrics` beside others.
WAYS = (
    Way("log_metrics", lambda logger, values, step: logger.log_metrics(values, step=step)),
    Way("add_scalar", _scalars),
    Way("log", lambda logger, values, step: logger.log(values, step=step)),
)


def loggers_from(log: object) -> list[object]:
    """Return the loggers of a `log` argument: none, one or several; a path becomes a CSV file.

    Raises:
        InputTypeError: something that takes no numbers.
        InputError: a path that does not end in .csv.
    """
    given = [] if log is None else list(log) if isinstance(log, (list, tuple)) else [log]
    loggers = [
        CsvLog(os.fspath(one)) if isinstance(one, (str, os.PathLike)) else one for one in given
    ]
    for logger in loggers:
        check_logger(logger)
    return loggers


def check_logger(logger: object) -> None:
    """Raise an error for something that takes no numbers."""
    if not callable(logger) and not any(hasattr(logger, way.method) for way in WAYS):
        names = ", ".join(f".{way.method}" for way in WAYS)
        raise InputTypeError(
            f"log must have one of {names}, got {type(logger).__name__}. Pass a run of W&B or "
            "Trackio, a SummaryWriter of TensorBoard, mlflow, a path that ends in .csv, or a "
            "function (values, step)."
        )


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Return what is a number; some loggers refuse the rest."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def send(logger: Any, values: Mapping[str, float], step: int) -> None:
    """Pass numbers to a logger; what is not a number is left out."""
    way = next((way for way in WAYS if hasattr(logger, way.method)), None)
    if way is not None:
        way.call(logger, finite(values), step)
    else:
        logger(finite(values), step)


def figure_sender(logger: Any) -> Sender | None:
    """Return a function (name, figure, step) that passes a figure to a logger; None if it cannot.

    By the names of parameters too: other packages have methods of these names.
    """
    if _takes(logger, "add_figure", "tag", "figure"):  # TensorBoard; pyplot has nothing to close
        return lambda name, drawn, step: logger.add_figure(
            name, drawn.figure, global_step=step, close=False
        )
    if _takes(logger, "log_figure", "figure", "artifact_file"):  # mlflow
        return lambda name, drawn, _: logger.log_figure(drawn.figure, f"{name}.png")
    if _takes(logger, "log_image", "key", "images"):  # Lightning's logger for W&B
        return lambda name, drawn, step: logger.log_image(
            key=name, images=[drawn.pixels()], step=step
        )
    if isinstance(getattr(logger, "trackers", None), list):  # an Accelerator
        return _together([figure_sender(one.tracker) for one in logger.trackers])
    if hasattr(logger, "log_metrics") and hasattr(logger, "experiment"):  # others of Lightning
        return _through_lightning(logger)
    image = _image_of(logger)
    if image is not None:  # a run of W&B or Trackio
        return lambda name, drawn, step: logger.log(
            {name: image(drawn.pixels())}, step=_not_before(logger, step)
        )
    return None


def _takes(logger: Any, method: str, *names: str) -> bool:
    found = getattr(logger, method, None)
    if not callable(found):
        return False
    try:
        return {*names} <= inspect.signature(found).parameters.keys()
    except ValueError:  # it does not tell
        return False


def _together(senders: Sequence[Sender | None]) -> Sender | None:
    known = [one for one in senders if one is not None]
    return (lambda *arguments: [one(*arguments) for one in known]) if known else None


def _through_lightning(logger: Any) -> Sender | None:
    """Return how the object inside one of Lightning's loggers takes figures."""
    within = logger.experiment
    if _takes(within, "log_figure", "run_id", "figure", "artifact_file"):  # a client of mlflow
        return lambda name, drawn, _: within.log_figure(logger.run_id, drawn.figure, f"{name}.png")
    return figure_sender(within)


def _image_of(logger: Any) -> Any:
    """Return the class for images of the package that a run belongs to, which has imported it."""
    if not hasattr(logger, "log"):
        return None
    package = type(logger).__module__.partition(".")[0]
    home = logger if isinstance(logger, ModuleType) else sys.modules.get(package)
    found = getattr(home, "Image", None)
    return found if callable(found) else None


def _not_before(logger: Any, step: int) -> int:
    """Return a step that W&B takes: it leaves out what belongs to one before the last."""
    last = getattr(getattr(logger, "run", None) or logger, "step", None)
    return max(step, last) if isinstance(last, int) else step


class Reporter:
    """Sends numbers, and now and then a figure of all of them, to loggers.

    The figure goes to loggers that take images: when the training ends, and before, whenever the
    number of measurements has doubled, since some trainings never end.

    Args:
        loggers: see `loggers_from`.
        prefix: before the name of the figure.
        figures_only: more of them, which have the numbers from somebody else.
    """

    def __init__(
        self, loggers: Sequence[object], prefix: str, *, figures_only: Sequence[object] = ()
    ) -> None:
        self._loggers, self._prefix = loggers, prefix
        self._painters = [*loggers, *figures_only]
        self._next, self._shown = FEW, -1  # measurements of the next figure, step of the last one

    def report(self, values: Mapping[str, float], track: Track) -> None:
        """Send the numbers of the last measurement of a track."""
        for logger in self._loggers:
            send(logger, values, track.steps[-1])
        if len(track) >= self._next:
            self._next = 2 * len(track)
            self.draw(track)

    def draw(self, track: Track) -> None:
        """Send the figure of a track, unless there is nothing new in it."""
        if not len(track) or track.steps[-1] == self._shown:
            return
        self._shown = track.steps[-1]
        sender = _together([figure_sender(logger) for logger in self._painters])
        if sender is not None:
            sender(f"{self._prefix}{FIGURE}", track.plot(), self._shown)
