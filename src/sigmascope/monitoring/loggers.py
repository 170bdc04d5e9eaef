"""Numbers to whatever logs a training, recognized by what it can do; nothing is imported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sigmascope.errors import InputTypeError


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


def check_logger(logger: object) -> None:
    """Raise an error for something that takes no numbers."""
    if not callable(logger) and not any(hasattr(logger, way.method) for way in WAYS):
        names = ", ".join(f".{way.method}" for way in WAYS)
        raise InputTypeError(
            f"log is a {type(logger).__name__}, which has none of {names}. Pass a run of W&B or "
            "Trackio, a SummaryWriter of TensorBoard, mlflow, or a function (values, step)."
        )


def send(logger: Any, values: Mapping[str, float], step: int) -> None:
    """Pass numbers to a logger; what is not a number is left out, for some refuse it."""
    finite = {name: value for name, value in values.items() if math.isfinite(value)}
    way = next((way for way in WAYS if hasattr(logger, way.method)), None)
    if way is not None:
        way.call(logger, finite, step)
    else:
        logger(finite, step)
