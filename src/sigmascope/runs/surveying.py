"""Surveys: many networks, measured by tasks on any executor, into one directory.

The directory is the truth. What it has is kept, whoever wrote it; what a task returns is only news.
So any mixture of executors, machines and restarts continues where the others stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from torch import nn

from sigmascope.checks import check_choice, options_from
from sigmascope.errors import InputTypeError, OptionError
from sigmascope.runs.conducting import How, Survey, check_executor, conducted
from sigmascope.runs.executors import Engine, Executor, Resources
from sigmascope.runs.executors.slurm import SlurmJobs
from sigmascope.runs.folder import MANIFEST, open_folder
from sigmascope.runs.given import Given, given_request
from sigmascope.runs.network import open_data
from sigmascope.runs.outcome import Outcome
from sigmascope.runs.request import Request, Selection, Shard, check_storable, request_for
from sigmascope.runs.tally import Tally
from sigmascope.store.files import Location


class SurveyKeywords(TypedDict, total=False):
    """How a survey is carried out.

    Attributes:
        resources: what each task needs: cores, GPUs, memory, time.
        pending: how many tasks are submitted and not ended, at most.
        isolate: whether each network is measured in a child process of its task, so that one that
            crashes, hangs or fills the memory fails alone, with a reason. It is off for networks
            that are handed over.
        device: of the networks; "auto" is a GPU that the task was given, or else the CPU.
        resume: whether to keep what the directory has and to continue partial runs.
        shard: the networks to measure; by default all.
        skip: names of networks to leave out.
        watch: called with the tally, about twice a second.
    """

    resources: Resources
    pending: int
    isolate: bool
    device: str
    resume: bool
    shard: Shard
    skip: Sequence[str]
    watch: Callable[[Tally], None]


def survey(
    networks: Sequence[str] | Mapping[str, nn.Module],
    data: Selection | Any,
    *,
    out: Location,
    executor: Executor | str = "local:1",
    weights: str = "default",
    options: Mapping[str, Any] | None = None,
    **how: Unpack[SurveyKeywords],
) -> list[Outcome]:
    """Measure many networks into a directory, on any executor; return what became of each.

    Each task claims its network, measures it and writes its files. The same call, with this or
    another executor, on this or another machine that sees the directory, continues where earlier
    ones stopped. Read the signatures with `sg.load(out)`.

    Args:
        networks: names of the catalog; or name -> network, handed over to the tasks.
        data: a `Selection` of the catalog; for networks that are handed over, a loader or a list
            of batches, which is handed over too. When a survey goes on, other values in a list are
            noticed; in a loader, only those of its first batch and other numbers of batches and
            samples.
        out: the directory; every machine must see it under this path.
        executor: anything that has `submit`, such as those of concurrent.futures, submitit,
            dask.distributed and loky; or a text: "local:4", "ray", "ray://HOST:10001", "auto",
            "slurm" or "slurm:PARTITION".
        weights: "default", or "none" for random weights; for names of the catalog.
        options: keyword -> value, those of `sigmascope.signature` that affect the result.
        **how: see `SurveyKeywords`.

    Raises:
        ResumeError: the directory belongs to another request.
        LostTaskError: the executor takes no more tasks.
        OptionError, InputError, InputTypeError: naming what is wrong.

    >>> from tempfile import TemporaryDirectory
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import torch
    >>> networks = {
    ...     "relu": torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()),
    ...     "tanh": torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()),
    ... }
    >>> with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
    ...     found = survey(networks, [torch.randn(64, 8)], out=folder, executor=pool)
    ...     [(outcome.name, outcome.state) for outcome in found]
    [('relu', 'measured'), ('tanh', 'measured')]
    """
    given = None
    if isinstance(networks, Mapping):
        request, given = given_request(networks, data, options)
    elif isinstance(data, Selection):
        request = request_for(networks, data, weights=weights, options=options)
    else:
        raise InputTypeError(
            f"data must be a Selection for names of the catalog, got {type(data).__name__}. Pass "
            "Selection('imagefolder:val', limit=512), or a dict of networks with a loader."
        )
    outcomes = {
        outcome.name: outcome
        for outcome in survey_outcomes(request, out, executor=executor, given=given, **how)
    }
    return [outcomes[name] for name in request.names if name in outcomes]


def survey_outcomes(
    request: Request,
    out: Location,
    *,
    executor: Executor | str,
    given: Given | None = None,
    **how: Unpack[SurveyKeywords],
) -> Iterator[Outcome]:
    """Return an iterator over what becomes of the networks of a request; see `survey`.

    The outcomes have no signatures: those are in the files that they name. What the directory
    already has comes first.

    >>> import tempfile
    >>> from sigmascope.runs import Selection, measure_runs, request_for
    >>> request = request_for(["sigmascope/resnet20"], Selection("embedded", limit=64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = list(measure_runs(request, folder))
    ...     [one.state for one in survey_outcomes(request, folder, executor="local:2")]
    ['kept']
    """
    chosen = options_from(How, how)
    for name in chosen.skip:
        check_choice("skip", name, request.names)
    check_storable(request)
    if given is None:
        open_data(request, lambda samples: samples)  # or else every network would fail
    elif chosen.resources.time_limit is not None and not _ends_jobs(executor):
        raise OptionError(
            "a time limit needs a process that can be ended, and networks that are handed over are "
            "measured in that of their task. Leave out time_limit, use Slurm, or pass names of the "
            "catalog, such as 'py:FILE:FUNCTION'."
        )
    if not (Path(out) / MANIFEST).exists():  # what is refused leaves no directory of this request
        check_executor(executor, chosen.resources)
    folder = open_folder(out, request)
    return conducted(Survey(request, folder, chosen, given), executor)


def _ends_jobs(executor: Executor | str) -> bool:
    """Return whether an executor itself ends what takes too long."""
    if isinstance(executor, str):
        return Engine.named(executor).kind == "slurm"
    return isinstance(executor, SlurmJobs)
