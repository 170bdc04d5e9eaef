"""Surveys by executors of the standard library: the directory is the truth, whoever writes it."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as sg
from sigmascope.runs import (
    LostTaskError,
    Outcome,
    Resources,
    Shard,
    Tally,
    list_runs,
    load_runs,
    measure_runs,
    read_runs,
    started,
    survey,
)
from sigmascope.runs.commands import command_for
from sigmascope.runs.folder import SCRATCH, files_of
from sigmascope.runs.one import network_in
from sigmascope.runs.planning import plan_survey
from sigmascope.runs.started import BEAT, Pulses, Started, left_behind, under_way
from sigmascope.runs.surveying import _ends_jobs
from sigmascope.runs.tasks import Order, _within, measure_named
from sigmascope.runs.watching import view
from sigmascope.store import encode, write_json
from tests.runs.tiny import DATA, asked, names_in


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def states(outcomes: list[Outcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_a_survey_is_what_one_process_would_write(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    names = names_in(tmp_path, "conv", "broken", "wide")
    tallies = []
    found = survey(
        names,
        DATA,
        out=tmp_path / "runs",
        executor=pool,
        isolate=False,
        device="cpu",
        watch=lambda tally: tallies.append(str(tally)),
    )
    assert states(found) == ["measured", "failed", "measured"]
    assert [outcome.signature for outcome in found] == [None] * 3
    assert found[0].path == files_of(tmp_path / "runs", names[0]).finished
    list(measure_runs(asked(names), tmp_path / "whole"))
    for path in (tmp_path / "whole").glob("*.json"):
        if not path.name.endswith("error.json"):
            assert (tmp_path / "runs" / path.name).read_bytes() == path.read_bytes()
    failure = found[1].failure
    assert failure is not None
    assert failure.command == command_for(asked(names), names[1])
    assert "the first line" in failure.log
    assert tallies
    assert "/3 done, " in tallies[0]
    # what is there is kept, and what failed is tried again, by any executor
    assert states([*measure_runs(asked(names), tmp_path / "runs")]) == ["kept", "failed", "kept"]
    again = survey(names, DATA, out=tmp_path / "runs", executor=pool, isolate=False)
    assert states(again) == ["kept", "failed", "kept"]
    skipped = survey(names, DATA, out=tmp_path / "runs", executor=pool, skip=names[1:2])
    assert states(skipped) == ["kept", "skipped", "kept"]
    shard = survey(names, DATA, out=tmp_path / "runs", executor=pool, shard=Shard(3, 3))
    assert [outcome.name for outcome in shard] == names[2:]


def test_networks_that_are_handed_over(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    torch.manual_seed(0)
    networks: dict[str, nn.Module] = {
        "a": nn.Sequential(nn.Linear(6, 8), nn.ReLU()),
        "b/c": nn.Sequential(nn.Linear(6, 8), nn.Tanh()),
        "fails": nn.Sequential(nn.Linear(5, 8), nn.ReLU()),
    }
    batches = [torch.randn(32, 6) for _ in range(2)]
    found = survey(networks, batches, out=tmp_path / "runs", executor=pool)
    assert states(found) == ["measured", "measured", "failed"]
    direct = sg.signature(networks["a"], batches, name="a", progress=False)
    with pytest.warns(UserWarning, match="has no signature of fails"):
        stored = load_runs([tmp_path / "runs"])
    assert (stored[0].name, stored[0].scores.tolist()) == ("a", direct.scores.tolist())
    assert states(survey(networks, batches, out=tmp_path / "runs", executor=pool))[:2] == [
        "kept",
        "kept",
    ]
    with torch.no_grad():
        networks["a"][0].weight += 1  # type: ignore[index, operator]
    with pytest.raises(sg.ResumeError, match=r"belongs to another run: files\.given:a is"):
        survey(networks, batches, out=tmp_path / "runs", executor=pool)
    failure = found[2].failure
    assert failure is not None
    assert failure.command == ""


def test_layers_without_weights_are_part_of_a_network(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    linear, batches = nn.Linear(6, 8), [torch.randn(32, 6)]

    def surveyed(activation: nn.Module) -> list[str]:
        networks: dict[str, nn.Module] = {"n": nn.Sequential(linear, activation)}
        return states(survey(networks, batches, out=tmp_path / "runs", executor=pool))

    assert surveyed(nn.LeakyReLU(0.1)) == ["measured"]
    assert surveyed(nn.LeakyReLU(0.1)) == ["kept"]
    for other in (nn.Tanh(), nn.LeakyReLU(0.2)):
        with pytest.raises(sg.ResumeError, match=r"belongs to another run: files\.given:n is"):
            surveyed(other)


def test_every_batch_of_a_list_is_part_of_the_data(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    networks: dict[str, nn.Module] = {"n": nn.Sequential(nn.Linear(6, 8), nn.ReLU())}
    images = torch.randn(64, 6)

    def surveyed(data: Any, out: str) -> list[str]:
        return states(survey(networks, data, out=tmp_path / out, executor=pool))

    def loader(count: int) -> DataLoader[Any]:
        return DataLoader(TensorDataset(images[:count]), batch_size=32)

    other = [images[:32], images[32:] + 1]
    assert surveyed([*images.split(32)], "list") == ["measured"]
    assert surveyed([*images.split(32)], "list") == ["kept"]
    with pytest.raises(sg.ResumeError, match=r"belongs to another run: data\.name is 'given:"):
        surveyed(other, "list")
    assert surveyed(loader(64), "loader") == ["measured"]
    assert surveyed(loader(64), "loader") == ["kept"]
    with pytest.raises(sg.ResumeError, match=r"belongs to another run: data\.name is 'given:"):
        surveyed(loader(63), "loader")


@pytest.mark.parametrize(
    ("networks", "data", "how", "error", "told"),
    [
        (["a"], [1], {}, sg.InputTypeError, "data must be a Selection for names"),
        ({"a": 3}, [1], {}, sg.InputTypeError, "a must be a torch.nn.Module, got int"),
        ({"a": nn.ReLU()}, DATA, {}, sg.InputTypeError, "data must be a loader or a list"),
        ({"a": nn.ReLU()}, iter([1]), {}, sg.InputError, "can be iterated over once only"),
        ({"a": nn.ReLU()}, [], {}, sg.InputError, "data has no batch"),
        ({}, [torch.ones(2, 2)], {}, sg.InputError, "names is empty"),
        (["a"], DATA, {"executor": 3}, sg.InputTypeError, r"must have submit\(function, \.\.\.\)"),
        (["a"], DATA, {"executor": "rya"}, sg.OptionError, "on='rya' is not an engine"),
        (["a"], DATA, {"resources": Resources(gpus=99)}, sg.OptionError, "this machine has"),
        (["a"], DATA, {"pending": 0}, sg.OptionError, "pending must be a whole number >= 1"),
        (["a"], DATA, {"skip": ["b"]}, sg.OptionError, "skip='b' is not a valid choice"),
        (["a"], DATA, {"pendin": 1}, sg.OptionError, "option='pendin' is not a valid choice"),
        (
            ["a"],
            DATA,
            {"isolate": False, "resources": Resources(time_limit=1)},
            sg.OptionError,
            "a time limit needs isolate=True",
        ),
        (
            {"a": nn.ReLU()},
            [torch.ones(2, 2)],
            {"resources": Resources(time_limit=1)},
            sg.OptionError,
            "a time limit needs a process that can be ended",
        ),
    ],
)
def test_what_cannot_be_surveyed_is_refused(
    tmp_path: Path, networks: Any, data: Any, how: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        survey(networks, data, out=tmp_path / "runs", **{"executor": "local:1", **how})
    assert not (tmp_path / "runs").exists()  # so that the next try may ask for something else


def test_slurm_keeps_the_time_limit_of_networks_that_are_handed_over() -> None:
    assert _ends_jobs("slurm:gpu")
    assert not _ends_jobs("local:2")
    assert not _ends_jobs(Losing("call", 0))


class Losing:
    """An executor that loses calls: before they run, or with their result."""

    def __init__(self, lose: str, times: int) -> None:
        self.lose, self.times = lose, times
        self.calls = 0

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        lost = self.calls <= self.times
        value = None if lost and self.lose == "call" else function(*arguments)
        future.set_exception(LostTaskError("node 3 died")) if lost else future.set_result(value)
        return future


def test_what_an_executor_loses_is_looked_for_in_the_directory(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv")
    how: dict[str, Any] = {"isolate": False, "device": "cpu"}
    for lose in ("call", "result"):
        executor = Losing(lose, 1)
        found = survey(names, DATA, out=tmp_path / lose, executor=executor, **how)
        expected = ["measured"] if lose == "call" else ["kept"]
        assert (states(found), executor.calls) == (expected, 2)
    # it was lost each time, the last time after its work was done
    executor = Losing("result", 3)
    assert states(survey(names, DATA, out=tmp_path / "late", executor=executor, **how)) == [
        "measured"
    ]
    executor = Losing("call", 3)
    [found_lost] = survey(names, DATA, out=tmp_path / "never", executor=executor, **how)
    assert found_lost.state == "failed"
    assert found_lost.failure is not None
    assert "it was lost 3 times, the last time so: node 3 died" in found_lost.failure.message
    assert list_runs(tmp_path / "never").counts()["failed"] == 1


def test_the_pulse_of_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("sigmascope.runs.started.time.monotonic", lambda: clock[0])
    mark, pulses = tmp_path / "x.started", Pulses()
    mark.write_text("there")
    assert not pulses.has_stopped(mark)
    clock[0] += 89
    assert not pulses.has_stopped(mark)
    os.utime(mark, (1, 1))  # a beat, by a clock that is decades behind
    clock[0] += 2
    assert not pulses.has_stopped(mark)
    assert pulses.is_felt(mark)
    clock[0] += 91
    assert pulses.has_stopped(mark)


def test_who_has_surely_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with under_way(tmp_path / "x.started", "x"):
        own = left_behind(tmp_path / "x.started")
    assert own is not None
    assert own.has_surely_ended  # whose lock is free, in this very process
    assert not replace(own, table="elsewhere").has_surely_ended
    assert not replace(own, process=os.getppid()).has_surely_ended
    assert replace(own, process=2**22 + 1).has_surely_ended
    assert Started("x", "host", 1, 0).has_surely_ended  # of an earlier version
    beats = []
    monkeypatch.setattr("sigmascope.runs.started.BEAT", 0.01)
    monkeypatch.setattr("sigmascope.runs.started.os.utime", lambda mark: beats.append(mark))
    with under_way(tmp_path / "x.started", "x"):
        while len(beats) < 2:
            time.sleep(0.005)
    assert BEAT > 1


def test_a_pulse_outlives_a_file_system_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[Path] = []

    def beat(mark: Path) -> None:
        beats.append(mark)
        raise OSError("stale") if len(beats) < 3 else FileNotFoundError("gone")

    monkeypatch.setattr("sigmascope.runs.started.BEAT", 0.001)
    monkeypatch.setattr("sigmascope.runs.started.os.utime", beat)
    started._beat(tmp_path / "x.started", threading.Event())  # ends when the mark is gone
    assert len(beats) == 3


def test_one_process_leaves_what_beats_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sigmascope.runs.started.BEAT", 0.5)
    monkeypatch.setattr("sigmascope.runs.started.SILENCE", 1.0)
    names = names_in(tmp_path, "conv", "wide")
    list(measure_runs(asked(names), tmp_path / "runs", skip=names))
    marks = [files_of(tmp_path / "runs", name).started for name in names]
    for name, mark in zip(names, marks, strict=True):
        assert mark is not None
        write_json(mark, "started", 1, encode(Started(name, "there", 1, 0, "elsewhere")))
    feel, beats = started._pulse, itertools.count(1)

    def beating(mark: Path) -> tuple[int, int]:
        if mark == marks[1]:
            os.utime(mark, (next(beats),) * 2)
        return feel(mark)

    monkeypatch.setattr("sigmascope.runs.started._pulse", beating)
    with pytest.warns(UserWarning, match="process 1 on there ended while it measured"):
        found = list(measure_runs(asked(names), tmp_path / "runs"))
    outcomes = {outcome.name: outcome.state for outcome in found}
    assert outcomes == {names[0]: "measured", names[1]: "busy"}


def test_a_death_seen_here_is_known_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver knows the dead process; a task on another machine knows only what the mark says."""
    [name] = names_in(tmp_path, "conv")
    list(measure_runs(asked([name]), tmp_path / "runs", skip=[name]))
    network = network_in(tmp_path / "runs", name, torch.device("cpu"))
    mark = files_of(tmp_path / "runs", name).started
    assert mark is not None
    write_json(
        mark, "started", 1, encode(Started(name, "here", 2**22 + 1, 0, started.process_table()))
    )
    assert network.use(Pulses()) == "free"
    monkeypatch.setattr("sigmascope.runs.started.process_table", lambda: "elsewhere")
    with pytest.warns(UserWarning, match="process 4194305 on here ended while it measured"):
        assert network.outcome().state == "measured"


