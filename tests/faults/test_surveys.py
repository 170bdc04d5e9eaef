"""Surveys on real Ray under faults: nothing is lost, torn or measured twice in vain."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sigmascope.runs import Outcome, Resources, list_runs, measure_runs, started, survey
from sigmascope.runs.executors import Executor, open_executor
from sigmascope.runs.executors.ray_cluster import _kept_environment
from sigmascope.runs.executors.resources import has_slurm
from sigmascope.runs.folder import SCRATCH, files_of
from sigmascope.runs.started import Started, left_behind
from sigmascope.store import encode, write_json
from tests.faults.failing import SOURCE as FAILING
from tests.faults.scale import FULL, as_many, write_down
from tests.runs.tiny import DATA, SOURCE, asked, hold, let_go, wait_until_held

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
    pytest.mark.filterwarnings("ignore"),  # of Ray, about itself
]
GOOD = as_many(4, 24)  # networks beside those that meet a fault
# Every network leaves a line when it is built, so that what was measured twice is seen.
COUNTED = """
def __getattr__(name):
    kind, _, number = name.partition("_")
    if kind not in ("net", "wait"):
        raise AttributeError(name)
    def build():
        with open(f"{__file__}.built", "a") as file:
            file.write(f"{name}\\n")
        torch.manual_seed(int(number))
        return held() if kind == "wait" else conv()
    return build
"""


def prepared(folder: Path, *others: str) -> list[str]:
    """Write the networks; return their names, with one that waits in front."""
    path = folder / "networks.py"
    path.write_text(SOURCE + COUNTED)
    kinds = [*others, *(f"net_{number}" for number in range(GOOD))]
    return [f"py:{path}:{kind}" for kind in kinds]


def built(folder: Path) -> Counter[str]:
    """Return how often each network was built."""
    file = folder / "networks.py.built"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def expected(folder: Path, names: list[str]) -> dict[str, bytes]:
    """Return the results of an undisturbed run in one process."""
    before = built(folder)
    list(measure_runs(asked(names), folder / "whole"))
    (folder / "networks.py.built").write_text("\n".join(before.elements()))
    return results(folder / "whole")


def within_time(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):  # ten minutes: against what never comes
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen")


class Surveying(threading.Thread):
    """A survey in a thread, so that something can happen to it."""

    def __init__(self, names: list[str], folder: Path, executor: Executor | str, **how: Any):
        super().__init__(daemon=True)
        self.outcomes: list[Outcome] = []
        self._arguments = (names, DATA)
        self._how = {"out": folder / "runs", "executor": executor, "device": "cpu", **how}
        self.start()

    def run(self) -> None:
        self.outcomes = survey(*self._arguments, **self._how)

    def ended(self) -> list[str]:
        self.join(timeout=600)
        return [outcome.state for outcome in self.outcomes]


@pytest.fixture(scope="module")
def ray() -> Iterator[Executor]:
    """One Ray of two cores for all tests of this file that share one."""
    before = variables()
    with open_executor("ray", Resources()) as executor:
        yield executor
    within_time(lambda: not descendants("raylet"))
    assert variables() == before


def variables() -> dict[str, str]:
    """Return the variables that Ray sets; torch has some of its own."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("RAY") or name == "PYTHONBREAKPOINT"
    }


def descendants(name: str) -> list[int]:
    """Return the processes of a name that this process has started, as far as they live."""
    found = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in found.stdout.splitlines()]
    family = {os.getpid()}
    for _ in rows:
        grown = family | {int(pid) for pid, parent, *_ in rows if int(parent) in family}
        if grown == family:
            break
        family = grown
    return [
        int(row[0]) for row in rows if int(row[0]) in family and name in row[3] and row[2] != "Z"
    ]


def test_a_worker_that_is_killed(tmp_path: Path, ray: Executor) -> None:
    names = prepared(tmp_path, "wait_0")
    hold(tmp_path, after=2)
    surveying = Surveying(names, tmp_path, ray, isolate=False)
    wait_until_held(tmp_path)
    mark = left_behind(files_of(tmp_path / "runs", names[0]).started)
    assert mark is not None
    assert mark.process != os.getpid()
    os.kill(mark.process, signal.SIGKILL)
    let_go(tmp_path)
    assert surveying.ended() == ["measured"] * len(names)
    found = built(tmp_path)
    twice = [name for name, count in found.items() if count > 1]
    torn = results(tmp_path / "runs") != expected(tmp_path, names)
    write_down(
        "a survey on Ray whose worker is killed",
        tried=len(names),
        failed=len([name for name in twice if name != "wait_0"]) + torn,
        note=f"{len(names)} measured, {found.total() - len(names)} begun again",
    )
    assert not torn
    assert (twice, found["wait_0"]) == (["wait_0"], 2)
    assert left_over(tmp_path / "runs") == []


