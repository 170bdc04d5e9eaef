"""What a survey costs beside the networks: 1,000 through Ray, and a directory of 100,000.

The floor of the first part: N networks that take t seconds each take N t / 2 on two cores, and Ray
has its own time for a task that does nothing. A network of a survey is claimed (a lock file),
marked (one file), measured with a journal (one file that grows), written (two files, atomically,
with fsync), and its name goes to a child process and back. Eight file operations of 0.1 to 2 ms are
10 ms at most. Prediction: below 30 ms a network beyond Ray's own time, where 50 ms are allowed. The
start is counted apart: two workers and two children import torch.

The floor of the second part: the names of 200,000 files take 0.2 s to list, the manifest, 5 MB of
JSON, 0.3 s to read. Prediction: below 3 s to list, to resume, and to read or compare a selection of
50. To read all 100,000 signatures takes 0.5 ms each, which nothing but a smaller file can change.

Processor time stands beside the time that passed, since other work on the machine stretches only
the latter. Run as `python benchmarks/survey.py ray [N]` and `python benchmarks/survey.py folder
[N]`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setting import describe, progress

import sigmascope as sg
from sigmascope.catalog import data, model
from sigmascope.runs import Selection, list_runs, load_runs, request_for, survey_outcomes
from sigmascope.runs.executors import Resources, finished_calls, open_executor
from sigmascope.runs.folder import files_of, open_folder
from sigmascope.runs.one import _read_request, _request_in, measure_one
from sigmascope.store import encode
from sigmascope.store.documents import dump, wrap

SOURCE = """
import torch
from torch import nn

inputs = torch.zeros(1, 3, 8, 8)

def __getattr__(name):
    if not name.startswith("tiny_"):
        raise AttributeError(name)
    def build():
        torch.manual_seed(int(name.removeprefix("tiny_")))
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Tanh())
    return build
"""
DATA = Selection("random:8", limit=64, batch_size=32)
SELECTED = 50
WARM = 16  # networks that are measured before the clock starts


@dataclass(frozen=True)
class Took:
    """Seconds that passed, and seconds of processors, of this process and all below it."""

    passed: float
    processor: float

    def __truediv__(self, count: float) -> Took:
        return Took(self.passed / count, self.processor / count)

    def __sub__(self, other: Took) -> Took:
        return Took(self.passed - other.passed, self.processor - other.processor)


def timed(work: Callable[[], object]) -> Took:
    """Return the time of some work."""
    begin, used = time.perf_counter(), processor_time()
    work()
    return Took(time.perf_counter() - begin, processor_time() - used)


def processor_time() -> float:
    """Return the processor time of this process and of those below it that live."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    family, grown = set[int](), {os.getpid()}
    while family != grown:
        family = grown
        grown = family | {one for one, (parent, _) in stats.items() if parent in family}
    return sum(stats[one][1] for one in family if one in stats) / os.sysconf("SC_CLK_TCK")


def names_in(folder: Path, count: int) -> list[str]:
    """Write the file of networks, and name some."""
    (folder / "networks.py").write_text(SOURCE)
    return [f"py:{folder}/networks.py:tiny_{number}" for number in range(count)]


def nothing(folder: str, name: str, order: object) -> str:
    """Take what a task takes, and do nothing."""
    return name


def own_time(names: list[str]) -> Took:
    """Return what a signature takes in this process, without any file."""
    batches = list(data(DATA.name, limit=DATA.limit, batch_size=DATA.batch_size))

    def measure(name: str) -> None:
        sg.signature(model(name, weights=None).network, batches, progress=False)

    measure(names[0])
    return timed(lambda: [measure(name) for name in names[:100]]) / 100


