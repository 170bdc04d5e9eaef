"""`sigmascope measure --on ray://HOST:PORT` and `--on auto`, against a cluster of `ray start`."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.runs.folder import files_of
from tests.cli.running import run, started
from tests.measure.same_signature import assert_same
from tests.runs.tiny import hold, let_go, names_in

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="process groups"),
]

DATA = ("--data", "random:8", "--limit", "70", "--batch-size", "16", "--device", "cpu")
PATIENCE = 600  # seconds: against a Ray that hangs


@dataclass(frozen=True)
class Cluster:
    """A Ray of two cores that asks for a token, and the variables that reach it."""

    process: subprocess.Popen[str]
    port: int
    environment: dict[str, str]

    def measure(self, *words: str | Path) -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it has said."""
        process = started("measure", *words, **self.environment)
        output, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, output + errors


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Start a cluster of its own; `ray stop` would end those of others."""
    port, client = free_ports(2)
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "2",
    }
    words = ("--head", "--block", "--include-dashboard=false", "--num-cpus=2")
    where = ("--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={client}")
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        command = "from ray.scripts.scripts import main; main()"
        ports = ("--min-worker-port=0", "--max-worker-port=0", f"--temp-dir={folder}")
        process = subprocess.Popen(
            [sys.executable, "-c", command, "start", *words, *where, *ports],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if "Ray runtime started" in line:
                    break
            else:
                raise AssertionError("".join(said))
            here = {"RAY_ADDRESS": f"127.0.0.1:{port}"}  # of all that may run on this machine
            yield Cluster(process, client, environment | here)
        finally:
            ended(process)


def ended(process: subprocess.Popen[str]) -> None:
    """End a cluster, with all that it has started."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=60)
    kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """End all processes of the session of a cluster, whatever they do."""
    rows = subprocess.run(
        ["ps", "-e", "-o", "sid=,pid="], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    for session, number in (row.split() for row in rows if row.strip()):
        if int(session) == process.pid:
            with suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)
    process.wait()


def found_in(folder: Path, name: str) -> sg.Signature:
    found = sg.load(files_of(folder, name).finished)
    assert isinstance(found, sg.Signature)
    return found


def wait_until_held_by(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait until a run is held, or has ended, which it should not."""
    while not (folder / "networks.held").exists():
        if process.poll() is not None:
            raise AssertionError("".join(process.communicate()))
        time.sleep(0.05)


def test_a_cluster_by_its_client_port_and_by_auto(tmp_path: Path, cluster: Cluster) -> None:
    """Whole networks, parts of one, a network that fails, and Ctrl-C."""
    names = names_in(tmp_path, "conv", "broken", "held")
    assert run("measure", names[0], *DATA, "-o", tmp_path / "alone").exit_code == 0
    expected = found_in(tmp_path / "alone", names[0])
    address = f"ray://127.0.0.1:{cluster.port}"
    for number, on in enumerate((address, "auto")):
        folder = tmp_path / f"survey-{number}"
        code, said = cluster.measure(*names[:2], *DATA, "-o", folder, "--on", on)
        assert code == 3, said
        assert f"  {names[1]}: RuntimeError: the first line and the second" in said
        assert_same(found_in(folder, names[0]), expected)

        parts = ("--on", on, "--split", "3")
        code, said = cluster.measure(names[0], *DATA, "-o", tmp_path / f"parts-{number}", *parts)
        assert code == 0, said
        assert_same(found_in(tmp_path / f"parts-{number}", names[0]), expected)

    hold(tmp_path, after=0)
    command = (names[2], *DATA, "-o", tmp_path / "stopped", "--on", address)
    process = started("measure", *command, **cluster.environment)
    wait_until_held_by(process, tmp_path)
    process.send_signal(signal.SIGINT)
    assert "the same command continues from there" in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130
    let_go(tmp_path)
    code, said = cluster.measure(*command)
    assert code == 0, said


@pytest.mark.filterwarnings("ignore:process .* ended while it measured")
def test_a_cluster_that_goes_makes_no_network_fail(tmp_path: Path, cluster: Cluster) -> None:
    names = names_in(tmp_path, "held", "conv")
    hold(tmp_path, after=0)
    more = ("--on", f"ray://127.0.0.1:{cluster.port}", "--pending", "1")
    command = (*names, *DATA, "-o", tmp_path / "runs")
    process = started("measure", *command, *more, **cluster.environment)
    wait_until_held_by(process, tmp_path)
    kill(cluster.process)
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 1
    assert "the executor takes no more tasks (the Ray cluster no longer answers" in said
    assert not list((tmp_path / "runs").glob("*.error.json"))
    let_go(tmp_path)
    again = run("measure", *command)
    assert again.exit_code == 0, again.output


def test_a_token_that_is_missing_is_told(tmp_path: Path, cluster: Cluster) -> None:
    [name] = names_in(tmp_path, "conv")
    environment = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    without = Cluster(cluster.process, cluster.port, environment)
    more = ("--on", f"ray://127.0.0.1:{cluster.port}")
    code, said = without.measure(name, *DATA, "-o", tmp_path / "runs", *more)
    assert code == 1
    assert "does not answer (" in said
    assert "If it asks for a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN" in said
