"""Measuring a network between the steps of its training, without changing the training."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self, Unpack

import torch
from torch import nn

from sigmascope.capture.guard import is_replicated, randomness_kept, unwrapped
from sigmascope.capture.sharded import original_class
from sigmascope.checks import check_whole, options_from
from sigmascope.errors import InputError, NetworkError
from sigmascope.measure.batches import Forward
from sigmascope.measure.options import Options, SignatureOptions
from sigmascope.measure.ranks import Ranks, ranks_of, telling
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature
from sigmascope.monitoring.arguments import (
    AUTO,
    check_names,
    checked_budget,
    checked_every,
    checked_limits,
    checked_probe,
)
from sigmascope.monitoring.health import Event, Thresholds, TrainingWarning, events_of
from sigmascope.monitoring.loggers import Reporter, loggers_from
from sigmascope.monitoring.schedule import SharedSchedule
from sigmascope.monitoring.track import Entry, Track, entry_of
from sigmascope.store import check_identity

MOST = 64  # batches of a probe
PREFIX = "sigmascope/"
FINISHED, STOPPED = "finished", "stopped by {}"  # how a track ends
UNMEASURED = (
    "this was raised while a monitor measured its probe; pass batches that the network takes"
)


class Monitor:
    """Measures the signature of a network every so often while it trains.

    Between two steps, the network is measured on the same few batches: the probe. Weights,
    gradients, batch-norm statistics, training flags and random numbers are left as they are, so
    that the training is the same to the bit as one without a monitor.

    Args:
        model: the network that trains. One wrapped in DistributedDataParallel is measured through
            the network inside, on the first rank alone; of a compiled one the eager original. One
            in shards of `torch.distributed.fsdp.fully_shard` is measured by all ranks together:
            call `step` on each, with the same probe; the first one keeps the track and logs.
        probe: a list of batches, or one; a loader is read once, up to 64 batches. Population scores
            need 2.5 samples for each channel of a layer, with samples="positions" every pixel or
            token counts.
        every: the number of steps between measurements; or "auto": as often as `budget` allows.
        budget: with every="auto", the share of the time that measuring may take, after the first
            time, which compiles kernels.
        log: a logger or several: a run of W&B or Trackio, a SummaryWriter of TensorBoard, mlflow, a
            logger of Lightning, an Accelerator, a path that ends in .csv, or a function (values,
            step). Those that take images get the figure of the track too: at the end, and whenever
            the number of measurements has doubled.
        warn: True to warn of layers that died, became affine or saturated; `Thresholds` to say
            when.
        file: where the track is kept, a JSON file, which `sigmascope track FILE` follows. If it
            exists, it is continued: steps from the first that is measured again on are replaced.
        forward: runs the network on a batch, as for `signature`.
        **changes: options of `signature`; estimator="population" here by default, and `sites`
            chooses some of them.

    >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    >>> with Monitor(model, torch.randn(256, 8), every=10) as monitor:
    ...     found = [monitor.step(step) for step in range(21)]  # after each optimizer.step()
    >>> [step for step, values in enumerate(found) if values]
    [0, 10, 20]
    >>> list(found[0])[:2]
    ['sigmascope/1', 'sigmascope/min']
    """

    def __init__(
        self,
        model: nn.Module,
        probe: object,
        *,
        every: int | str = AUTO,
        budget: float = 0.03,
        log: object = None,
        warn: bool | Thresholds = False,
        file: str | Path | None = None,
        forward: Forward | None = None,
        **changes: Unpack[SignatureOptions],
    ) -> None:
        self._every = checked_every(every)
        self._budget = checked_budget(budget)
        self._model = model
        self._network = inner(model)
        self._ranks = ranks_of(self._network, own=True)
        self._shared = None if self._ranks is None else SharedSchedule(self._ranks)
        check_names(changes)
        options = {"estimator": "population", **changes}
        self._options = options_from(Options, options)
        if self._options.mode == "as-is" and is_replicated(model):
            refuse_synchronized(self._network)
        self._pool: Mapping[str, Any] = {key: changes[key] for key in ("pool",) if key in changes}
        self._forward = forward
        self._reporter = Reporter(loggers_from(log), PREFIX)
        self._limits = checked_limits(warn)
        self._file = None if file is None else Path(file)
        with randomness_kept():
            self._probe = list(islice(iter(checked_probe(probe)), MOST))
        self.track = _continued(
            Track(original_class(self._network).__name__, self._options), self._file
        )
        self.signature: Signature | None = None
        self.seconds = 0.0  # spent on measuring
        self._steps = 0  # how often `step` was called
        self._due = 0.0  # when the next measurement is due, on the clock
        self._closed = False
        self._saved = False  # other ranks of a training never do
        if self.track.ended and _is_first_rank(model):
            self._end("")  # who follows the file should know that it goes on

    def __repr__(self) -> str:
        count = len(self.track)
        told = f"{count} measurement{'s' * (count != 1)}"
        return f"Monitor of {self.track.name}: every={self._every!r}, {told}"

    def step(self, step: int | None = None) -> dict[str, float] | None:
        """Measure if it is time; call it after every step of the optimizer.

        Args:
            step: its number; by default a count of the calls, from 0.

        Returns:
            A flat dict: "sigmascope/SITE" the score of each site, "sigmascope/mean" and the other
            statistics over the sites, "sigmascope/dead_share" the mean share of dead channels. None
            where nothing was measured.
        """
        if self._closed:
            raise InputError("the monitor is closed. Make a new one to go on.")
        number = self._steps if step is None else check_whole("step", step, 0)
        self._steps += 1
        if self._every != AUTO:
            due = number % int(self._every) == 0
        elif self._shared is not None:
            due = self._shared.is_due(self._due)
        else:
            due = time.perf_counter() >= self._due
        return self.measure(number) if due and _is_first_rank(self._model) else None

    def measure(self, step: int) -> dict[str, float]:
        """Measure now, and return what `step` returns."""
        with telling(self._ranks):
            return self._measured_at(step)

    def _measured_at(self, step: int) -> dict[str, float]:
        if self._ranks is not None:
            self._ranks.meet()  # one may have failed since the last time
            self._ranks.part()
        _wait_for_device(self._network)
        begin = time.perf_counter()
        found = self._measured()
        is_kept = self._ranks is None or self._ranks.is_first
        values = values_of(found)
        if is_kept:
            self._keep(entry_of(found, step, time.perf_counter() - begin))
            self._reporter.report(values, self.track)
        took = time.perf_counter() - begin  # with the file, which grows, and the loggers
        self.seconds += took
        # as long without measuring as keeps to the budget; the first one compiles kernels, and
        # says little of those to come
        share = self._budget if self.signature is not None else 0.5
        self._due = time.perf_counter() + took * (1 - share) / share
        if self._shared is not None:
            self._shared.begin()
        self.signature = found
        return values

    @property
    def ranks(self) -> Ranks | None:
        """The processes that hold shards of the network."""
        return self._ranks

    def _measured(self) -> Signature:
        try:
            return signature(
                self._network,
                self._probe,
                forward=self._forward,
                name=self.track.name,
                options=self._options,
                progress=False,
                **self._pool,
            )
        except Exception as error:
            error.add_note(UNMEASURED)
            raise

    def _keep(self, entry: Entry) -> None:
        """Add an entry to the track and its file; tell what is new."""
        events: tuple[Event, ...] = ()
        if self._limits is not None:
            earlier = [event for event in self.track.events if event.step < entry.step]
            events = events_of(entry.step, entry.sites, earlier, self._limits)
        self.track = self._joined(entry, events)
        self._save()
        for event in events:
            warnings.warn(str(event), TrainingWarning, stacklevel=_outside())
        if len(self.track) == 1 and entry.sites and all(one.reason for one in entry.sites):
            told = f"no site has a score, the first because {entry.sites[0].reason}"
            warnings.warn(told, TrainingWarning, stacklevel=_outside())

    def _joined(self, entry: Entry, events: tuple[Event, ...]) -> Track:
        return self.track.with_entry(entry, events)

    def state_dict(self) -> dict[str, Any]:
        """Return the history as plain values, to be kept in a checkpoint of the training."""
        from sigmascope.store import encode

        return {"track": encode(self.track), "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the history of a checkpoint.

        Raises:
            InputError: not the state of a monitor.
            ResumeError: one that was measured otherwise.
        """
        from sigmascope.store import decode

        missing = [name for name in ("track", "steps") if name not in state]
        if missing:
            raise InputError(
                f"the state of a monitor has no entry {missing[0]!r}. Pass what "
                "Monitor.state_dict() returned."
            )
        track = decode(Track, state["track"], "the state of a monitor")
        check_identity("the state of a monitor", track.options, self._options)
        self.track, self._steps = track, int(state["steps"])

    def close(self) -> None:
        """End the monitoring; the track remains, and says that it is finished."""
        was_open, self._closed = not self._closed, True  # also where the file cannot be written
        self._probe = []
        if was_open and self._saved:
            self._end(FINISHED)
            self._reporter.draw(self.track)

    def _end(self, how: str) -> None:
        self.track = replace(self.track, ended=how)
        self._save()

    def _save(self) -> None:
        if self._file is not None:
            self.track.save(self._file)
        self._saved = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._closed and self._saved:
            self._closed = True  # an error is no finish
            self._end(STOPPED.format(kind.__name__))
        self.close()


