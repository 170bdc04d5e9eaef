"""How much the tests under faults try, and where they write down what came out.

In `make test` they try a little. `make test-faults` sets SIGMASCOPE_FAULTS=full: they try as much
as docs/reliability.md says, and leave a line each in the file SIGMASCOPE_FAULTS_RESULTS.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

FULL = os.environ.get("SIGMASCOPE_FAULTS") == "full"


def as_many(short: int, full: int) -> int:
    """Return how many trials to make."""
    return full if FULL else short


def write_down(trial: str, *, tried: int, failed: int, note: str = "") -> None:
    """Leave a line of the reliability table, if one is being made."""
    file = os.environ.get("SIGMASCOPE_FAULTS_RESULTS")
    if not file:
        return
    line = {
        "trial": trial,
        "tried": tried,
        "failed": failed,
        "note": note,
        "date": time.strftime("%Y-%m-%d"),
    }
    with Path(file).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