def test_a_selection_opens_no_other_file(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide", "broken", "silent")
    list(measure_runs(asked(names), tmp_path / "runs"))
    files_of(tmp_path / "runs", names[1]).finished.write_bytes(b"damaged")
    found = read_runs([tmp_path / "runs"], only=["*:conv", "broken"])
    assert [run.signature.name for run in found.runs] == [names[0]]
    assert found.failures[names[2]].message == found.missing[names[2]]
    with pytest.raises(sg.FileFormatError, match="damaged or not a JSON file"):
        read_runs([tmp_path / "runs"])
    with pytest.raises(sg.InputError, match=r"there is no signature of nothing in"):
        read_runs([tmp_path / "runs"], only=["nothing"])
    with pytest.raises(sg.InputTypeError, match="only is a single pattern"):
        read_runs([tmp_path / "runs"], only="conv")
    file = files_of(tmp_path / "runs", names[0]).finished
    assert len(read_runs([file], only=["conv"]).runs) == 1
    with pytest.raises(sg.InputError, match=r"there is no signature of wide"):
        read_runs([file], only=["wide"])


def test_the_states_of_a_directory(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "broken", "wide", "silent")
    list(measure_runs(asked(names), tmp_path / "runs", skip=names[2:]))
    mark = files_of(tmp_path / "runs", names[2]).started
    assert mark is not None
    mark.write_text("")
    found = list_runs(tmp_path / "runs")
    assert list(found.states.values()) == ["finished", "failed", "running", "open"]
    assert found.names("open", "failed") == [names[1], names[3]]
    with pytest.raises(sg.InputError, match=r"has no manifest\.json: it is not a directory"):
        list_runs(tmp_path)


@pytest.mark.filterwarnings("ignore:process .* ended while it measured")
def test_who_watches_sees_what_was_stopped(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide", "silent")
    list(measure_runs(asked(names), tmp_path / "runs", skip=names))
    for name, number in zip(names, (2**22 + 1, os.getppid(), 1), strict=True):
        table = "elsewhere" if number == 1 else started.process_table()
        mark = files_of(tmp_path / "runs", name).started
        assert mark is not None
        write_json(mark, "started", 1, encode(Started(name, "here", number, 0, table)))
    found = view(list_runs(tmp_path / "runs"))
    # the first process is not there; of that of another machine nobody here can tell
    assert [*found.running] == names[1:]
    assert str(found) == "0/3 done, 2 running, 1 to measure"
    assert Tally(3, tmp_path / "runs").running == 2
    plan = plan_survey(asked(names), tmp_path / "runs")
    assert plan.states == {"finished": 0, "failed": 0, "running": 2, "open": 1}
    # what this process itself measures, in a thread, is no less under way
    with under_way(files_of(tmp_path / "runs", names[0]).started, names[0]):
        assert Tally(3, tmp_path / "runs").running == 3


def test_the_first_results_tell_no_rate(tmp_path: Path) -> None:
    names = names_in(tmp_path, "conv", "wide", "silent", "broken")
    list(measure_runs(asked(names), tmp_path / "runs", skip=names))
    for seconds, name in enumerate(names[:3]):
        files_of(tmp_path / "runs", name).facts.touch()
        os.utime(files_of(tmp_path / "runs", name).facts, (10 * seconds,) * 2)
    mark = files_of(tmp_path / "runs", names[3]).started
    assert mark is not None
    mark.touch()
    assert view(list_runs(tmp_path / "runs")).rate == 0.1
    files_of(tmp_path / "runs", names[2]).facts.unlink()
    assert view(list_runs(tmp_path / "runs")).rate == 0.0
    files_of(tmp_path / "runs", names[2]).facts.touch()
    mark.unlink()
    assert view(list_runs(tmp_path / "runs")).rate == 0.0  # nobody is at work


def test_a_tally_counts_rates_and_time(tmp_path: Path) -> None:
    clock = [0.0]
    tally = Tally(12, tmp_path, lambda: clock[0])
    tally.count(Outcome("a", "kept"))
    assert str(tally) == "1/12 done, 0 running"
    tally.begin()
    clock[0] = 30.0
    for state in ("measured", "failed", "measured"):
        tally.count(Outcome("b", state))  # type: ignore[arg-type]
    (tmp_path / SCRATCH).mkdir()
    (tmp_path / SCRATCH / "x.started").touch()
    # kept ones are no part of the rate: three in 30 s, and eight are left
    assert str(tally) == "3/12 done, 1 running, 1 failed, 6 a minute, about 1 min 20 s left"


def test_relative_names_begin_where_the_survey_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_in(tmp_path, "conv")
    monkeypatch.chdir(tmp_path)
    list(measure_runs(asked(["py:networks.py:conv"]), "runs", skip=["py:networks.py:conv"]))
    order = Order("cpu", isolate=False, directory=str(tmp_path))
    monkeypatch.chdir("/")
    found = measure_named(str(tmp_path / "runs"), "py:networks.py:conv", order)
    assert (found.state, os.getcwd()) == ("measured", "/")
    with _within("/no such directory"):
        assert os.getcwd() == "/"


def test_without_locks_a_mark_is_created_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sigmascope.store.kept.lock", lambda *_, **__: True)
    monkeypatch.setattr("sigmascope.runs.started.SETTLED", 0.05)
    names = names_in(tmp_path, "conv")
    folder = tmp_path / "runs"
    list(measure_runs(asked(names), folder, skip=names))
    mark = files_of(folder, names[0]).started
    assert mark is not None
    real = started.left_behind

    def nobody_yet(path: Path | None) -> Started | None:
        """See no mark at first, as a process that looks just before another one writes it."""
        monkeypatch.setattr("sigmascope.runs.started.left_behind", real)
        return None

    write_json(mark, "started", 1, encode(Started(names[0], "elsewhere", 1, 0, table="another")))
    monkeypatch.setattr("sigmascope.runs.network.left_behind", lambda _: None)
    monkeypatch.setattr("sigmascope.runs.started.left_behind", nobody_yet)
    network = network_in(folder, names[0], torch.device("cpu"))
    assert network.outcome().state == "busy"
    assert real(mark) is not None
    # one that died before it wrote who it was keeps nobody away
    mark.write_bytes(b"")
    assert network.outcome().state == "measured"
