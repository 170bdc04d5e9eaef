"""The networks of a request, measured one after the other; a failure does not stop the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sigmascope.checks import check_choice
from sigmascope.errors import OptionError
from sigmascope.runs import started
from sigmascope.runs.folder import NetworkFiles, Place, files_beside, files_of, open_folder
from sigmascope.runs.isolation import Isolation, Worker
from sigmascope.runs.network import NetworkRun, checked_device, open_data
from sigmascope.runs.outcome import Outcome
from sigmascope.runs.request import Request, Shard, check_storable
from sigmascope.runs.started import Pulses
from sigmascope.store.files import Location, checked_target


def measure_runs(
    request: Request,
    out: Location | None = None,
    *,
    shard: Shard | None = None,
    resume: bool = True,
    device: str = "auto",
    progress: bool = True,
    isolate: bool | Isolation = False,
    skip: Sequence[str] = (),
) -> Iterator[Outcome]:
    """Measure the networks of a request, one after the other, and yield what became of each.

    A run may be killed at any moment: the same call continues it, and the result is that of an
    uninterrupted run. If a network kills it, the same call names that network. Several processes,
    on one machine or on many, may share a directory; each network is measured by the process that
    claims it first. A network that another process is measuring comes last.

    Args:
        request: what to measure.
        out: a directory; a file that ends in `.json`, for a single network; or None to write
            nothing. A finished file is measured again, since it does not say on which data it was
            measured; its facts are written beside it.
        shard: the networks to measure; by default all.
        resume: whether to keep what the directory already has and to continue partial runs.
        device: the device of the networks; "auto" is the first CUDA device, or else the CPU.
        progress: whether to show progress bars, on a terminal.
        isolate: whether to measure in a child process, so that a network that kills it is a failure
            like others; or `Isolation(time_limit=...)`. It needs a directory, and costs the start
            of one process, some seconds, and on systems that cannot fork one more after each crash.
        skip: names of networks to leave out.

    Raises:
        ResumeError: the directory belongs to another request.
        OptionError, InputError: data or a device that cannot be used; a directory or a file that
            holds other things; names to skip that are not in the request.

    >>> from sigmascope.runs import Selection, request_for
    >>> data = Selection("embedded", limit=64)
    >>> request = request_for(["sigmascope/resnet20", "sigmascope/resnet2"], data)
    >>> for outcome in measure_runs(request):
    ...     print(outcome.name, outcome.state)
    sigmascope/resnet20 measured
    sigmascope/resnet2 failed
    """
    chosen, target = (shard or Shard()).of(request.names), checked_device(device)
    for name in skip:
        check_choice("skip", name, request.names)
    open_data(request, lambda samples: samples)  # or else every network would fail
    place, files = targets_of(request, chosen, out)
    networks = [
        NetworkRun(name, own, request, target, resume, progress, place)
        for name, own in zip(chosen, files, strict=True)
    ]
    if not isolate:
        return outcomes_of(networks, NetworkRun.outcome, skip)
    if place is None:
        raise OptionError("isolate needs a directory that the child process writes to. Pass out.")
    limit = None if isolate is True else isolate.time_limit
    return _isolated(networks, Worker(place.path, target, resume=resume, time_limit=limit), skip)


def outcomes_of(
    networks: Sequence[NetworkRun],
    measure: Callable[[NetworkRun], Outcome],
    skip: Sequence[str] = (),
) -> Iterator[Outcome]:
    """Yield what becomes of networks; those that others measure come last, and are then watched."""
    busy = []
    for network in networks:
        found = network.left_out() if network.name in skip else measure(network)
        if found.state == "busy":
            busy.append(network)
        else:
            yield found
    # by now, the other process may have finished them, or have died
    pulses = Pulses()
    for network in busy:
        while network.use(pulses) == "unknown":
            time.sleep(started.BEAT / 5)
        yield measure(network)


def _isolated(
    networks: Sequence[NetworkRun], worker: Worker, skip: Sequence[str]
) -> Iterator[Outcome]:
    with worker:
        yield from outcomes_of(networks, worker.outcome, skip)


def targets_of(
    request: Request, names: tuple[str, ...], out: Location | None
) -> tuple[Place | None, list[NetworkFiles | None]]:
    """Return where to write each network, checked before anything is measured."""
    if out is None:
        return None, [None] * len(names)
    check_storable(request)
    if Path(out).suffix == ".json" and len(request.names) == 1:
        checked_target(out)
        return None, [files_beside(out)] * len(names)
    folder = open_folder(out, request)
    return Place.at(folder), [files_of(folder, name) for name in names]