def left_over(folder: Path) -> list[str]:
    return [path.name for path in (folder / SCRATCH).iterdir() if path.suffix != ".json"]


WAYS = {  # what happens -> what the outcome must say
    "memory": "memory",
    "killed": "was ended by SIGKILL, which the system sends when memory runs out",
    "hang": "took longer than the time limit",
    "disk": "No space left on device",
    **({"segfault": "was ended by SIGSEGV", "leaves": "exit code 0"} if FULL else {}),
}


def test_networks_that_fail_fail_alone(tmp_path: Path, ray: Executor) -> None:
    path = tmp_path / "failing.py"
    path.write_text(FAILING)
    names = [
        f"py:{path}:{one}" for one in ("good_0", *WAYS, *(f"good_{k + 1}" for k in range(GOOD)))
    ]
    limit = Resources(time_limit=as_many(4, 20))
    outcomes = survey(
        names, DATA, out=tmp_path / "runs", executor=ray, resources=limit, device="cpu"
    )
    states = {one.name.rpartition(":")[2]: one for one in outcomes}
    wrong = [name for name, one in states.items() if (one.state == "failed") != (name in WAYS)]
    for way, told in WAYS.items():
        failure = states[way].failure
        assert failure is not None
        wrong += [way] * (told not in failure.message)
        assert failure.command.startswith(f"sigmascope --debug measure py:{path}:{way} --data")
    write_down(
        "a survey on Ray with networks out of memory, killed, hanging, on a full disk",
        tried=len(names),
        failed=len(wrong),
        note=f"{len(names) - len(WAYS)} results, {len(WAYS)} named outcomes",
    )
    assert wrong == []
    counts = list_runs(tmp_path / "runs").counts()
    assert (counts["finished"], counts["running"]) == (len(names) - len(WAYS), 0)


@pytest.mark.parametrize("ahead", [0.0, 86_400.0, -86_400.0], ids=["same", "ahead", "behind"])
def test_a_claim_of_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray: Executor, ahead: float
) -> None:
    """Whose clock may differ by a day: its owner has died, or is at work."""
    monkeypatch.setattr("sigmascope.runs.started.SILENCE", 1.0)
    names = prepared(tmp_path)[:2]
    survey(names, DATA, out=tmp_path / "runs", executor=ray, skip=names)
    marks = []
    for name in names:
        mark = files_of(tmp_path / "runs", name).started
        assert mark is not None
        owner = Started(name, "elsewhere", 1, 0, table="another machine")
        write_json(mark, "started", 1, encode(owner))
        os.utime(mark, (time.time() + ahead,) * 2)
        marks.append(mark)
    feel, beats = started._pulse, itertools.count(int(time.time() + ahead))

    def beating(mark: Path) -> tuple[int, int]:
        """Feel a pulse; that of the second mark has always beaten since the last time."""
        if mark == marks[1]:
            os.utime(mark, (next(beats),) * 2)
        return feel(mark)

    monkeypatch.setattr("sigmascope.runs.started._pulse", beating)
    outcomes = survey(names, DATA, out=tmp_path / "runs", executor=ray, isolate=False, device="cpu")
    monkeypatch.setattr("sigmascope.runs.started._pulse", feel)
    # the first owner has died; the second one is at work, and nobody works beside it
    assert [outcome.state for outcome in outcomes] == ["measured", "busy"]
    assert built(tmp_path) == {"net_0": 1}
    again = survey(names, DATA, out=tmp_path / "runs", executor=ray, isolate=False, device="cpu")
    assert [outcome.state for outcome in again] == ["kept", "measured"]
    write_down(
        f"a survey on Ray with claims of a machine whose clock is off by {ahead:+.0f} s",
        tried=2,
        failed=0,
        note="a dead owner is replaced, a living one is left alone",
    )


