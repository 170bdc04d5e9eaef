"""What a survey would do: which networks, where, roughly how long and how large. Nothing is run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from sigmascope.catalog.models import model
from sigmascope.errors import SigmascopeError
from sigmascope.runs.division import divided
from sigmascope.runs.folder import files_of, read_manifest
from sigmascope.runs.listing import listing_of
from sigmascope.runs.network import open_data
from sigmascope.runs.parts_folder import parts_beside, spans_in
from sigmascope.runs.request import Request, Shard
from sigmascope.runs.tally import in_words
from sigmascope.store import check_identity

PROBES = 3  # networks that are built to see how large they are
# Beside the forward pass: what scoring costs, for one activation call of one batch, in seconds.
SCORING = 0.02
START = 10.0  # seconds until a process has imported torch and has built its first network
KILOBYTES = 2.0  # of a signature file, for one activation call


@dataclass(frozen=True)
class Plan:
    """What a survey would do.

    Attributes:
        states: how many networks are finished, failed, running and open.
        open: the networks to measure.
        probed: network -> (parameters, forward operations of one sample, activation calls) of some.
        failed: network -> why it could not be built, of those that were tried.
        samples: of the data, for each network.
        batches: of the data, for each network.
        speed: floating-point operations per second of one core of this machine.
        parts: into how many parts the data of each network is divided; None if it is not.
        missing: how many parts of each open network are to be measured.
    """

    states: dict[str, int]
    open: tuple[str, ...]
    probed: dict[str, tuple[int, int, int]]
    failed: dict[str, str]
    samples: int
    batches: int
    speed: float
    parts: int | None = None
    missing: tuple[int, ...] = ()

    def seconds(self, cores: float) -> float | None:
        """Return a rough time for one network, or one part of its data, on some cores.

        None if no network could be looked at.
        """
        if not self.probed:
            return None
        whole = median(
            self.samples * flops / (self.speed * max(1.0, cores)) + SCORING * calls * self.batches
            for _, flops, calls in self.probed.values()
        )
        return whole / (self.parts or 1)

    def lines(self, tasks: int, cores: float, where: str) -> list[str]:
        """Return the plan in words.

        Args:
            tasks: how many networks, or parts of one, are measured at a time.
            cores: for each of them.
            where: what runs them.
        """
        counts = ", ".join(f"{count} {state}" for state, count in self.states.items() if count)
        # tasks are networks; or the parts of one network after the other
        rounds = [len(self.open)] if self.parts is None else list(self.missing)
        tasks = max(1, min(tasks, max(rounds, default=1)))
        what = "" if self.parts is None else f" part{'s' * (tasks != 1)}"
        lines = [
            f"networks   {sum(self.states.values())}: {counts}; {len(self.open)} to measure",
            f"where      {where}; {tasks}{what} at a time",
            f"data       {self.samples} samples in {_batches(self.batches)} for each network",
        ]
        if self.parts is not None:
            there = max(0, self.parts * len(self.open) - sum(self.missing))
            lines.append(
                f"parts      {self.parts} for each network; {sum(self.missing)} to measure"
                + f", {there} there already" * (there > 0)
            )
        each = self.seconds(cores)
        if each is not None and self.open:
            total = START + each * sum(math.ceil(count / tasks) for count in rounds)
            lines += self._sizes(each, total)
        for name, reason in self.failed.items():
            lines.append(f"cannot be built: {name}: {reason}")
        return lines

    def _sizes(self, each: float, total: float) -> list[str]:
        """Return how long one network and all take, and how large what they write is."""
        largest = max(parameters for parameters, _, _ in self.probed.values())
        calls = median(calls for _, _, calls in self.probed.values())
        kilobytes = KILOBYTES * calls * len(self.open)
        one = "one" if self.parts is None else "one part"
        return [
            f"time       about {in_words(each)} for {one} on this machine's CPU, "
            f"{in_words(total)} for all with their start; within a factor of a few",
            f"size       about {_size(kilobytes)} of results; weights up to "
            f"{4 * largest / 1e6:,.0f} MB in memory, of the networks looked at",
            f"looked at  {', '.join(self.probed)}",
        ]


def plan_survey(
    request: Request,
    folder: Path | None,
    *,
    shard: Shard | None = None,
    skip: Sequence[str] = (),
    parts: int | None = None,
) -> Plan:
    """Return what a survey would do, after building a few of its networks without weights.

    Args:
        request: what to measure.
        folder: the directory of the survey, which need not exist yet; None to keep nothing.
        shard: the networks to measure; by default all.
        skip: networks to leave out.
        parts: into how many parts the data of each network is divided.

    Raises:
        ResumeError: the directory belongs to another request.
        OptionError, InputError: data that cannot be used.
    """
    chosen = [name for name in (shard or Shard()).of(request.names) if name not in skip]
    states = dict.fromkeys(chosen, "open")
    manifest = read_manifest(folder) if folder is not None and folder.is_dir() else None
    if folder is not None and manifest is not None:
        check_identity(folder, manifest.request, request)
        known = listing_of(folder, manifest.request).states
        states = {name: str(known[name]) for name in chosen}
    left = tuple(name for name, state in states.items() if state != "finished")
    counts = {
        state: sum(one == state for one in states.values())
        for state in ("finished", "failed", "running", "open")
    }
    probed, failed = _probed(left)
    samples, batches = _extent(request)
    plan = Plan(counts, left, probed, failed, samples, batches, _speed())
    if parts is None:
        return plan
    missing = tuple(_missing(folder, name, batches, parts) for name in left)
    return replace(plan, parts=min(parts, batches), missing=missing)


def _missing(folder: Path | None, name: str, batches: int, parts: int) -> int:
    """Return how many parts of a network are to be measured."""
    kept = [] if folder is None else spans_in(parts_beside(files_of(folder, name).partial))
    return len(divided(batches, parts, sorted(kept)))


def _size(kilobytes: float) -> str:
    return f"{kilobytes:.0f} kB" if kilobytes < 1000 else f"{kilobytes / 1000:.1f} MB"


def _batches(count: int) -> str:
    return f"{count} batch{'es' * (count != 1)}"


def _probed(names: Sequence[str]) -> tuple[dict[str, tuple[int, int, int]], dict[str, str]]:
    """Return the size of some networks, evenly spread, and why others could not be built."""
    count = min(PROBES, len(names))
    probed, failed = {}, {}
    for name in [names[k * len(names) // count] for k in range(count)]:
        try:
            entry = model(name, weights=None)
            facts = entry.facts()
            probed[name] = (entry.parameters, facts["flops"] or 0, facts["depth"] or 1)
        except SigmascopeError as error:
            failed[name] = str(error)
        except Exception as error:  # whatever the code of a network raises
            failed[name] = f"{type(error).__name__}: {error}"
    return probed, failed


def _extent(request: Request) -> tuple[int, int]:
    """Return the number of samples and batches of a request."""
    found, most = open_data(request, lambda samples: samples), request.options.max_batches
    if most is not None and most < len(found):
        return most * found.batch_size, most
    return found.size, len(found)


def _speed() -> float:
    """Return the floating-point operations per second of one core here, by a small product."""
    matrix = torch.ones(384, 384)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        best = math.inf
        for _ in range(5):
            begin = time.perf_counter()
            matrix @ matrix
            best = min(best, time.perf_counter() - begin)
    finally:
        torch.set_num_threads(before)
    return 2 * 384**3 / best / 3  # convolutions reach about a third of a product
