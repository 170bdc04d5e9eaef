"""A monitor inside the training loop of a framework: it keeps its history, and never ends the loop.

A training that has run for days must not be lost to a measurement. Where one fails, the training
goes on without, and a warning says at which step and why; or, if asked for, the error is raised.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn

from sigmascope.catalog.optional import one_line
from sigmascope.checks import check_choice, check_whole, options_from
from sigmascope.choices import OnError, values_of as choices_of
from sigmascope.errors import InputError, OptionError, ResumeError
from sigmascope.measure.batches import Forward
from sigmascope.measure.options import Options, SignatureOptions
from sigmascope.measure.ranks import ranks_of, telling
from sigmascope.monitoring.arguments import AUTO
from sigmascope.monitoring.health import Thresholds, TrainingWarning
from sigmascope.monitoring.loggers import Reporter, loggers_from
from sigmascope.monitoring.monitor import PREFIX, Monitor, inner, refuse_synchronized
from sigmascope.monitoring.track import Track

EVALUATION = "evaluation"
MONITOR = ("budget", "file", "forward", "warn")  # options of a monitor besides those of signature
LONGEST = 400  # characters of an error in a warning


class WatchOptions(SignatureOptions, total=False):
    """The rest of the options of a callback.

    Attributes:
        budget: with every="auto", the share of the time that measuring may take; 0.03 by default.
        file: where the track is kept, a JSON file, which `sigmascope track FILE` follows.
        forward: runs the network on a batch, as for `sigmascope.signature`.
        warn: True to warn of layers that died, became affine or saturated; or
            `sigmascope.Thresholds`.
        log: loggers besides those of the framework, as for `sigmascope.Monitor`.
    """

    budget: float
    file: str | Path | None
    forward: Forward | None
    warn: bool | Thresholds
    log: object


class Watch:
    """What the callbacks of all frameworks have in common.

    Args:
        probe: batches, as for `Monitor`.
        every: a number of steps, "auto", or "evaluation".
        name: stands before the names of the numbers.
        errors: what to do where a measurement fails.
        options: see `WatchOptions`.
    """

    def __init__(
        self, probe: object, *, every: int | str, name: str, errors: OnError, options: WatchOptions
    ) -> None:
        check_choice("errors", errors, choices_of(OnError))
        self._every = _checked_every(every)
        self._name, self._errors = _checked_name(name), errors
        given: dict[str, Any] = {**options}
        self._loggers = loggers_from(given.pop("log", None))
        self._given = given
        measured = {key: value for key, value in given.items() if key not in MONITOR}
        options_from(Options, {"estimator": "population", **measured})  # an error at once
        if isinstance(probe, (list, tuple)) and not probe:
            raise InputError("the probe is empty. Pass at least one batch.")
        self._probe = probe
        self._monitor: Monitor | None = None
        self._reporter = Reporter([], self.prefix)
        self._state: Mapping[str, Any] | None = None  # of the monitor that was, or is to be
        self._failed = False
        self._alone: nn.Module | None = None  # what other ranks train and do not measure
        self._last = -1  # the step that was measured last
        self.latest: dict[str, float] = {}

    @property
    def prefix(self) -> str:
        """What the names of all numbers begin with."""
        return f"{self._name}/"

    @property
    def at_evaluation(self) -> bool:
        """Whether it measures where the framework evaluates, and not between steps."""
        return self._every == EVALUATION

    @property
    def track(self) -> Track | None:
        """The history; None before the first training, and in processes that do not measure."""
        return None if self._monitor is None else self._monitor.track

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Turn errors of a block into a warning, unless they are to be raised."""
        try:
            yield
        except ResumeError:
            raise  # before the first step; the history would be lost
        except Exception as error:
            self.stop(error)
            if self._errors == "raise":
                raise
            warnings.warn(
                f"{what}: the network was not measured, and the training goes on without: "
                f"{type(error).__name__}: {one_line(error, LONGEST)}",
                TrainingWarning,
                stacklevel=4,
            )

    def begin(
        self,
        network: nn.Module,
        *,
        is_first: bool,
        loggers: Sequence[object] = (),
        is_training: bool = True,
    ) -> None:
        """Begin to watch a network, or go on with it.

        Args:
            network: as it trains.
            is_first: whether this process is the first; others measure networks in shards only.
            loggers: those of the framework, which logs the numbers of evaluations itself.
            is_training: whether a training begins; otherwise what was measured last, at the end of
                one, is not measured again.
        """
        self.end()
        self._monitor, self._failed = None, False
        self._last = -1 if is_training else self._last
        network = inner(network)
        # measured outside of its wrapper, by which a monitor knows that other ranks train it, too
        is_alone = ranks_of(network) is None and _has_other_ranks()
        self._alone = network if is_alone and self._given.get("mode") == "as-is" else None
        self._check_alone()  # on all ranks
        self._reporter = self._new_reporter(loggers if is_first else None)
        if not is_first and ranks_of(network) is None:
            return
        every = 1 if self.at_evaluation else self._every
        self._monitor = Monitor(network, self._probe, every=every, **self._given)
        if self._state:  # that of a process which did not measure is empty
            self._monitor.load_state_dict(self._state)

    def _check_alone(self) -> None:
        """Raise a NetworkError rather than wait for ranks that do not measure."""
        if self._alone is not None:
            refuse_synchronized(self._alone)

    def _new_reporter(self, loggers: Sequence[object] | None) -> Reporter:
        if loggers is None:
            return Reporter([], self.prefix)
        if self.at_evaluation:
            return Reporter(self._loggers, self.prefix, figures_only=loggers)
        return Reporter([*loggers, *self._loggers], self.prefix)

    def step(self, step: int) -> dict[str, float] | None:
        """Measure after a step if it is time, and return the numbers."""
        if self._monitor is None or self._failed or self.at_evaluation or step == self._last:
            return None
        values = None
        with self.guarded(f"step {step}"), telling(self._monitor.ranks):
            self._check_alone()  # which may be in training mode only now
            values = self._told(step, self._monitor.step(step))
        return values

    def measure(self, step: int) -> dict[str, float] | None:
        """Measure now, unless this step was measured already, and return the numbers."""
        if self._monitor is None or self._failed or step == self._last:
            return None
        values = None
        with self.guarded(f"step {step}"), telling(self._monitor.ranks):
            self._check_alone()
            values = self._told(step, self._monitor.measure(step))
        return values

    def _told(self, step: int, values: Mapping[str, float] | None) -> dict[str, float] | None:
        if values is None or self._monitor is None:
            return None
        self._last = step
        self.latest = {
            f"{self._name}/{name.removeprefix(PREFIX)}": value
            for name, value in values.items()
            if math.isfinite(value)
        }
        if len(self._monitor.track):  # only the first process has one
            self._reporter.report(self.latest, self._monitor.track)
        return dict(self.latest)

    def stop(self, error: BaseException) -> None:
        """Measure nothing more, since something failed; the track says so."""
        self._failed = True
        if self._monitor is None:
            return
        try:
            self._monitor.__exit__(type(error), error, None)
        except Exception as again:  # the file may be what failed
            warnings.warn(
                f"the end of the track was not written: {type(again).__name__}: "
                f"{one_line(again, LONGEST)}",
                TrainingWarning,
                stacklevel=4,
            )

    def end(self) -> None:
        """End the monitoring; the track remains."""
        if self._monitor is not None:
            with self.guarded("the end of the track"):
                self._monitor.close()
            self._state = self._monitor.state_dict()
            if not self._failed:
                with self.guarded("the figure of the track"):
                    self._reporter.draw(self._monitor.track)

    def state_dict(self) -> dict[str, Any]:
        """Return the history as plain values; empty where there is none."""
        return {**(self._state or {})} if self._monitor is None else self._monitor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the history of a checkpoint, in the training that begins next."""
        self._monitor, self._state = None, {**state}


def _has_other_ranks() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _checked_every(every: int | str) -> int | str:
    if every in (AUTO, EVALUATION):
        return every
    if isinstance(every, str):
        raise OptionError(
            f"every must be a number of steps, 'auto' or 'evaluation', got {every!r:.80}."
        )
    return check_whole("every", every, 1)


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip("/"):
        raise OptionError(f"name must be a text such as 'sigmascope', got {name!r:.80}.")
    return name.strip("/")
