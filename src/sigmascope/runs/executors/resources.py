"""What one task needs, and the texts that name an engine."""

from __future__ import annotations

import math
import os
import re
import shutil
from dataclasses import dataclass
from typing import Literal, Self

from sigmascope.checks import check_number, check_whole
from sigmascope.errors import OptionError

Kind = Literal["local", "ray", "slurm"]
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
FORMS = "'local:4', 'ray', 'ray://HOST:10001', 'auto', 'slurm' or 'slurm:PARTITION'"


@dataclass(frozen=True)
class Resources:
    """What one task needs.

    Attributes:
        cpus: cores; torch computes with as many threads.
        gpus: GPUs; a fraction lets several tasks share one. Engines only keep the books: nothing
            stops a task from using all of its GPU.
        memory: bytes; None for what the engine gives.
        time_limit: seconds; Slurm jobs ask for it. None for no limit, or a day of Slurm.

    >>> Resources(cpus=2, gpus=0.5, memory=4 * 2**30).threads
    2
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_number("cpus", self.cpus, strict=True)
        check_number("gpus", self.gpus)
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise OptionError(f"gpus above 1 must be a whole number, got {self.gpus}.")
        if self.memory is not None:
            check_whole("memory", self.memory, 1)
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, strict=True)

    @property
    def threads(self) -> int:
        """The number of threads that one task computes with."""
        return max(1, int(self.cpus))

    @property
    def sharing(self) -> int:
        """How many tasks share one GPU, if each has a fraction of it; or else 1."""
        return math.floor(1 / self.gpus + 1e-9) if 0 < self.gpus < 1 else 1


@dataclass(frozen=True)
class Engine:
    """Where tasks run.

    Attributes:
        kind: "local", "ray" or "slurm".
        where: the number of processes; the address of a Ray cluster, "" for one that is started
            and stopped; the partition of Slurm, "" for its default.
    """

    kind: Kind
    where: str = ""

    @classmethod
    def named(cls, text: str) -> Self:
        """Return the engine of a text.

        >>> Engine.named("local:4")
        Engine(kind='local', where='4')
        >>> Engine.named("ray"), Engine.named("auto")
        (Engine(kind='ray', where=''), Engine(kind='ray', where='auto'))
        """
        if re.fullmatch(r"local(:[1-9]\d{0,3})?", text):
            return cls("local", text.partition(":")[2] or str(cores()))
        if text == "ray":
            return cls("ray")
        if text == "auto" or re.fullmatch(r"ray://[^\s/:]+:\d{1,5}", text):
            return cls("ray", text)
        if re.fullmatch(r"slurm(:[\w.,-]+)?", text):
            return cls("slurm", text.partition(":")[2])
        raise OptionError(f"on={text!r:.80} is not an engine. Pass {FORMS}.")

    @property
    def is_here(self) -> bool:
        """Whether tasks run on this machine and nowhere else."""
        own_ray = self.kind == "ray" and not self.where
        return self.kind == "local" or own_ray or (self.kind == "slurm" and not has_slurm())

    def check(self, resources: Resources) -> None:
        """Raise an OptionError where a task needs more than this machine has, and runs on it.

        >>> Engine.named("local:1").check(Resources(cpus=1))
        """
        count = int(self.where) if self.kind == "local" else 1
        if not self.is_here or self.kind == "slurm" or not resources.gpus:
            return
        need = math.ceil(resources.gpus) * math.ceil(count / resources.sharing)
        there = len(devices())
        if need > there:
            tasks = f"{count} processes with" if self.kind == "local" else "a network with"
            verb = "need" if count > 1 else "needs"
            fewer = "for fewer processes, or " if count > 1 else ""
            raise OptionError(
                f"{tasks} gpus={resources.gpus:g} {verb} {need} GPU{'s' * (need != 1)}, and "
                f"this machine has {there}. Ask {fewer}for a smaller fraction."
                if there
                else f"gpus={resources.gpus:g}, and this machine has no GPU that torch can use. "
                "Leave gpus out."
            )

    def __str__(self) -> str:
        match self.kind, self.where:
            case "local", count:
                return f"{count} process{'' if count == '1' else 'es'} of this machine"
            case "ray", "":
                return f"a Ray of {cores()} cores, started and stopped on this machine"
            case "ray", "auto":
                return "the Ray cluster of this machine"
            case "ray", address:
                return f"the Ray cluster at {address}"
            case _ if not has_slurm():
                return "processes of this machine, since it has no sbatch to reach a Slurm by"
            case _, partition:
                return f"Slurm, partition {partition}" if partition else "Slurm"


def read_size(text: str) -> int:
    """Return the number of bytes of a text such as "8G" or "500M".

    >>> read_size("8G"), read_size("1.5K"), read_size("100")
    (8589934592, 1536, 100)
    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I)
    size = int(float(found[1]) * UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise OptionError(f"memory={text!r:.80} is not a size. Pass one such as '8G' or '500M'.")
    return size


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def devices() -> list[str]:
    """Return the GPUs of this machine that this process may use."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [device for device in given.split(",") if device]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def has_slurm() -> bool:
    """Return whether jobs can be submitted to a Slurm from here."""
    return shutil.which("sbatch") is not None