def through_ray(count: int) -> None:
    """Print what a network costs through Ray."""
    with tempfile.TemporaryDirectory() as place:
        names = names_in(Path(place), count + WARM)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = own_time(names)
        request, folder = request_for(names, DATA), Path(place) / "runs"
        rows: dict[str, Took] = {"signature in one process, without files": own}
        opening = time.perf_counter()
        with open_executor("ray", Resources(cpus=1)) as executor:
            start = time.perf_counter() - opening
            empty = [(nothing, str(folder), name, None) for name in names]
            list(finished_calls(executor, empty[:WARM]))
            alone = timed(lambda: list(finished_calls(executor, empty[WARM:]))) / count
            outcomes = survey_outcomes(request, folder, executor=executor, device="cpu")
            first = timed(lambda: [next(outcomes) for _ in range(WARM)])
            took = timed(lambda: [progress(one.name) for one in outcomes]) / count
        done = list_runs(folder).counts()
    rows |= {
        "empty task of Ray, both cores": alone,
        "network of the survey, both cores": took,
        "of which beyond a signature and an empty task": took
        - Took(own.passed / 2, own.processor)
        - alone,
    }
    print(describe("cpu"))
    print(
        f"\n{count:,} networks, {done['finished'] - WARM:,} signatures. Start of Ray {start:.1f} s;"
    )
    print(
        f"of two workers with their children, and the first {WARM} networks {first.passed:.1f} s.\n"
    )
    print("| | ms | ms of processors |\n|---|---:|---:|")
    for name, value in rows.items():
        print(f"| {name} | {1000 * value.passed:.1f} | {1000 * value.processor:.1f} |")


def filled(place: Path, count: int) -> tuple[Path, list[str]]:
    """Write a directory of runs with that many outcomes, without measuring each."""
    names = names_in(place, count)
    request, folder = request_for(names, DATA), place / "runs"
    open_folder(folder, request)
    outcome = measure_one(folder, names[0], device="cpu")
    signature: Any = encode(outcome.signature)
    facts: Any = encode(outcome.facts)
    for number, name in enumerate(names):
        if number % 1000 == 0:
            progress(f"{number} written")
        files = files_of(folder, name)
        for path, kind, version, content in (
            (files.finished, "signature", 2, signature),
            (files.facts, "facts", 1, facts),
        ):
            document = wrap(kind, version, content | {"name": name})
            path.write_bytes(dump(document, indent=1, sealing=True) + b"\n")
    return folder, names


def large_folder(count: int) -> None:
    """Print what the commands take with a directory of very many outcomes."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        folder, names = filled(place, count)
        (place / "names.txt").write_text("\n".join(names))
        some = [f"*_{number}" for number in range(7, 7 + SELECTED)]
        only = [word for pattern in some for word in ("--only", pattern)]
        measure = ("measure", f"@{place}/names.txt", "--data", DATA.name, "--on", "local:1")
        request = ("--limit", str(DATA.limit), "--batch-size", str(DATA.batch_size))
        _read_request.cache_clear()
        work: dict[str, Callable[[], object]] = {
            "list_runs": lambda: list_runs(folder),
            "read the manifest, once in a process": lambda: _request_in(folder),
            "sigmascope measure, nothing left to do": lambda: command(
                *measure, *request, "-o", folder
            ),
            "sigmascope watch --once": lambda: command("watch", folder, "--once"),
            f"load_runs of {SELECTED}": lambda: load_runs([folder], only=some),
            f"sigmascope show --json of {SELECTED}": lambda: command(
                "show", folder, "--json", *only
            ),
            f"sigmascope compare of {SELECTED}": lambda: command("compare", folder, *only),
            f"load_runs of all {count:,}": lambda: load_runs([folder]),
        }
        rows = {name: timed(one) for name, one in work.items()}
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
    print(describe("cpu"))
    print(
        f"\n{count:,} outcomes, {size / 1e6:,.0f} MB.\n\n| | s | s of processors |\n|---|---:|---:|"
    )
    for name, value in rows.items():
        print(f"| {name} | {value.passed:.1f} | {value.processor:.1f} |")


def command(*arguments: object) -> None:
    """Run a command in this process."""
    from sigmascope.cli import main

    told = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        try:
            main([str(one) for one in arguments], prog_name="sigmascope")
        except SystemExit as end:
            if end.code:
                sys.exit(f"sigmascope {arguments[0]} ended with {end.code}: {told.getvalue()}")


PARTS = {"ray": (through_ray, 1000), "folder": (large_folder, 100_000)}

if __name__ == "__main__":
    part, usual = PARTS[sys.argv[1]]
    part(int(sys.argv[2]) if len(sys.argv) > 2 else usual)
