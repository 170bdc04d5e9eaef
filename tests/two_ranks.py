"""A script as two processes of one group, as torchrun starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_two_ranks(
    script: str | Path, directory: Path, *, torchrun: bool = False, **more: str
) -> None:
    """Run `script RANK DIRECTORY` twice, side by side, and fail with what both said.

    Args:
        script: the file.
        directory: where it leaves its results.
        torchrun: set the variables of each rank too, and start inside of the directory.
        more: variables of both.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    if sys.platform == "linux":
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = []
    for rank in range(2):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if torchrun else {}
        processes.append(
            subprocess.Popen(
                [sys.executable, str(script), str(rank), str(directory)],
                env=environment | own,
                cwd=directory if torchrun else None,
                **streams,
            )
        )
    try:
        said = [one.communicate(timeout=600)[0] for one in processes]
    finally:
        for one in processes:
            one.kill()
            one.wait()
    assert [one.returncode for one in processes] == [0, 0], "\n".join(said)
