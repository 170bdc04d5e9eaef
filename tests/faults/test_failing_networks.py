"""A survey of many networks of which ten fail in ten ways: the others are measured, the ten are
named.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sigmascope.runs import read_runs
from sigmascope.runs.folder import SCRATCH
from tests.cli.running import document, run
from tests.faults.failing import SOURCE, WAYS
from tests.faults.scale import as_many, write_down

COUNT = as_many(20, 200)
DATA = ("--data", "random:8", "--limit", "32", "--batch-size", "16", "--device", "cpu")
# In seconds. A network takes a tenth of one; on a busy machine it may take many times as long.
LIMIT = as_many(10, 60)


def wanted(folder: Path) -> list[str]:
    """Return the names of all networks, with those that fail spread among the others."""
    path = folder / "networks.py"
    path.write_text(SOURCE)
    names = [f"good_{number}" for number in range(COUNT - len(WAYS))]
    for place, way in enumerate(WAYS):
        names.insert(place * COUNT // len(WAYS), way)
    return [f"py:{path}:{name}" for name in names]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ten_ways_to_fail(tmp_path: Path) -> None:
    names, folder = wanted(tmp_path), tmp_path / "runs"
    command = ("measure", *names, *DATA, "--time-limit", str(LIMIT), "-o", folder, "--json")
    result = run(*command)
    assert result.exit_code == 3, result.stderr
    found = {one["name"].rpartition(":")[2]: one for one in document(result)[1]["networks"]}
    assert [f"py:{tmp_path}/networks.py:{name}" for name in found] == names
    scored = [name for name, one in found.items() if is_scored(one)]
    wrong = sorted({*found} - {*WAYS} ^ {*scored})
    wrong += [way for way, told in WAYS.items() if told not in reason(found[way])]
    unnamed = [way for way in WAYS if f"networks.py:{way}" not in result.stderr]
    write_down(
        "a survey of networks of which 10 fail in 10 ways",
        tried=COUNT,
        failed=len(wrong) + len(unnamed),
        note=f"{len(scored)} results, {len(WAYS)} named outcomes, exit code {result.exit_code}",
    )
    assert (wrong, unnamed) == ([], [])
    assert len(scored) == COUNT - len(WAYS)
    stored = read_runs([folder])
    assert len(stored.runs) == len(scored) + 1  # without_numbers has a signature without a score
    assert len(stored.missing) == len(WAYS) - 1
    assert not list((folder / SCRATCH).glob("*.started"))
    # and without those that failed, the directory is complete
    skipped = [part for way in WAYS for part in ("--skip", f"py:{tmp_path}/networks.py:{way}")]
    assert run("measure", *names, *DATA, "-o", folder, *skipped).exit_code == 0


def is_scored(network: dict[str, object]) -> bool:
    signature = network["signature"]
    return isinstance(signature, dict) and any(
        site["score"] is not None for site in signature["sites"]
    )


def reason(network: dict[str, object]) -> str:
    """Return why a network has no score."""
    if isinstance(network["failure"], dict):
        return str(network["failure"]["message"])
    signature = network["signature"]
    return str(signature["sites"][0]["reason"]) if isinstance(signature, dict) else ""
