"""One network over one data set, divided among tasks; the parts are merged into its signature.

A task measures whole batches that follow each other, and writes what it found. The directory is
the truth: what a task has written is never measured again, whatever becomes of the others, of the
executor or of this process.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Unpack, cast

import torch
from torch import nn

from sigmascope.checks import check_whole
from sigmascope.errors import InputTypeError, PartError
from sigmascope.measure.batches import Forward
from sigmascope.measure.digests import digest_of_weights
from sigmascope.measure.options import SignatureOptions
from sigmascope.measure.parts import check_divisible
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import prepared
from sigmascope.measure.subject import current_versions, digest_of_layers
from sigmascope.runs.division import Source, sizes_of, source_of
from sigmascope.runs.executors import Executor
from sigmascope.runs.given import told_function
from sigmascope.runs.measuring import outcomes_of, targets_of
from sigmascope.runs.network import NetworkRun, open_data
from sigmascope.runs.outcome import Facts, Outcome
from sigmascope.runs.part_tasks import NamedWork
from sigmascope.runs.parts_folder import Division, opened, parts_beside
from sigmascope.runs.request import Request, Selection, request_for
from sigmascope.runs.started import under_way
from sigmascope.store import decode, encode
from sigmascope.store.files import Location, writable_directory

PENDING = 64


def split_signature(
    network: nn.Module | str,
    data: Any,
    *,
    parts: int,
    executor: Executor | str | None = None,
    out: Location | None = None,
    name: str | None = None,
    forward: Forward | None = None,
    progress: bool = True,
    **changes: Unpack[SignatureOptions],
) -> Signature:
    """Return the signature of a network, measured by several tasks on parts of the data.

    It is what `signature` returns on all of the data, up to rounding (1e-9), for any number of
    parts and tasks, in any order: batches and samples keep their numbers in the data.

    Args:
        network: any `nn.Module`, which is sent to the tasks; or the name of one in the catalog,
            which each task loads for itself.
        data: a list of batches, or a `DataLoader` over a data set that has a length, of which each
            task reads its own samples; with the name of a network also the name of data in the
            catalog, or a `Selection` of it.
        parts: into how many parts the data is divided, at borders of batches; with fewer batches,
            each is a part.
        executor: anything that has `submit`, such as those of concurrent.futures, submitit or
            dask; a text such as "local:4", "ray" or "slurm", see `--on`; by default one part is
            measured after the other in this process. A task that was lost is submitted again.
        out: a directory that keeps the parts, and which all tasks can write to. The same call
            measures only what is missing there. Without it they are sent back, and kept nowhere.
            With the names of a network and of data it is a directory of runs, or FILE.json. Other
            values in a list of batches are noticed; of a loader, which would have to be read for
            that, other numbers of batches and samples, and other values in the first batch of each
            part.
        name: of the network; by default its class, or its name in the catalog.
        forward: runs the network, see `signature`.
        progress: whether to show a progress bar, on a terminal.
        **changes: the options of `signature`.

    Raises:
        PartError: some parts failed; the message says which and why.
        InputTypeError: data that cannot be divided.
        NetworkError: a network in shards, or one that differs between tasks.
        OptionError: mode="as-is" with layers in training mode; and as `signature`.
        ResumeError: the directory has parts of another network, of other data or options.

    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh())
    >>> batches = [torch.randn(64, 8) for _ in range(6)]
    >>> split_signature(network, batches, parts=4).scores.round(3).tolist()
    [0.678, 0.958]
    """
    check_whole("parts", parts, 1)
    named = isinstance(data, (str, Selection))
    if isinstance(network, str) and named and name is None and forward is None:
        chosen = Selection(data) if isinstance(data, str) else data
        request = request_for([network], chosen, options=cast(dict[str, Any], changes))
        with opened(executor) as there:
            measured = measure_split(request, out, parts=parts, executor=there, progress=progress)
            outcome = next(measured)
        if outcome.signature is None:
            raise PartError(outcome.failure.message if outcome.failure else BUSY.format(network))
        return outcome.signature
    if isinstance(network, str) or named:
        raise InputTypeError(
            "network and data must both be names of the catalog, without name and forward; or a "
            "network, such as sigmascope.catalog.model(NAME).network, and batches."
        )
    given = cast(dict[str, Any], changes)
    run = prepared(network, given, name=name, forward=forward)
    check_divisible(run)
    source = source_of(data, run.options)
    functions = {key: value for key, value in given.items() if callable(value)}
    called = {} if forward is None else {"forward": forward}
    header: dict[str, object] = {
        "network": run.name,
        "weights": digest_of_weights(run.network),
        "layers": digest_of_layers(run.network),
        "functions": {key: told_function(one) for key, one in {**functions, **called}.items()},
        **_about(source),
        "values": source.values(),
        "options": encode(run.options),
    }
    folder = None if out is None else writable_directory(out)
    work = Division(run.network, run.name, source, run.options, header, functions, forward, folder)
    with opened(executor) as there:
        return work.measured(parts, there, progress=progress)[0]


def measure_split(
    request: Request,
    out: Location | None = None,
    *,
    parts: int,
    executor: Executor | None = None,
    resume: bool = True,
    device: str = "auto",
    progress: bool = True,
    pending: int = PENDING,
) -> Iterator[Outcome]:
    """Measure networks one after the other, each divided among tasks; yield what became of each.

    A run may be killed at any moment: the same call measures only the parts that are missing.

    Args:
        request: what to measure.
        out: a directory of runs, which all tasks can write to; FILE.json, for a single network; or
            None to keep nothing.
        parts: into how many parts the data is divided, at borders of batches.
        executor: anything that has `submit`; None for this process.
        resume: whether to keep what the directory already has.
        device: the device of the networks, in each task; "auto" is the first CUDA device that the
            task sees, or else the CPU.
        progress: whether to show a progress bar, on a terminal.
        pending: how many tasks may wait at a time.

    Raises:
        ResumeError: the directory belongs to another request.
        OptionError, InputError: data that cannot be used; a directory that holds other things.

    >>> from sigmascope.runs import Selection, request_for
    >>> data = Selection("embedded", limit=64, batch_size=32)
    >>> request = request_for(["sigmascope/resnet20"], data)
    >>> [outcome] = measure_split(request, parts=2)
    >>> outcome.state, outcome.signature.samples
    ('measured', 64)
    """
    check_whole("parts", parts, 1)
    source = _source(request)  # data that cannot be opened would fail every task
    place, files = targets_of(request, request.names, out)
    here = torch.device("cpu")  # nothing is measured in this process
    networks = [
        SplitNetwork(
            name,
            own,
            request,
            here,
            resume,
            progress,
            place,
            source=source,
            parts=parts,
            executor=executor,
            where=device,
            pending=pending,
        )
        for name, own in zip(request.names, files, strict=True)
    ]
    yield from outcomes_of(networks, NetworkRun.outcome)


BUSY = "another process is measuring {}. The same call picks it up, if that one stops."


def _source(request: Request) -> Source:
    data = open_data(request, lambda samples: samples)
    sizes = sizes_of(data)[: request.options.max_batches]
    return Source((0, *accumulate(sizes)), data)


def _about(source: Source) -> dict[str, object]:
    versions: object = current_versions()
    return {"batches": source.total, "samples": source.starts[-1], "versions": versions}


@dataclass(frozen=True)
class SplitNetwork(NetworkRun):
    """A network of a directory of runs that several tasks measure.

    Attributes:
        source: the data, of which each task opens its part by name.
        parts: how many there are.
        executor: what runs the tasks.
        where: the device of the network in each task.
        pending: how many tasks may wait at a time.
    """

    source: Source | None = None
    parts: int = 1
    executor: Any = None
    where: str = "auto"
    pending: int = PENDING

    def _measured(self) -> Outcome:
        """Measure the parts that are missing, merge all of them, and write the signature."""
        request, source = self.request, self.source or _source(self.request)
        header: dict[str, object] = {
            "network": self.name,
            "weights": request.weights,
            "files": dict(request.files),
            "data": encode(request.data),
            **_about(source),
            "options": encode(request.options),
        }
        folder = parts_beside(self.files.partial) if self.files else None
        if folder and not self.resume:
            shutil.rmtree(folder, ignore_errors=True)
        with under_way(self.files.started if self.files else None, self.name):
            work = NamedWork(request, self.name, self.where)
            division = Division(work, self.name, source, request.options, header, folder=folder)
            found, facts = division.measured(
                self.parts, self.executor, progress=self.progress, pending=self.pending
            )
            stored = self._stored(found, decode(Facts, {"name": self.name, **facts}))
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        return stored