def listen() -> None:
    """Heed Ctrl-C, which a shell lets the commands that it runs in the background ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# engine and signal; each costs the start of a driver, of its workers, and of their children
ENDINGS = [("local:1", signal.SIGKILL)]
if FULL:
    ENDINGS += [(engine, kill) for engine in ("ray", "local:2") for kill in (signal.SIGINT,)]
    ENDINGS += [("ray", signal.SIGKILL), ("slurm", signal.SIGINT)]


@pytest.mark.parametrize(("engine", "kill"), ENDINGS)
def test_a_driver_that_ends_and_another_one(
    tmp_path: Path, engine: str, kill: signal.Signals
) -> None:
    names = prepared(tmp_path, "wait_0")
    hold(tmp_path, after=2)
    words = ["measure", *names, "--data", DATA.name, "--limit", str(DATA.limit)]
    words += ["--batch-size", str(DATA.batch_size), "-o", str(tmp_path / "runs"), "--on", engine]
    driver = subprocess.Popen(
        [sys.executable, "-m", "sigmascope", *words, "--device", "cpu"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        preexec_fn=listen,
    )
    wait_until_held(tmp_path)
    if engine != "local:1":  # whose only process is held
        within_time(lambda: list_runs(tmp_path / "runs").counts()["finished"] == GOOD)
    mark = left_behind(files_of(tmp_path / "runs", names[0]).started)
    assert mark is not None
    driver.send_signal(kill)
    told = driver.communicate(timeout=600)[1]
    assert driver.returncode == (-kill if kill == signal.SIGKILL else 130), told
    within_time(lambda: not is_alive(mark.process))  # nothing outlives its driver
    within_time(lambda: not session_of(driver.pid))
    let_go(tmp_path)
    done = built(tmp_path)
    # another driver, with another engine, goes on
    with ThreadPoolExecutor(1) as pool:
        again = survey(
            names, DATA, out=tmp_path / "runs", executor=pool, isolate=False, device="cpu"
        )
    assert {outcome.state for outcome in again} <= {"kept", "measured"}
    found = built(tmp_path)
    whole = expected(tmp_path, names)
    torn = results(tmp_path / "runs") != whole
    twice = found - Counter(name.rpartition(":")[2] for name in names)
    where = "submitit without Slurm" if engine == "slurm" and not has_slurm() else engine
    write_down(
        f"a survey on {where} whose driver is {'killed' if kill == signal.SIGKILL else 'stopped'}",
        tried=len(names),
        failed=int(torn) + len(twice - Counter(["wait_0"])),
        note=f"another driver measured {found.total() - done.total()}; no process was left",
    )
    assert not torn
    assert twice == {"wait_0": 1}
    assert left_over(tmp_path / "runs") == []


def is_alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def session_of(leader: int) -> list[str]:
    """Return the processes of a session."""
    found = subprocess.run(
        ["ps", "-e", "-o", "sid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in found.stdout.splitlines()]
    return [row[2] for row in rows if int(row[0]) == leader and not row[1].startswith("Z")]


@pytest.mark.skipif(not FULL, reason="a cluster of two nodes: make test-faults")
@_kept_environment()
def test_a_node_that_is_removed(tmp_path: Path) -> None:
    import ray as installed
    from ray.cluster_utils import Cluster

    if installed.is_initialized():
        installed.shutdown()
    names = prepared(tmp_path, "wait_0")
    hold(tmp_path, after=2)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        paths = os.pathsep.join(filter(None, sys.path))
        installed.init(address=cluster.address, runtime_env={"env_vars": {"PYTHONPATH": paths}})
        surveying = Surveying(names, tmp_path, "auto", isolate=False)
        wait_until_held(tmp_path)
        mark = left_behind(files_of(tmp_path / "runs", names[0]).started)
        assert mark is not None
        cluster.remove_node(next(node for node in nodes if is_below(mark.process, node)))
        within_time(lambda: not is_alive(mark.process))
        let_go(tmp_path)
        assert surveying.ended() == ["measured"] * len(names)
    finally:
        installed.shutdown()
        cluster.shutdown()
    found = built(tmp_path)
    twice = [name for name, count in found.items() if count > 1]
    torn = results(tmp_path / "runs") != expected(tmp_path, names)
    write_down(
        "a survey on a Ray cluster of two nodes of which one is removed",
        tried=len(names),
        failed=len([name for name in twice if name != "wait_0"]) + torn,
        note=f"{len(names)} measured, {found.total() - len(names)} begun again",
    )
    assert (twice, torn) == (["wait_0"], False)


def is_below(process: int, node: Any) -> bool:
    """Return whether a worker belongs to a node, whose raylet has started it."""
    [raylet] = node.all_processes["raylet"]
    parent = re.search(r"^PPid:\t(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return parent is not None and int(parent[1]) == raylet.process.pid


def test_a_torn_result_would_be_seen(tmp_path: Path) -> None:
    """Negative control of the comparison."""
    names = prepared(tmp_path)[:1]
    whole = expected(tmp_path, names)
    assert len(whole) == 3
    [outcome] = measure_runs(asked(names, replace(DATA, limit=32)), tmp_path / "runs")
    assert outcome.state == "measured"
    assert results(tmp_path / "runs").keys() == whole.keys()
    assert results(tmp_path / "runs") != whole
