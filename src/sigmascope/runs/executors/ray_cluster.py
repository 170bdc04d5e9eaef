"""Ray: a cluster that exists, or one of this machine that is started and stopped."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sigmascope.errors import MissingExtraError, OptionError
from sigmascope.runs.executors.resources import Resources, cores
from sigmascope.runs.executors.window import LostTaskError
from sigmascope.store.leftovers import is_process_alive, process_table

FOLDER = "sg-ray-"  # the beginning of the directories of Rays that are started here
ATTEMPTS = 3  # to connect
NOT_SERVED = "Starting Ray client server failed"  # what Ray says then
OWNER = "owner"  # the file in it that says when the process of its name began


@contextmanager
def ray_cluster(address: str, resources: Resources) -> Iterator[RayTasks]:
    """Yield an executor on a Ray cluster.

    Args:
        address: "" to start a Ray on this machine and to stop it at the end; "auto" for the one
            that runs here; "ray://HOST:PORT" for one elsewhere. A program that has called
            `ray.init` keeps its cluster, whatever the address.
        resources: what each task needs.

    Raises:
        MissingExtraError: Ray is not installed.
        OptionError: there is no such cluster.
    """
    ray = _ray()
    if ray.is_initialized():
        with _tasks(ray, resources) as executor:
            yield executor
        return
    with _kept_environment(), _connected(ray, address, resources) as executor:
        yield executor


@contextmanager
def _connected(ray: Any, address: str, resources: Resources) -> Iterator[RayTasks]:
    # sockets have short names: the usual place may be too deep
    place = Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())
    _remove_leftovers(place)
    folder = tempfile.mkdtemp(prefix=f"{FOLDER}{process_table()}-{os.getpid()}-", dir=place)
    Path(folder, OWNER).write_text(_beginning(os.getpid()))
    try:
        _connect(ray, address, folder)
        _check_room(ray, address, resources)
        with _tasks(ray, resources) as executor:
            yield executor
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _tasks(ray: Any, resources: Resources) -> Iterator[RayTasks]:
    executor = RayTasks(ray, resources)
    try:
        yield executor
    finally:
        executor.cancel()


@contextmanager
def _kept_environment() -> Iterator[None]:
    """Undo at the end what Ray does to the variables of this process, such as PYTHONBREAKPOINT."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in {*before, *os.environ}:
            if not name.startswith("RAY_") and name != "PYTHONBREAKPOINT":
                continue
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