def values_of(found: Signature, prefix: str = PREFIX) -> dict[str, float]:
    """Return the scores of a signature for a logger."""
    values = found.to_dict(prefix)
    dead = [site.dead for site in found.sites if site.dead == site.dead]
    if dead:
        values[f"{prefix}dead_share"] = sum(dead) / len(dead)
    return values


def inner(model: nn.Module) -> nn.Module:
    """Return the network inside DistributedDataParallel and torch.compile; others are checked."""
    return unwrapped(model, sharded=True)


def _is_first_rank(model: nn.Module) -> bool:
    """Return whether this process measures: the networks of all ranks have the same weights."""
    import torch.distributed as dist

    return not is_replicated(model) or not dist.is_initialized() or dist.get_rank() == 0


def refuse_synchronized(network: nn.Module) -> None:
    """Raise a NetworkError if a layer waits for all ranks, of which only the first one measures."""
    for path, module in network.named_modules():
        if isinstance(module, nn.SyncBatchNorm) and module.training:
            raise NetworkError(
                f"the layer {path!r} is a SyncBatchNorm, which in training mode waits for all "
                "ranks, and only the first one measures. Leave out mode='as-is'."
            )


def _wait_for_device(network: nn.Module) -> None:
    """Wait for the step before, whose time is not that of the measurement."""
    first = next(network.parameters(), None)
    if first is not None and first.is_cuda:
        torch.cuda.synchronize(first.device)


def _continued(track: Track, file: Path | None) -> Track:
    if file is None or not file.exists():
        return track
    kept = Track.load(file)
    check_identity(file, {"options": kept.options}, {"options": track.options})
    return kept


def _outside() -> int:
    """Return the `stacklevel` of the first caller that is not in this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("sigmascope."):
        level, frame = level + 1, frame.f_back
    return level
