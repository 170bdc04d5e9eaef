"""What a survey costs beside the networks: 1,000 through Ray, and a directory of 100,000.

The floor of the first part: N networks that take t seconds each take N t / 2 on two cores, and Ray
has its own time for a task that does nothing. A network of a survey is claimed (a lock file), marked
(one file), measured with a journal (one file that grows), written (two files, atomically, with
fsync), and its name goes to a child process and back. Eight file operations of 0.1 to 2 ms are
10 ms at most. Prediction: below 30 ms a network beyond Ray's own time, where 50 ms are allowed. The
start is counted apart: two workers and two children import torch.

The floor of the second part: the names of 200,000 files take 0.2 s to list, the manifest, 5 MB of
JSON, 0.3 s to read. Prediction: below 3 s to list, to resume, and to read or compare a selection of
50. To read all 100,000 signatures takes 0.5 ms each, which nothing but a smaller file can change.

Run as `python benchmarks/survey.py ray [N]` and `python benchmarks/survey.py folder [N]`.
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


def seconds(work: Callable[[], object]) -> float:
    """Return the time of some work."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def names_in(folder: Path, count: int) -> list[str]:
    """Write the file of networks, and name some."""
    (folder / "networks.py").write_text(SOURCE)
    return [f"py:{folder}/networks.py:tiny_{number}" for number in range(count)]


def nothing(folder: str, name: str, order: object) -> str:
    """Take what a task takes, and do nothing."""
    return name


def own_time(names: list[str]) -> float:
    """Return the seconds that a signature takes in this process, without any file."""
    batches = list(data(DATA.name, limit=DATA.limit, batch_size=DATA.batch_size))

    def measure(name: str) -> None:
        sg.signature(model(name, weights=None).network, batches, progress=False)

    measure(names[0])
    return seconds(lambda: [measure(name) for name in names[:100]]) / 100


def through_ray(count: int) -> None:
    """Print what a network costs through Ray."""
    with tempfile.TemporaryDirectory() as place:
        names = names_in(Path(place), count + WARM)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = own_time(names)
        request, folder = request_for(names, DATA), Path(place) / "runs"
        rows: dict[str, float] = {"signature in one process, without files": own}
        opening = time.perf_counter()
        with open_executor("ray", Resources(cpus=1)) as executor:
            start = time.perf_counter() - opening
            empty = [(nothing, str(folder), name, None) for name in names]
            list(finished_calls(executor, empty[:WARM]))
            alone = seconds(lambda: list(finished_calls(executor, empty[WARM:]))) / count
            outcomes = survey_outcomes(request, folder, executor=executor, device="cpu")
            first = seconds(lambda: [next(outcomes) for _ in range(WARM)])
            took = seconds(lambda: [progress(one.name) for one in outcomes]) / count
        done = list_runs(folder).counts()
    rows |= {
        "empty task of Ray, both cores": alone,
        "network of the survey, both cores": took,
        "of which beyond half a signature and an empty task": took - own / 2 - alone,
    }
    print(describe("cpu"))
    print(
        f"\n{count:,} networks, {done['finished'] - WARM:,} signatures. Start of Ray {start:.1f} s;"
    )
    print(f"of two workers with their children, and the first {WARM} networks {first:.1f} s.\n")
    print("| | ms |\n|---|---:|")
    for name, value in rows.items():
        print(f"| {name} | {1000 * value:.1f} |")


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
        rows = {
            "list_runs": seconds(lambda: list_runs(folder)),
            "read the manifest, once in a process": seconds(lambda: _request_in(folder)),
            "sigmascope measure, nothing left to do": command(*measure, *request, "-o", folder),
            "sigmascope watch --once": command("watch", folder, "--once"),
            f"load_runs of {SELECTED}": seconds(lambda: load_runs([folder], only=some)),
            f"sigmascope show --json of {SELECTED}": command("show", folder, "--json", *only),
            f"sigmascope compare of {SELECTED}": command("compare", folder, *only),
            f"load_runs of all {count:,}": seconds(lambda: load_runs([folder])),
        }
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
    print(describe("cpu"))
    print(f"\n{count:,} outcomes, {size / 1e6:,.0f} MB.\n\n| | s |\n|---|---:|")
    for name, value in rows.items():
        print(f"| {name} | {value:.1f} |")


def command(*arguments: object) -> float:
    """Return the time of a command in this process."""
    from sigmascope.cli import main

    begin = time.perf_counter()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as told,
    ):
        try:
            main([str(one) for one in arguments], prog_name="sigmascope")
        except SystemExit as end:
            if end.code:
                sys.exit(f"sigmascope {arguments[0]} ended with {end.code}: {told.getvalue()}")
    return time.perf_counter() - begin


PARTS = {"ray": (through_ray, 1000), "folder": (large_folder, 100_000)}

if __name__ == "__main__":
    part, usual = PARTS[sys.argv[1]]
    part(int(sys.argv[2]) if len(sys.argv) > 2 else usual)