class RayTasks:
    """An executor whose calls are Ray tasks; one that Ray has lost raises a `LostTaskError`."""

    def __init__(self, ray: Any, resources: Resources) -> None:
        self._ray = ray
        # lost tasks are submitted again from outside, which looks first at what they have left
        options: dict[str, Any] = {
            "num_cpus": resources.cpus,
            "num_gpus": resources.gpus,
            "max_retries": 0,
        }
        if resources.memory is not None:
            options["memory"] = resources.memory
        self._task = ray.remote(_call).options(**options)
        self._references: dict[Future[Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Return the future of a task.

        Raises:
            BrokenExecutor: the cluster no longer answers.
        """
        if not self._ray.is_initialized():  # Ray itself would start another one
            raise BrokenExecutor("the Ray cluster no longer answers")
        try:
            reference = self._task.remote(function, *arguments)
        except ConnectionError as error:
            raise BrokenExecutor(f"the Ray cluster no longer answers: {error}") from error
        future: Future[Any] = Future()
        self._references[future] = reference
        reference.future().add_done_callback(lambda told: self._settle(future, told))
        return future

    def share(self, value: Any) -> Any:
        """Return what stands for a large value among the arguments of many tasks."""
        return self._ray.put(value)

    def cancel(self) -> None:
        """End the tasks that have not ended, with the processes that run them."""
        for reference in list(self._references.values()):
            if not self._ray.is_initialized():  # here too, Ray would start another one
                return
            with suppress(Exception):  # the cluster may have gone
                self._ray.cancel(reference, force=True)

    def _settle(self, future: Future[Any], told: Future[Any]) -> None:
        self._references.pop(future, None)
        if not future.set_running_or_notify_cancel():
            return
        error, ray = told.exception(), self._ray.exceptions
        # of a client that has lost its cluster; no network is to blame
        is_lost = isinstance(error, (ray.RayError, ConnectionError))
        if error is None:
            future.set_result(told.result())
        elif isinstance(error, ray.RayTaskError) or not is_lost:
            future.set_exception(getattr(error, "cause", None) or error)
        else:
            future.set_exception(
                LostTaskError(f"{type(error).__name__}: {' '.join(str(error).split())}")
            )


def _remove_leftovers(place: Path) -> None:
    """Remove what a Ray has left whose driver was killed.

    A number means a process only among those of the same machine and container, which may not be
    all that see this directory, and later ones may have the number of one that has ended.
    """
    for folder in place.glob(f"{FOLDER}{process_table()}-*-*"):
        number = folder.name.split("-")[-2]
        if number.isdigit() and not _is_owned(folder, int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_owned(folder: Path, process: int) -> bool:
    """Return whether the process that made a directory is there, or might be."""
    if not is_process_alive(process):
        return False
    try:
        began = (folder / OWNER).read_text()
    except OSError:  # it was made a moment ago
        return True
    return began == _beginning(process)


def _beginning(process: int) -> str:
    """Return when a process began, in ticks since the start of the machine; "" if nobody says."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _check_room(ray: Any, address: str, resources: Resources) -> None:
    """Tell where no node has what a task needs: Ray would wait, and say nothing.

    Raises:
        OptionError: in a Ray that was started here, which has no other nodes to wait for.
    """
    asked = {"cpus": ("CPU", resources.cpus), "gpus": ("GPU", resources.gpus)}
    asked["memory"] = ("memory", float(resources.memory or 0))
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(name, 0) >= amount for name, amount in asked.values()) for node in nodes):
        return
    wanted = ", ".join(f"{key}={amount:g}" for key, (_, amount) in asked.items() if amount)
    there = "; ".join(
        ", ".join(f"{key}={node.get(name, 0):g}" for key, (name, _) in asked.items())
        for node in nodes[:4]
    )
    told = f"no node of this Ray has {wanted} (it has {there})"
    if not address:
        raise OptionError(f"{told}. Ask for less.")
    warnings.warn(f"{told}: networks wait until one has.", UserWarning, stacklevel=2)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; Ray itself takes none that is written in C."""
    return function(*arguments)


def _connect(ray: Any, address: str, folder: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    how: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}},
    }
    if address:
        how["address"] = address
    else:
        how |= {"num_cpus": cores(), "include_dashboard": False, "_temp_dir": folder}
        how["address"] = "local"  # also where RAY_ADDRESS names another one
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _initialize(ray, how)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray has put its own in its place
    except (ConnectionError, RuntimeError, ValueError) as error:
        told = " ".join(str(error).split())[:300]
        remedy = (
            "Start one with `ray start --head`, or pass 'ray' to start one for this run only. If "
            "it asks for a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN as on the cluster; "
            "on the same machine, Ray reads the token from ~/.ray/auth_token"
            if address
            else "Pass 'local:N' to use processes without Ray"
        )
        where = address or "this machine"
        raise OptionError(f"Ray at {where} does not answer ({told}). {remedy}.") from error


def _initialize(ray: Any, how: dict[str, Any]) -> None:
    """Connect; try again where the server of clients could not begin to serve this one.

    It forks for each client while gRPC has threads, which breaks off now and then.
    """
    for attempt in range(ATTEMPTS):
        try:
            ray.init(**how)
            return
        except ConnectionError as error:
            if NOT_SERVED not in str(error) or attempt == ATTEMPTS - 1:
                raise


def _ray() -> Any:
    try:
        with _kept_environment():
            return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError(
            f'Ray cannot be imported ({error}): pip install "sigmascope[ray]".'
        ) from error
