"""The audit of model libraries: what its journal keeps, and what it counts as not tried."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

FOLDER = Path(__file__).parents[2] / "audit"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """The script, with its directory on the path as where it runs."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("audit_run", FOLDER / "run.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["audit_run"] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("audit_run", None)


def network() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(5, 3), None


def without_package() -> Any:
    raise ModuleNotFoundError("No module named 'nowhere'")


def that_fails() -> Any:
    return nn.Linear(7, 2), torch.randn(5, 3), None


def test_what_is_not_installed_or_does_not_run_is_counted(run: ModuleType) -> None:
    builders = {"a/good": network, "a/missing": without_package, "a/broken": that_fails}
    found = [run.audited(run.Case(name, build)) for name, build in builders.items()]
    total = run.totals(found)
    assert [total[name] for name in ("tried", "complete", *run.UNTRIED)] == [1, 1, 1, 1]
    assert found[1].lines == ["not installed: ModuleNotFoundError: No module named 'nowhere'"]
    assert found[2].lines[0].startswith("not run: InputError: the network does not run on this")
    head, _, row, *_ = run.table(found)
    assert "| not installed | not run |" in head
    assert row.startswith("| a | 1 | 1 |")


def test_a_journal_is_that_of_its_code(run: ModuleType, tmp_path: Path) -> None:
    row = {"tried": 1, "complete": 1}
    now, other = run.code_digest(), "of other code"
    kept = [
        run.Outcome("a/now", row, code=now),
        run.Outcome("a/other", row, code=other),
        run.Outcome("a/other, wrong", {"tried": 1, "complete": 0}, code=other),
        run.Outcome("a/now, wrong", {"tried": 1, "complete": 0}, code=now),
        run.untried("a/too long", "not run", "no result"),
        run.Outcome("a/again", row, code=now),
        run.Outcome("a/again", row, code=other),  # the last one counts
    ]
    journal = tmp_path / "journal.jsonl"
    lines = [json.dumps(asdict(one)) for one in kept]
    journal.write_text("\n".join([*lines, lines[0][:30]]))  # and one that was cut short
    assert {*run.known_outcomes(journal, trust=False)} == {"a/now", "a/now, wrong"}
    assert {*run.known_outcomes(journal, trust=True)} == {
        "a/now",
        "a/now, wrong",
        "a/other",
        "a/again",
    }
    assert run.known_outcomes(None, trust=True) == {}
