"""Rays that are started here: directories of those that have ended, and what tasks may ask for."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sigmascope as sg
from sigmascope.runs import LostTaskError, Resources
from sigmascope.runs.executors import Engine, finished_calls, ray_cluster
from sigmascope.runs.executors.ray_cluster import FOLDER, OWNER, RayTasks
from sigmascope.store.leftovers import process_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def made(place: Path, process: int, began: str | None, table: str | None = None) -> Path:
    folder = place / f"{FOLDER}{table or process_table()}-{process}-abc"
    folder.mkdir()
    if began is not None:
        (folder / OWNER).write_text(began)
    return folder


def ended() -> int:
    """Return the number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.mark.parametrize("began", [None, "now"])
def test_that_of_this_process_stays(tmp_path: Path, began: str | None) -> None:
    mine = ray_cluster._beginning(os.getpid())
    assert int(mine) > 0
    folder = made(tmp_path, os.getpid(), mine if began else None)
    ray_cluster._remove_leftovers(tmp_path)
    assert folder.is_dir()


def test_that_of_an_earlier_process_with_the_number_of_this_one_goes(tmp_path: Path) -> None:
    earlier = str(int(ray_cluster._beginning(os.getpid())) - 1)
    folder = made(tmp_path, os.getpid(), earlier)
    ray_cluster._remove_leftovers(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("began", [None, "1"])
def test_that_of_a_process_that_has_ended_goes(tmp_path: Path, began: str | None) -> None:
    folder = made(tmp_path, ended(), began)
    ray_cluster._remove_leftovers(tmp_path)
    assert not folder.exists()


def test_that_of_another_machine_stays(tmp_path: Path) -> None:
    folder = made(tmp_path, ended(), "1", table="01234567")
    ray_cluster._remove_leftovers(tmp_path)
    assert folder.is_dir()


class Ray:
    """What is asked of Ray: its nodes."""

    def __init__(self, **resources: float) -> None:
        self._resources = resources

    def nodes(self) -> list[dict[str, object]]:
        dead = {"Alive": False, "Resources": {"CPU": 99.0, "GPU": 99.0, "memory": 2.0**60}}
        return [dead, {"Alive": True, "Resources": self._resources}]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            Resources(gpus=0.5),
            r"no node of this Ray has cpus=1, gpus=0\.5 \(it has cpus=2, gpus=0,",
        ),
        (Resources(cpus=4), "no node of this Ray has cpus=4"),
        (Resources(memory=2**34), "memory=1.71799e"),
    ],
)
def test_what_no_node_has_is_told(asked: Resources, told: str) -> None:
    ray = Ray(CPU=2.0, memory=2.0**33)
    ray_cluster._check_room(ray, "", Resources(cpus=2, memory=2**33))
    with pytest.raises(sg.OptionError, match=told):
        ray_cluster._check_room(ray, "", asked)
    with pytest.warns(UserWarning, match="networks wait until one has"):  # it may grow
        ray_cluster._check_room(ray, "auto", asked)


@pytest.mark.parametrize("on", ["local:2", "ray"])
def test_gpus_that_are_not_there_are_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(sg.OptionError, match="this machine has no GPU that torch can use"):
        Engine.named(on).check(Resources(gpus=1))
    Engine.named("auto").check(Resources(gpus=1))  # which has machines of its own
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    Engine.named("ray").check(Resources(gpus=1))
    with pytest.raises(sg.OptionError, match=r"2 processes with gpus=1 need 2 GPUs, .* has 1"):
        Engine.named("local:2").check(Resources(gpus=1))


class Lost:
    """A Ray whose tasks end with an error each; it is gone as soon as the first has."""

    class exceptions:  # noqa: N801 - as Ray names it
        RayError = type("RayError", (Exception,), {})
        RayTaskError = type("RayTaskError", (RayError,), {})

    def __init__(self, error: Exception, *, stays: bool = False) -> None:
        self._error, self._stays, self._is_there = error, stays, True
        self.submitted = 0

    def is_initialized(self) -> bool:
        return self._is_there

    def remote(self, _: Any) -> Any:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._submitted))

    def _submitted(self, *_: Any) -> Any:
        self.submitted += 1
        self._is_there = self._stays
        told: Future[Any] = Future()
        told.set_exception(self._error)
        return SimpleNamespace(future=lambda: told)


def test_a_cluster_that_is_gone_is_no_failure_of_a_network() -> None:
    """A client of `ray://` learns it as a ConnectionError of all that is pending."""
    ray = Lost(ConnectionError("cannot be reached again"))
    with pytest.raises(LostTaskError, match=r"takes no more tasks \(the Ray cluster no longer"):
        list(finished_calls(RayTasks(ray, Resources()), [(pow, 2, 5)] * 2, pending=1))
    assert ray.submitted == 1  # another submission would have started a Ray of this machine


@pytest.mark.parametrize(
    ("error", "kind", "times"),
    [
        (Lost.exceptions.RayError("the node died"), LostTaskError, 3),
        (Lost.exceptions.RayTaskError("of the function"), Lost.exceptions.RayTaskError, 1),
        (ValueError("of the function"), ValueError, 1),
    ],
)
def test_what_is_lost_is_told_from_what_fails(
    error: Exception, kind: type[Exception], times: int
) -> None:
    ray = Lost(error, stays=True)
    [call] = finished_calls(RayTasks(ray, Resources()), [(pow, 2, 5)])
    assert (type(call.error), ray.submitted) == (kind, times)


@pytest.mark.parametrize(
    ("told", "times", "result"),
    [
        ("Initialization failure: Starting Ray client server failed. See the log", 2, ""),
        ("Starting Ray client server failed", 3, "does not answer"),
        ("ray client connection timeout", 1, "does not answer"),
    ],
)
def test_a_client_that_is_not_served_tries_again(told: str, times: int, result: str) -> None:
    """The server of clients fails to fork now and then; what else is wrong stays so."""
    tried: list[str] = []

    def init(*, address: str, **_: object) -> None:
        tried.append(address)
        if result or len(tried) < times:
            raise ConnectionAbortedError(told)

    with ray_cluster._kept_environment(), ExitStack() as stack:
        if result:
            stack.enter_context(pytest.raises(sg.OptionError, match=result))
        ray_cluster._connect(SimpleNamespace(init=init), "ray://head:10001", "")
    assert tried == ["ray://head:10001"] * times


def test_what_ray_does_to_variables_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "before")
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    before = dict(os.environ)
    with ray_cluster._kept_environment():
        os.environ |= {"RAY_ADDRESS": "other", "RAY_AUTH_MODE": "token", "PYTHONBREAKPOINT": "x"}
    assert dict(os.environ) == before
